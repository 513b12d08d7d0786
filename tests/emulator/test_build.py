"""Compiling kernels: for the host, with its cache and its errors, and for every target with nvcc."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from loomgen.emulator import Buffer, EmulatorBuildError, KernelSource, build, compile_kernels
from loomgen.emulator.build import Parameter, build_kernels, stub_source
from loomgen.emulator.report import statement_above
from loomgen.toolchain.find import MissingTool
from tests.emulator.support import CACHE, INCLUDE, KERNELS, compiled, kernel_text


def test_the_stub_calls_the_kernel_with_typed_values() -> None:
    parameters = (Parameter("a", "pointer"), Parameter("n", "i32"), Parameter("s", "f32"))
    text = stub_source([KernelSource(path=Path("k.cu"), symbol="k", parameters=parameters)])
    assert 'extern "C" void k(void*, std::int32_t, float);' in text
    assert "{ k(value<void*>(p[0]), value<std::int32_t>(p[1]), value<float>(p[2])); }" in text


def test_a_kernel_is_built_once_and_again_when_it_changes(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    kernel = KernelSource(path=source, symbol="k", parameters=())
    source.write_text('#include "loom/loom.cuh"\nLOOM_KERNEL(32, 1) k() {}\n')
    first = build_kernels([kernel], [INCLUDE], CACHE)
    time = first.stat().st_mtime_ns
    assert build_kernels([kernel], [INCLUDE], CACHE) == first
    assert first.stat().st_mtime_ns == time
    source.write_text('#include "loom/loom.cuh"\nLOOM_KERNEL(32, 1) k() { loom::sync_warp(); }\n')
    second = build_kernels([kernel], [INCLUDE], CACHE)
    assert second != first
    second.unlink()


def test_kernels_of_one_library_are_told_apart(tmp_path: Path) -> None:
    sources = []
    for symbol, value in (("one", "1.0f"), ("two", "2.0f")):
        path = tmp_path / f"{symbol}.cu"
        body = f"if (thread_index() == 0) st_global(y, {value});"
        path.write_text(
            f'#include "loom/loom.cuh"\nusing namespace loom;\nLOOM_KERNEL(32, 1) {symbol}(float* y) {{ {body} }}\n'
        )
        sources.append(KernelSource(path=path, symbol=symbol, parameters=(Parameter("y", "pointer"),)))
    results = []
    for kernel in compile_kernels(sources, [INCLUDE], CACHE):
        y = np.zeros(1, dtype=np.float32)
        kernel.launch({"y": Buffer(y, "out")}, grid=1, block=32, shared_bytes=0)
        results.append(float(y[0]))
    assert results == [1.0, 2.0]


def test_a_kernel_that_does_not_compile(tmp_path: Path) -> None:
    with pytest.raises(EmulatorBuildError, match=r"could not compile the kernel k\.cu:[^$]*sync_everything"):
        kernel_text(tmp_path, ["sync_everything();"])


def test_a_machine_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMGEN_CXX", str(tmp_path / "none"))
    with pytest.raises(MissingTool, match=r"g\+\+ .*LOOMGEN_CXX"):
        compiled(KERNELS / "matmul_64.cu", "matmul_64", "", tmp_path)


def test_the_statement_above_a_line() -> None:
    source = "a\n    /// x = y\nb\n// c\n/// z = x\nd\n"
    assert [statement_above(source, line) for line in range(1, 7)] == [None, *["x = y"] * 3, *["z = x"] * 2]


def test_the_host_headers_and_the_runtime_compile_without_warnings() -> None:
    compiler = shutil.which("g++")
    assert compiler is not None
    units = [*sorted(build.RUNTIME_SOURCES.glob("*.cpp")), KERNELS / "fragments.cu"]
    flags = [flag for flag in build.FLAGS if flag != "-w"]
    for unit in units:
        command = [
            compiler,
            *flags,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-I",
            str(INCLUDE),
            "-x",
            "c++",
            str(unit),
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("arch", ["90a", "100a", "103a"])
@pytest.mark.parametrize("name", ["matmul_64", "fragments", "arithmetic"])
def test_the_same_kernels_compile_for_the_device_without_spills(tmp_path: Path, name: str, arch: str) -> None:
    command = [
        "nvcc",
        "-std=c++17",
        "-O3",
        "-fmad=false",
        f"-gencode=arch=compute_{arch},code=sm_{arch}",
        "-Xptxas",
        "-v",
    ]
    command += ["-I", str(INCLUDE), "--cubin", "-o", str(tmp_path / "k.cubin"), str(KERNELS / f"{name}.cu")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    frames = [line for line in (result.stdout + result.stderr).splitlines() if "stack frame" in line]
    assert frames
    assert all("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in line for line in frames)
