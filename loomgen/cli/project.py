"""The project that a command works on: its specs, its headers, the compiler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loomgen.errors import LoomgenError
from loomgen.root import kernel_root

if TYPE_CHECKING:
    from loomgen.ir.kernel import KernelSpec
    from loomgen.passes.pipeline import LoweredKernel
    from loomgen.render import Compiler

_NOT_SPECS = ("tables", "rounds")
"""Folders below ``specs/`` whose YAML files are data for specs."""

_HEADER_SUFFIXES = (".cuh", ".hpp")


class NoSuchStage(LoomgenError):
    """A stage or kernel that no spec has."""

    def __init__(self, wanted: str, known: Iterable[str]) -> None:
        super().__init__(f"no stage or kernel is called {wanted!r}; stages: {', '.join(sorted(set(known))) or 'none'}")


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with ``specs/``, ``generated/`` and ``registry/``."""

    root: Path

    def spec_paths(self) -> tuple[Path, ...]:
        """The spec files, sorted; raises LoomgenError where there is no project."""
        folder = self.root / "specs"
        if not folder.is_dir():
            raise LoomgenError(f"{self.root} is no project: it has no folder specs; name one with --root")
        paths = sorted(folder.rglob("*.yaml"))
        return tuple(path for path in paths if not set(path.relative_to(folder).parts) & set(_NOT_SPECS))

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Every kernel of every spec; raises SpecError."""
        from loomgen.spec import load

        return load(self.spec_paths(), self.root)


def default_root() -> Path:
    """The project of a command without --root, wherever it is run: the checkout that holds this package, or its
    bundle, which has kernels and no specs."""
    return kernel_root()


def matching(kernels: Sequence[KernelSpec], pattern: str | None) -> tuple[KernelSpec, ...]:
    """The kernels whose stage or whole name matches the glob, in the order of names; raises NoSuchStage if none
    does."""
    in_order = sorted(kernels, key=lambda kernel: str(kernel.name))
    if pattern is None:
        return tuple(in_order)
    found = tuple(kernel for kernel in in_order if kernel.name.matches(pattern))
    if not found:
        raise NoSuchStage(pattern, (kernel.name.stage for kernel in kernels))
    return found


def headers() -> dict[str, bytes]:
    """The device headers that are exported with the sources, by posix path below the include folder."""
    folder = Path(__file__).resolve().parents[1] / "include"
    paths = sorted(path for path in folder.rglob("*") if path.suffix in _HEADER_SUFFIXES)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def compiler() -> Compiler[LoweredKernel]:
    """The passes and the CUDA printer."""
    from loomgen.emit.cuda import emit_body
    from loomgen.passes.pipeline import lower
    from loomgen.render import Compiler

    return Compiler(lower=lower, emit_body=emit_body)
