"""Names of the generated code: whatever a stage calls its things, no two things of a kernel share a name."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from loomgen.emit.cuda import emit_body
from loomgen.errors import SpecError
from loomgen.ir.device import Branch, CStmt, Declare, DeclareArray, For, Scope
from loomgen.passes.lower.cxx_words import CXX_WORDS, code_name
from loomgen.passes.pipeline import LoweredKernel, lower
from loomgen.spec import load
from loomgen.spec.declarations import CODE_WORDS
from loomgen.target import SM_90A
from loomgen.toolchain.find import NVCC, find_tool

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "loomgen" / "include"
STAGE = ROOT / "tests" / "fuzz" / "regressions" / "names_of_the_generated_code.yaml"


def lowered(path: Path) -> LoweredKernel:
    (kernel,) = load([path], path.parent)
    return lower(kernel, SM_90A)


def declared(body: tuple[CStmt, ...]) -> Iterator[str]:
    for stmt in body:
        match stmt:
            case Declare() | DeclareArray():
                yield stmt.name
            case For():
                yield from (stmt.var, *declared(stmt.body))
            case Branch():
                yield from (*declared(stmt.then), *declared(stmt.orelse))
            case Scope():
                yield from declared(stmt.body)
            case _:
                pass


def test_no_name_is_a_word_of_cxx_or_one_of_the_stage_that_is_not_meant() -> None:
    kernel = lowered(STAGE)
    parameters = [parameter.name for parameter in kernel.device.parameters]
    assert parameters[:4] == ["do_", "int_", "thread", "ld_global_"]
    assert [argument.name for argument in kernel.arguments][:4] == ["do", "int", "thread", "ld_global"]
    names = {*declared(kernel.device.body), *parameters}
    assert not names & CXX_WORDS
    assert {"thread2", "kc_next", "kc_next2", "kc_source", "kc_source2", "partner", "block", "block2", "row"} <= names


def test_the_kernel_compiles_for_the_device(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cu"
    text = emit_body(lowered(STAGE))
    source.write_text(f'#include "loom/loom.cuh"\n\nusing namespace loom;\n\n{text}')
    command = [
        str(find_tool(NVCC)),
        "-std=c++17",
        "-arch=sm_90a",
        f"-I{INCLUDE}",
        "-cubin",
        "-O1",
        "-o",
        str(tmp_path / "k"),
    ]
    result = subprocess.run([*command, str(source)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_every_primitive_is_known_as_a_word() -> None:
    headers = [*(INCLUDE / "loom").glob("*.cuh"), *(INCLUDE / "loom" / "ptx").glob("*.cuh")]
    text = "\n".join(path.read_text() for path in headers)
    functions = re.findall(r"^(?:LOOM_\w+|inline|constexpr|static)\b[^;(]*?(\w+)\(", text, re.MULTILINE)
    types = re.findall(r"^(?:struct|using|namespace)\s+(?:\w+\(\d+\)\s+)?(\w+)(?=\s*[={])", text, re.MULTILINE)
    macros = re.findall(r"#define\s+(\w+)", text)
    assert {"ld_global", "mma_m16n8k16_bf16", "SharedTile", "u32x4", "LOOM_UNROLL"} <= {*functions, *types, *macros}
    assert {*functions, *types, *macros} <= CXX_WORDS


def test_a_word_gets_a_name_that_no_stage_can_have() -> None:
    assert (code_name("do"), code_name("kc")) == ("do_", "kc")


@pytest.mark.parametrize("word", sorted(CODE_WORDS))
@pytest.mark.parametrize("place", ["tensor", "loop"])
def test_what_kernels_have_themselves_is_refused(word: str, place: str, tmp_path: Path) -> None:
    old = {"tensor": "thread", "loop": "step"}[place]
    text = re.sub(rf"\b{old}\b", word, STAGE.read_text()).replace("chunk_len[i,e]", "y[i,e]")
    path = tmp_path / "stage.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=rf"LG007: kernels have something else called `{word}`"):
        load([path], tmp_path)


def test_a_stride_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "stage.yaml"
    path.write_text(STAGE.read_text().replace("thread", "do_stride1"))
    with pytest.raises(SpecError, match="LG007: kernels have something else called `do_stride1`"):
        load([path], tmp_path)
