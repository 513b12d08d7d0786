"""Spec files to kernels: the front door of the front end."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from loomgen.errors import Span, SpecError
from loomgen.ir.kernel import KernelSpec
from loomgen.spec.codes import Code
from loomgen.spec.expand import expand
from loomgen.spec.model import validate
from loomgen.spec.names import check_names
from loomgen.spec.report import Collector, Reject
from loomgen.spec.source import Document, read_document


def load(paths: Iterable[Path], root: Path) -> tuple[KernelSpec, ...]:
    """The kernels of the spec files, in the order of ``paths``, each file's variants in its own order.

    Spans and ``spec_path`` are relative to ``root``, with forward slashes. Raises :class:`SpecError` with every
    mistake that can be found in all the files.
    """
    diagnostics = Collector()
    kernels = [kernel for path in paths for kernel in _load_file(path, root, diagnostics)]
    _check_unique(kernels, diagnostics)
    if diagnostics.found:
        raise SpecError(diagnostics.found)
    return tuple(kernels)


def shown_path(path: Path, root: Path) -> str:
    """How spans name ``path``."""
    return Path(os.path.relpath(path.resolve(), root.resolve())).as_posix()


def _load_file(path: Path, root: Path, diagnostics: Collector) -> tuple[KernelSpec, ...]:
    shown, found = shown_path(path, root), Collector()
    kernels: tuple[KernelSpec, ...] = ()
    with found.collecting():
        kernels = _kernels(read_document(shown, _read(path, shown)), found)
    diagnostics.found += sorted(found.found, key=lambda item: (item.span.line, item.span.col, item.code))
    return kernels


def _kernels(document: Document, diagnostics: Collector) -> tuple[KernelSpec, ...]:
    checked = validate(document, diagnostics)
    if checked is None:
        return ()
    content = Collector()  # mistakes of form were mended and do not stop the search for those of content
    check_names(*checked, content)
    kernels = expand(*checked, content)
    diagnostics.found += content.found
    return kernels


def _read(path: Path, shown: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        span = Span(path=shown, line=1, col=1, end_col=2)
        raise Reject(Code.UNREADABLE, span, f"cannot be read: {reason}") from None


def _check_unique(kernels: list[KernelSpec], diagnostics: Collector) -> None:
    first: dict[str, KernelSpec] = {}
    for kernel in kernels:
        name = str(kernel.name)
        if name in first:
            message = f"kernel `{name}` is defined in {first[name].spec_path} already"
            diagnostics.add(Code.SAME_KERNEL, kernel.program.span, message)
        first.setdefault(name, kernel)
