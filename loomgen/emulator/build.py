"""Compiles kernels, and once the emulator itself, into shared libraries for the host.

Everything is cached under the digest of what it is built from: sources, headers, flags and compiler. A library
appears in the cache by an atomic rename, so builds may run side by side.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from loomgen.emulator.report import EmulatorBuildError
from loomgen.toolchain.digest import texts_digest
from loomgen.toolchain.find import GXX, find_tool

FLAGS = ("-std=c++17", "-O2", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-DLOOM_HOST")
RUNTIME_SOURCES = Path(__file__).parent / "csrc"
_DIGEST_DIGITS = 24
"""Of a digest in a file's name."""

Kind = Literal["pointer", "tensor_map", "i32", "i64", "f32", "bool"]

_C_TYPES: dict[Kind, str] = {
    "pointer": "void*",
    "tensor_map": "const void*",  # the address of a reference
    "i32": "std::int32_t",
    "i64": "std::int64_t",
    "f32": "float",
    "bool": "bool",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel's C signature."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """The kernel ``symbol`` of the ``.cu`` file ``path`` and its signature."""

    path: Path
    symbol: str
    parameters: tuple[Parameter, ...]

    @property
    def invoker(self) -> str:
        """The function of the library that calls the kernel with the values its argument points at."""
        return f"loom_invoke_{self.symbol}"


def stub_source(kernels: Sequence[KernelSource]) -> str:
    """A translation unit with the invoker of each kernel."""
    lines = [
        "#include <cstdint>",
        "template <typename T> T value(const void* p) { return *static_cast<const T*>(p); }",
    ]
    for kernel in kernels:
        types = [_C_TYPES[parameter.kind] for parameter in kernel.parameters]
        values = ", ".join(f"value<{c_type}>(p[{i}])" for i, c_type in enumerate(types))
        lines.append(f'extern "C" void {kernel.symbol}({", ".join(types)});')
        lines.append(f'extern "C" void {kernel.invoker}(const void* const* p) {{ {kernel.symbol}({values}); }}')
    return "\n".join(lines) + "\n"


def build_kernels(
    kernels: Sequence[KernelSource], include_dirs: Sequence[Path], cache_dir: Path, library_dir: Path | None = None
) -> Path:
    """Compiles the kernels for the host, as one translation unit, and links them with the emulator; returns the
    library's path, in the cache unless ``library_dir`` is another folder. Kernels of one call have different symbols.

    Raises MissingTool without g++, :class:`EmulatorBuildError` when it refuses a kernel.
    """
    compiler = str(find_tool(GXX))
    stub = stub_source(kernels)
    headers = _header_digest(include_dirs)
    runtime = _build_runtime(compiler, include_dirs, headers, cache_dir)
    digest = texts_digest([runtime.name, headers, stub, *(kernel.path.read_text() for kernel in kernels)])
    library = (library_dir or cache_dir) / f"{kernels[0].symbol[:80]}-{digest[:_DIGEST_DIGITS]}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        stub_path, unit = Path(scratch) / "stub.cpp", Path(scratch) / "kernels.cpp"
        stub_path.write_text(stub)
        paths = dict.fromkeys(kernel.path.resolve() for kernel in kernels)
        unit.write_text("".join(f'#include "{path}"\n' for path in paths))
        built = Path(scratch) / "kernels.so"
        objects = map(str, sorted(runtime.glob("*.o")))
        command = [compiler, *FLAGS, *_include_flags(include_dirs), "-shared", "-o", str(built)]
        _run([*command, str(unit), str(stub_path), *objects], _described(kernels))
        built.replace(library)
    return library


def _described(kernels: Sequence[KernelSource]) -> str:
    names = ", ".join(dict.fromkeys(kernel.path.name for kernel in kernels))
    return f"the kernel{'s' if len(kernels) > 1 else ''} {names}"


def _build_runtime(compiler: str, include_dirs: Sequence[Path], headers: str, cache_dir: Path) -> Path:
    """The emulator's object files, in a folder of the cache."""
    sources = sorted(RUNTIME_SOURCES.glob("*.cpp"))
    texts = [path.read_text() for path in sorted(RUNTIME_SOURCES.iterdir()) if path.is_file()]
    digest = texts_digest([*FLAGS, _version(compiler), headers, *texts])
    folder = cache_dir / f"runtime-{digest[:_DIGEST_DIGITS]}"
    if folder.exists():
        return folder
    cache_dir.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=cache_dir))
    try:
        for path in sources:
            target = scratch / f"{path.stem}.o"
            command = [compiler, *FLAGS, *_include_flags(include_dirs), "-c", str(path), "-o", str(target)]
            _run(command, "the emulator")
        _publish(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _publish(scratch: Path, folder: Path) -> None:
    """Renames ``scratch`` to ``folder`` unless another process was first."""
    try:
        scratch.rename(folder)
    except OSError:
        if not folder.exists():
            raise


def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _run(command: Sequence[str], what: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise EmulatorBuildError(f"g++ could not compile {what}:\n{result.stderr.strip()}")


def _include_flags(include_dirs: Sequence[Path]) -> list[str]:
    return [flag for path in include_dirs for flag in ("-I", str(path))]


def _header_digest(include_dirs: Sequence[Path]) -> str:
    files = [(path.relative_to(d), path) for d in include_dirs for path in sorted(d.rglob("*")) if path.is_file()]
    return texts_digest(text for name, path in files for text in (str(name), path.read_text()))
