"""The cases cover every primitive, and their kernels compile for every target."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from loomgen.conformance.case import INCLUDE, KERNELS
from loomgen.conformance.cases_memory import LAYOUTS, MOVED_TYPES, Layout
from loomgen.conformance.device import NVCC_FLAGS, compile_cubin
from loomgen.conformance.table import all_cases
from loomgen.target import TARGETS, Target
from loomgen.toolchain.build import COMMON_FLAGS
from loomgen.toolchain.find import NVCC, MissingTool, find_tool
from tests.conformance.headers import declared_primitives

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = {"a + b", "a - b", "a * b", "a * b + c"}


def generated_sources() -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / "generated" / "csrc").rglob("*.cu")))


def test_headers_are_read(tmp_path: Path) -> None:
    (tmp_path / "some.cuh").write_text(
        "/// LOOM_DEVICE not(this) one\n"
        "LOOM_DEVICE float once(float x);\n"
        "template <typename T>\nLOOM_DEVICE T* twice(const T* source, bool valid LOOM_HERE) {}\n"
        "LOOM_DEVICE void twice(uint32_t (&r)[4]) {}\n"
    )
    assert declared_primitives(tmp_path) == {"once", "twice(const T*, bool)", "twice(uint32_t (&)[4])"}


def test_every_primitive_has_a_case() -> None:
    tried = {primitive for case in all_cases() for primitive in case.primitives}
    assert tried - OPERATORS == declared_primitives(INCLUDE / "loom")


def test_every_kernel_has_a_case_and_every_case_a_kernel() -> None:
    sources = {path.stem: path.read_text() for path in KERNELS.glob("*.cu")}
    kernels = {
        (source, name) for source, text in sources.items() for name in re.findall(r"LOOM_KERNEL\(.*\) (\w+)\(", text)
    }
    assert {(case.source, case.kernel) for case in all_cases()} == kernels


def test_all_kernels_are_in_one_unit() -> None:
    included = re.findall(r'#include "(\w+)\.cu"', (KERNELS / "all.cu").read_text())
    assert sorted(included) == sorted(path.stem for path in KERNELS.glob("*.cu") if path.stem != "all")


def test_names_differ_and_are_file_names() -> None:
    names = [case.name for case in all_cases()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w.-]+", name) for name in names)


def test_every_type_that_exported_kernels_move_is_tried() -> None:
    moved = set(re.findall(r"\b(?:ld|st)_(?:global|shared)<(\w+)>", generated_sources()))
    assert moved <= set(MOVED_TYPES)


def test_every_layout_of_exported_kernels_is_tried() -> None:
    used = re.findall(r"SharedTile<(\w+), \d+, \d+, (\d+), (\d+)>", generated_sources())
    tried = {(layout.element_bytes, layout.pitch, layout.swizzle) for layout in LAYOUTS}
    asked = {Layout(element, int(pitch), int(swizzle)) for element, pitch, swizzle in used}
    assert {layout for layout in asked if (layout.element_bytes, layout.pitch, layout.swizzle) not in tried} == set()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_kernels_compile(target: Target, tmp_path: Path) -> None:
    try:
        nvcc = find_tool(NVCC)
    except MissingTool as missing:
        pytest.skip(str(missing))
    compile_cubin(target, nvcc, tmp_path / "kernels.cubin")
    assert (tmp_path / "kernels.cubin").stat().st_size > 0


def test_flags_are_those_of_the_exported_kernels() -> None:
    assert set(NVCC_FLAGS) == {flag for flag in COMMON_FLAGS if not flag.startswith("-Xptxas")}


def test_inputs_are_the_same_every_time_and_as_large_as_the_output_needs() -> None:
    for case in all_cases():
        if case.source != "math":
            continue
        first, again = case.inputs(), case.inputs()
        assert all(a.size == case.output_shape[0] for a in first)
        assert all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(first, again, strict=True))


def test_the_script_needs_numpy_alone() -> None:
    """Beside it, a machine with a GPU may have nothing of what loomgen depends on."""
    absent = ("pydantic", "torch", "yaml", "jinja2", "networkx", "typer", "rich", "typing_extensions")
    block = f"import sys; sys.modules.update(dict.fromkeys({absent!r}))"
    code = f"{block}; from tools.gpu_conformance import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
