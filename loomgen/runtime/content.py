"""What a cubin is made from, as digests: the name under which it is kept and found again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from loomgen.errors import LoomgenError
from loomgen.registry import KernelEntry, registry_path
from loomgen.target import Target
from loomgen.toolchain.build import COMMON_FLAGS
from loomgen.toolchain.digest import texts_digest

SOURCE_HEADERS = Path("generated") / "include"
"""Where the headers of the exported sources lie below a root."""


class StaleRegistry(LoomgenError):
    """A source that is not the one that its registry describes: its parameters may be others."""


def content_keys(kernels: Sequence[KernelEntry], target: Target, root: Path) -> Mapping[str, str]:
    """By kernel name, the digest of what nvcc reads: the source, all headers, the flags.

    The compiler is not in it. Raises :class:`StaleRegistry` for a source below ``root`` that is missing or
    is not the one that the registry tells of.
    """
    headers = _headers_digest(root / SOURCE_HEADERS)
    return {
        kernel.name: texts_digest([_source_digest(kernel, target, root), headers, target.gencode, *COMMON_FLAGS])
        for kernel in kernels
    }


def _source_digest(kernel: KernelEntry, target: Target, root: Path) -> str:
    path = root / kernel.source.path
    mend = f"`loomgen render --arch {target.name}` writes both"
    if not path.is_file():
        raise StaleRegistry(f"{path}: no such source, which {registry_path(target.name)} names; {mend}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != kernel.source.sha256:
        raise StaleRegistry(f"{path}: not the source that {registry_path(target.name)} describes; {mend}")
    return found


def _headers_digest(include: Path) -> str:
    paths = sorted(path for path in include.rglob("*") if path.is_file())
    names_and_bytes = ((path.relative_to(include).as_posix(), path.read_bytes()) for path in paths)
    return texts_digest(text for name, data in names_and_bytes for text in (name, hashlib.sha256(data).hexdigest()))
