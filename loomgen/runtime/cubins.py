"""Cubins of a registry's kernels: bundled ones first, then the cache, then a compiler."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from loomgen.errors import LoomgenError
from loomgen.registry import KernelEntry
from loomgen.root import kernel_root
from loomgen.runtime.bundle import Bundle
from loomgen.runtime.cache import CubinCache, CubinWarning, default_cache_folder
from loomgen.runtime.compilers import Compiler, NoCompiler, find_compiler
from loomgen.runtime.content import SOURCE_HEADERS, content_keys
from loomgen.target import Target
from loomgen.toolchain.build import CubinJob
from loomgen.toolchain.digest import texts_digest
from loomgen.toolchain.find import MissingTool

Progress = Callable[[int, int], None]

_KEY_DIGITS = 24
_BAR_COLUMNS = 30


class NoCubin(LoomgenError):
    """A kernel without a cubin, and no compiler to make one; the message says how to get either."""


def show_progress(done: int, total: int) -> None:
    """A bar on the terminal that stderr is, if it is one."""
    if not sys.stderr.isatty():
        return
    bar = "#" * (_BAR_COLUMNS * done // total)
    end = "\n" if done == total else ""
    print(f"\rcompiling kernels [{bar:<{_BAR_COLUMNS}}] {done}/{total}", end=end, file=sys.stderr, flush=True)


@dataclass(frozen=True, kw_only=True)
class CubinStore:
    """Where the cubins of the project at ``root`` come from.

    Threads and processes may use one cache at once: each kernel is built by one of them. ``n_parallel`` compilations
    run at a time (default: as many as ninja chooses).
    """

    root: Path = field(default_factory=kernel_root)
    cache: Path = field(default_factory=default_cache_folder)
    bundle: Bundle = field(default_factory=Bundle)
    n_parallel: int | None = None
    on_progress: Progress = show_progress

    def cubins(self, kernels: Sequence[KernelEntry], target: Target) -> dict[str, bytes]:
        """The cubins of ``kernels`` for ``target``, by kernel name; what is missing is compiled.

        Raises StaleRegistry, :class:`NoCubin` and BuildFailed. Warns (CubinWarning) of a damaged entry, which is built
        again, and of a cache that cannot be written, in whose place a temporary folder is used.
        """
        contents = content_keys(kernels, target, self.root)
        bundled = self.bundle.read(contents, target)
        missing = [kernel for kernel in kernels if kernel.name not in bundled]
        if not missing:
            return bundled
        compiler = self._compiler(missing, target)
        version = compiler.version
        names = {k.name: f"{k.name}-{texts_digest([contents[k.name], version])[:_KEY_DIGITS]}" for k in missing}
        build = _Build(store=self, target=target, names=names, compiler=compiler)
        return bundled | build.cubins(missing)

    @cached_property
    def temporary(self) -> Path:
        """The folder that takes the place of a cache that cannot be written; gone when the process ends."""
        return Path(self._temporary.name)

    @cached_property
    def _temporary(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="loomgen-")

    def _compiler(self, missing: Sequence[KernelEntry], target: Target) -> Compiler:
        try:
            return find_compiler()
        except (MissingTool, NoCompiler) as error:
            names = ", ".join(kernel.name for kernel in missing)
            raise NoCubin(
                f"no cubin for {target.name} of {names}: {error}; or, where there is nvcc, bundle cubins of these "
                f"sources into the package: `loomgen build --arch {target.name} --bundle`"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """One search for cubins in a cache, and the build of those that are not there; ``names`` are their entries."""

    store: CubinStore
    target: Target
    names: Mapping[str, str]
    compiler: Compiler

    def cubins(self, kernels: Sequence[KernelEntry]) -> dict[str, bytes]:
        cache = self._cache(self.store.cache)
        found = self._read(kernels, cache)
        missing = [kernel for kernel in kernels if kernel.name not in found]
        return found | self._build(missing, cache) if missing else found

    def _build(self, kernels: Sequence[KernelEntry], cache: CubinCache) -> dict[str, bytes]:
        """Builds under the cache's lock what no other process has built in the meantime."""
        with ExitStack() as stack:
            try:
                scratch = stack.enter_context(cache.locked())
            except OSError as error:
                warnings.warn(
                    f"{cache.folder}: cannot be written ({error.strerror}); cubins go to a temporary folder "
                    "and are built again by the next process. LOOMGEN_CACHE_DIR names another cache",
                    CubinWarning,
                    stacklevel=5,
                )
                cache = self._cache(self.store.temporary)
                scratch = stack.enter_context(cache.locked())
            found = self._read(kernels, cache)
            missing = [kernel for kernel in kernels if kernel.name not in found]
            return found | self._compile(missing, cache, scratch)

    def _compile(self, kernels: Sequence[KernelEntry], cache: CubinCache, scratch: Path) -> dict[str, bytes]:
        root = self.store.root.absolute()  # compilers run in the scratch folder
        jobs = [
            CubinJob(kernel=k, target=self.target, source=root / k.source.path, cubin=scratch / f"{k.name}.cubin")
            for k in kernels
        ]
        if jobs:
            self.compiler.compile(
                jobs,
                folder=scratch,
                include=root / SOURCE_HEADERS,
                n_parallel=self.store.n_parallel,
                on_progress=self.store.on_progress,
            )
        built = {job.kernel.name: job.cubin.read_bytes() for job in jobs}
        for name, cubin in built.items():
            cache.write(self.names[name], cubin, scratch)
        return built

    def _read(self, kernels: Sequence[KernelEntry], cache: CubinCache) -> dict[str, bytes]:
        found = {kernel.name: cache.read(self.names[kernel.name]) for kernel in kernels}
        return {name: cubin for name, cubin in found.items() if cubin is not None}

    def _cache(self, folder: Path) -> CubinCache:
        return CubinCache(folder.absolute() / "cubin" / self.target.name)
