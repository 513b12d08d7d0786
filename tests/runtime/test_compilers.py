"""Which compiler makes cubins, and NVRTC: fake, and the real library where there is one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from loomgen.cli.project import default_root
from loomgen.registry import load
from loomgen.runtime.bundle import Bundle
from loomgen.runtime.compilers import NoCompiler, NvccCompiler, NvrtcCompiler, find_compiler
from loomgen.runtime.cubins import CubinStore, NoCubin
from loomgen.target import SM_90A
from loomgen.toolchain.errors import BuildFailed
from tests.runtime.projects import NAMES, cubin_of, write_nvcc, write_project

ROOT = default_root()


class Status(Enum):
    NVRTC_SUCCESS = 0
    NVRTC_ERROR_COMPILATION = 6
    NVRTC_ERROR_INVALID_PROGRAM = 4


@dataclass
class FakeNvrtc:
    """``cuda.bindings.nvrtc`` as far as it is used: a cubin says what its source was."""

    version: tuple[int, int] = (13, 0)
    refuses: bytes | None = None
    options: list[list[bytes]] = field(default_factory=list)
    alive: dict[int, bytes] = field(default_factory=dict)
    n_made: int = 0
    nvrtcResult: Any = Status

    def nvrtcVersion(self) -> tuple[Status, int, int]:
        return Status.NVRTC_SUCCESS, *self.version

    def nvrtcCreateProgram(
        self, source: bytes, name: bytes, n: int, headers: list[bytes], names: list[bytes]
    ) -> tuple[Status, int]:
        assert name.endswith(b".cu") and (n, headers, names) == (0, [], [])
        self.n_made += 1
        self.alive[self.n_made] = source
        return Status.NVRTC_SUCCESS, self.n_made

    def nvrtcCompileProgram(self, program: int, n: int, options: list[bytes]) -> tuple[Status]:
        assert n == len(options)
        self.options.append(options)
        refused = self.refuses is not None and self.refuses in self.alive[program]
        return (Status.NVRTC_ERROR_COMPILATION if refused else Status.NVRTC_SUCCESS,)

    def nvrtcGetProgramLogSize(self, program: int) -> tuple[Status, int]:
        return Status.NVRTC_SUCCESS, 11

    def nvrtcGetProgramLog(self, program: int, log: bytes) -> tuple[Status]:
        _overwrite(log, b"no such op\0")
        return (Status.NVRTC_SUCCESS,)

    def nvrtcGetCUBINSize(self, program: int) -> tuple[Status, int]:
        return Status.NVRTC_SUCCESS, len(b"cubin of " + self.alive[program])

    def nvrtcGetCUBIN(self, program: int, cubin: bytes) -> tuple[Status]:
        _overwrite(cubin, b"cubin of " + self.alive[program])
        return (Status.NVRTC_SUCCESS,)

    def nvrtcDestroyProgram(self, program: int) -> tuple[Status]:
        del self.alive[program]
        return (Status.NVRTC_SUCCESS,)


def _overwrite(memory: bytes, content: bytes) -> None:
    """As C does it: the binding hands a library the address of the bytes object's buffer."""
    import ctypes

    assert len(memory) == len(content)
    ctypes.memmove(ctypes.c_char_p(memory), content, len(content))


def store(folder: Path) -> CubinStore:
    return CubinStore(
        root=folder / "project",
        cache=folder / "cache",
        bundle=Bundle(folder / "bundle"),
        on_progress=lambda done, total: None,
    )


def without_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMGEN_NVCC", "no such program")


@pytest.fixture
def nvrtc(monkeypatch: pytest.MonkeyPatch) -> FakeNvrtc:
    fake = FakeNvrtc()
    monkeypatch.setattr("loomgen.runtime.compilers.import_module", lambda name: _module(name, fake))
    return fake


def _module(name: str, fake: FakeNvrtc) -> Any:
    if name == "cuda.bindings.nvrtc":
        return fake
    raise ImportError(name)


def test_without_nvcc_nvrtc_compiles_and_the_cache_keeps_it(
    tmp_path: Path, nvrtc: FakeNvrtc, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = write_project(tmp_path / "project").kernels
    without_tools(monkeypatch)
    for _ in range(2):
        assert store(tmp_path).cubins(kernels, SM_90A) == {name: cubin_of(name) for name in NAMES}
    assert nvrtc.n_made == 2 and not nvrtc.alive
    include = f"-I{tmp_path / 'project' / 'generated' / 'include'}".encode()
    assert nvrtc.options[0] == [
        b"--gpu-architecture=sm_90a", b"--std=c++17", b"--fmad=false", b"-default-device", include
    ]  # fmt: skip


def test_each_compiler_has_entries_of_its_own(
    tmp_path: Path, nvrtc: FakeNvrtc, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = write_project(tmp_path / "project").kernels
    nvcc, log = write_nvcc(tmp_path / "tools")
    monkeypatch.setenv("LOOMGEN_NVCC", str(nvcc))
    store(tmp_path).cubins(kernels, SM_90A)
    assert (len(log.read_text().split()), nvrtc.n_made) == (2, 0)
    monkeypatch.setenv("LOOMGEN_COMPILER", "nvrtc")
    store(tmp_path).cubins(kernels, SM_90A)
    assert (len(log.read_text().split()), nvrtc.n_made) == (2, 2)
    nvrtc.version = (13, 1)
    store(tmp_path).cubins(kernels, SM_90A)
    assert nvrtc.n_made == 4


def test_what_nvrtc_refuses_is_told_with_its_log(
    tmp_path: Path, nvrtc: FakeNvrtc, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = write_project(tmp_path / "project").kernels
    monkeypatch.setenv("LOOMGEN_COMPILER", "nvrtc")
    nvrtc.refuses = NAMES[1].encode()
    with pytest.raises(BuildFailed, match=r"NVRTC_ERROR_COMPILATION\nno such op$"):
        store(tmp_path).cubins(kernels, SM_90A)
    assert not nvrtc.alive


CHOICES: list[tuple[Mapping[str, str], type[Any]]] = [
    ({}, NvccCompiler),
    ({"LOOMGEN_COMPILER": "nvcc"}, NvccCompiler),
    ({"LOOMGEN_COMPILER": "nvrtc"}, NvrtcCompiler),
]


@pytest.mark.parametrize(("environ", "kind"), CHOICES)
def test_nvcc_is_preferred_and_the_environment_decides(
    environ: Mapping[str, str], kind: type[Any], nvrtc: FakeNvrtc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOMGEN_NVCC", str(write_nvcc(tmp_path)[0]))
    assert type(find_compiler(environ)) is kind


def test_an_unknown_compiler_is_named() -> None:
    with pytest.raises(NoCompiler, match="LOOMGEN_COMPILER: 'gcc', expected nvcc or nvrtc"):
        find_compiler({"LOOMGEN_COMPILER": "gcc"})


def test_neither_compiler_says_how_to_get_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = write_project(tmp_path / "project").kernels
    without_tools(monkeypatch)

    def missing(name: str) -> Any:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr("loomgen.runtime.compilers.import_module", missing)
    with pytest.raises(NoCubin) as caught:
        store(tmp_path).cubins(kernels, SM_90A)
    for text in ("pip install 'loomgen[nvcc]'", "NVRTC cannot be loaded (No module named 'cuda.bindings.nvrtc')"):
        assert text in str(caught.value)


def test_headers_include_the_system_for_the_host_alone() -> None:
    """NVRTC has no system headers: outside ``#ifdef LOOM_HOST`` there is none to be found."""
    include = ROOT / "generated" / "include"
    found = [path for path in include.rglob("*.cuh") if "<" in "".join(device_includes(path.read_text()))]
    assert found == []
    assert device_includes("#ifdef LOOM_HOST\n#include <a>\n#else\n#include <b>\n#endif\n") == ["#include <b>"]


def device_includes(text: str) -> list[str]:
    """The includes that a device's compiler sees."""
    seen, hidden = [], [False]
    for line in text.splitlines():
        if line.startswith("#if"):
            hidden.append("LOOM_HOST" in line and "ndef" not in line)
        elif line.startswith("#else"):
            hidden[-1] = not hidden[-1]
        elif line.startswith("#endif"):
            hidden.pop()
        elif line.startswith("#include") and not any(hidden):
            seen.append(line)
    return seen


def real_nvrtc() -> NvrtcCompiler:
    try:
        compiler = find_compiler({"LOOMGEN_COMPILER": "nvrtc"})
    except NoCompiler as error:
        pytest.skip(str(error))
    assert isinstance(compiler, NvrtcCompiler)
    return compiler


@pytest.mark.parametrize("stage", ["prep", "fwd_h"])
def test_the_real_library_compiles_a_kernel(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"nvrtc \d+\.\d+", real_nvrtc().version)
    monkeypatch.setenv("LOOMGEN_COMPILER", "nvrtc")
    kernel = next(kernel for kernel in load("sm_90a", ROOT).kernels if kernel.stage == stage)
    built = CubinStore(root=ROOT, cache=tmp_path, bundle=Bundle(tmp_path / "none"))
    cubin = built.cubins([kernel], SM_90A)[kernel.name]
    assert cubin.startswith(b"\x7fELF") and kernel.symbol.encode() in cubin
