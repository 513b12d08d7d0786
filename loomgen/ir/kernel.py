"""What a kernel is to the outside: its name, its spec, its arguments and its launch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

from loomgen.ir.schedule import Schedule
from loomgen.ir.tile import Program
from loomgen.ir.types import DType

_PART = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelName:
    """``<stage>__<dims and dtypes>__<variant>[__<instantiation>]``, for example
    ``fwd_h__c64_k128_v128_bf16__r32k2__plain``; no part contains a double underscore."""

    stage: str
    signature: str
    variant: str
    instantiation: str | None = None

    def __post_init__(self) -> None:
        for part in self._parts():
            if not _PART.fullmatch(part):
                raise ValueError(f"kernel name part {part!r}: want lower case words joined by single underscores")

    def _parts(self) -> tuple[str, ...]:
        parts = (self.stage, self.signature, self.variant)
        return parts if self.instantiation is None else (*parts, self.instantiation)

    def __str__(self) -> str:
        return "__".join(self._parts())

    def matches(self, glob: str) -> bool:
        """Whether the glob matches the stage or the whole name."""
        return fnmatchcase(self.stage, glob) or fnmatchcase(str(self), glob)

    @classmethod
    def parse(cls, text: str) -> KernelName:
        parts = text.split("__")
        if len(parts) not in (3, 4):
            raise ValueError(f"kernel name {text!r}: want <stage>__<signature>__<variant>[__<instantiation>]")
        instantiation = parts[3] if len(parts) == 4 else None
        return cls(stage=parts[0], signature=parts[1], variant=parts[2], instantiation=instantiation)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    """One expansion of a stage spec: a variant and an instantiation, for every target in ``targets``.

    ``spec_digest`` is the SHA-256 of the canonical parsed spec: comments and blank lines do not change it. ``about`` is
    the spec's, for readers.
    """

    name: KernelName
    family: str
    program: Program
    schedule: Schedule
    spec_path: str
    spec_digest: str
    targets: tuple[str, ...]
    about: str = ""


class ArgumentKind(Enum):
    TENSOR = "tensor"  # a pointer
    TABLE = "table"  # a pointer to a window table (cu_seqlens, chunk_start, ...)
    DIM = "dim"  # an i32 run-time dim
    STRIDE = "stride"  # an i64 stride in elements
    SCALAR = "scalar"
    TENSOR_MAP = "tensor_map"  # the hardware's description of a tensor, by which it copies boxes


def tensor_map_name(tensor: str) -> str:
    """The argument that describes a tensor to the hardware."""
    return f"{tensor}_map"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBox:
    """What a tensor map copies at once: ``rows`` x ``cols`` elements of ``tensor``, seen as a matrix whose rows are the
    tensor's first dimension. In shared memory a row's 16-byte chunks are permuted as a ``SharedTile`` of ``swizzle``
    does it."""

    tensor: str
    rows: int
    cols: int
    swizzle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One parameter of the kernel's C signature, in order.

    ``shape`` is the tensor's (numbers and run-time dims), or empty; ``access`` is in, out or inout for pointers.
    ``source`` says which tensor and dimension a stride belongs to: ``("h0", 2)``; ``box`` what a tensor map copies.
    """

    name: str
    kind: ArgumentKind
    dtype: DType
    shape: tuple[int | str, ...] = ()
    access: str | None = None
    optional: bool = False
    source: tuple[str, int] | None = None
    box: TensorBox | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """``grid`` is a product of numbers and run-time dims, along x only; ``shared_bytes`` is dynamic."""

    threads: int
    min_blocks: int
    grid: tuple[int | str, ...]
    shared_bytes: int
