"""The rendered tree, in memory: a pure function of the specs and of the compiler."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from loomgen.emit.layout import kernel_source
from loomgen.errors import InternalError
from loomgen.ir.kernel import KernelSpec
from loomgen.registry import SCHEMA_VERSION, Registry, SourceEntry, canonical_json, published_schema
from loomgen.render.compiler import Compiler, LoweredT
from loomgen.render.entry import kernel_entry
from loomgen.render.paths import GENERATED, HEADERS, MANIFEST, REGISTRY_SCHEMA, registry_path, source_path
from loomgen.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rendered(Generic[LoweredT]):
    """A kernel brought to text for one target."""

    kernel: KernelSpec
    target: Target
    lowered: LoweredT
    content: bytes


def render_tree(
    specs: Sequence[KernelSpec],
    targets: Sequence[Target],
    compiler: Compiler[LoweredT],
    headers: Mapping[str, bytes],
    on_kernel: Callable[[KernelSpec, Target], None] = lambda kernel, target: None,
) -> dict[str, bytes]:
    """All files of ``specs`` for ``targets``, by posix path from the project's root, sorted.

    Targets that may share sources belong together in ``targets``, as a :class:`Selection` puts them.
    ``headers`` are exported as they are, by their path below the include folder. ``on_kernel`` is called after
    each kernel, to show progress. Raises what the passes raise: ``SpecError`` or ``InternalError``.
    """
    files = {f"{HEADERS}/{path}": content for path, content in headers.items()}
    files[REGISTRY_SCHEMA] = published_schema()
    rendered = _render_kernels(specs, targets, compiler, on_kernel)
    for target in targets:
        sources = [_locate(item, rendered) for item in rendered.values() if item.target == target]
        files.update({source.path: item.content for source, item in sources})
        entries = tuple(kernel_entry(item.kernel, item.lowered, source) for source, item in sources)
        registry = Registry(schema_version=SCHEMA_VERSION, arch=target.name, kernels=entries)
        files[registry_path(target.name)] = canonical_json(registry.model_dump(mode="json"))
    files[MANIFEST] = _manifest(files)
    return dict(sorted(files.items()))


def _render_kernels(
    specs: Sequence[KernelSpec],
    targets: Sequence[Target],
    compiler: Compiler[LoweredT],
    on_kernel: Callable[[KernelSpec, Target], None],
) -> dict[tuple[str, str], _Rendered[LoweredT]]:
    """Every kernel for every target it has, by names, sorted."""
    rendered: dict[tuple[str, str], _Rendered[LoweredT]] = {}
    for kernel in sorted(specs, key=lambda spec: str(spec.name)):
        for target in (target for target in targets if target.name in kernel.targets):
            key = (str(kernel.name), target.name)
            if key in rendered:
                raise InternalError("render", f"two kernels are called {kernel.name}")
            lowered = compiler.lower(kernel, target)
            content = kernel_source(kernel, compiler.emit_body(lowered)).encode("utf-8")
            rendered[key] = _Rendered(kernel=kernel, target=target, lowered=lowered, content=content)
            on_kernel(kernel, target)
    return rendered


def _locate(
    item: _Rendered[LoweredT], rendered: Mapping[tuple[str, str], _Rendered[LoweredT]]
) -> tuple[SourceEntry, _Rendered[LoweredT]]:
    """Where a source lies: with its group if the target that leads it has the same text, else by itself."""
    name = str(item.kernel.name)
    leader = rendered.get((name, item.target.source_group))
    shared = leader is not None and leader.content == item.content
    directory = item.target.source_group if shared else item.target.name
    path = source_path(directory, item.kernel.family, name)
    return SourceEntry(path=path, sha256=_sha256(item.content)), item


def _manifest(files: Mapping[str, bytes]) -> bytes:
    """The digest of every generated file, by path."""
    generated = {path: _sha256(content) for path, content in files.items() if path.startswith(f"{GENERATED}/")}
    return canonical_json({"files": generated})


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
