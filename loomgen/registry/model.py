"""The registry's contents; the published JSON schema is generated from these classes, their docstrings included.

``signature`` and ``instantiation`` of a kernel, its ``scan`` and the ``path`` of its spec are for whoever reads a
registry from outside, to group kernels, to choose among variants and to find what they come from; nothing in this
project runs by them.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = "1.1"
"""``major.minor``: a reader refuses another major and ignores what a later minor adds."""

Extent = int | str
"""A number, or the name of a run-time dim, plus one in the shape of a table that also holds the end: ``N + 1``."""

_ONE_MORE = " + 1"


def dim_and_more(extent: str) -> tuple[str, int]:
    """The run-time dim that ``extent`` names, and what is added to it: N and 1 for ``N + 1``, N and 0 for ``N``."""
    dim = extent.removesuffix(_ONE_MORE)
    return dim, int(dim != extent)


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class SourceEntry(_Entry):
    """A CUDA source: its path from the project's root, and the SHA-256 of its bytes."""

    path: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class SpecEntry(_Entry):
    """The spec a kernel comes from; ``digest`` is that of its parsed content, so comments do not change it."""

    path: str
    digest: str


class StrideSource(_Entry):
    """The tensor and the dimension (from 0) whose stride, in elements, an argument is."""

    tensor: str
    dim: int


class BoxEntry(_Entry):
    """What a tensor map copies at once: ``rows`` x ``cols`` elements of ``tensor``, a matrix whose rows are its first
    dimension; ``swizzle`` bits of the 16-byte chunks are permuted in shared memory (3: the 128-byte mode)."""

    tensor: str
    rows: int = Field(gt=0)
    cols: int = Field(gt=0)
    swizzle: int = Field(ge=0, le=3)


class ArgumentEntry(_Entry):
    """A parameter of the kernel, in the order of its signature.

    ``shape`` counts elements and is empty for what is not a tensor; ``access`` is set for pointers, ``source``
    for strides and tensor maps; an ``optional`` pointer may be null.
    """

    name: str
    kind: Literal["tensor", "table", "dim", "stride", "scalar", "tensor_map"]
    dtype: str
    shape: tuple[Extent, ...]
    access: Literal["in", "out", "inout"] | None
    optional: bool
    source: StrideSource | BoxEntry | None

    @property
    def tensor(self) -> str | None:
        """The tensor that the argument points to or maps."""
        if isinstance(self.source, BoxEntry):
            return self.source.tensor
        return self.name if self.kind in ("tensor", "table") else None


class LaunchEntry(_Entry):
    """The launch: ``threads`` a block, and as many blocks along x as the product of ``grid``."""

    threads: int = Field(gt=0)
    min_blocks: int = Field(ge=0)
    grid: tuple[Extent, ...]
    dynamic_shared_bytes: int = Field(ge=0)


class ScanEntry(_Entry):
    """The block of a kernel that carries a state along a sequence.

    ``step`` tokens an iteration; ``blocks`` maps a blocked grid axis to the elements a CTA owns; ``parts`` maps
    an index letter to the number of parts its sums are split into.
    """

    step: int = Field(gt=0)
    blocks: dict[str, int]
    parts: dict[str, int]


class Multiple(_Entry):
    """The run-time dim ``dim`` must be a multiple of the run-time dim ``of``."""

    dim: str
    of: str


class Constraints(_Entry):
    """What a call must satisfy: the static ``dims`` the kernel was made for, and relations of run-time dims."""

    dims: dict[str, int]
    multiples: tuple[Multiple, ...]


class KernelEntry(_Entry):
    """One kernel: what it is called, where it comes from, how it is called."""

    name: str
    stage: str
    signature: str
    variant: str
    instantiation: str | None
    family: str
    symbol: str
    source: SourceEntry
    spec: SpecEntry
    arguments: tuple[ArgumentEntry, ...]
    launch: LaunchEntry
    scan: ScanEntry | None
    constraints: Constraints


class Registry(_Entry):
    """All kernels of one architecture, sorted by name."""

    schema_version: str = Field(pattern=r"^\d+\.\d+$")
    arch: str
    kernels: tuple[KernelEntry, ...]

    def kernel(self, name: str) -> KernelEntry:
        """The kernel called ``name``; raises KeyError."""
        for entry in self.kernels:
            if entry.name == name:
                return entry
        raise KeyError(name)
