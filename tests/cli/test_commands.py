"""The other commands: what they print and how they exit."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from loomgen.cli import app
from loomgen.cli.project import Project
from loomgen.ir.kernel import KernelSpec
from loomgen.registry import published_schema
from loomgen.target import Target
from tests.cli.command import loomgen, use_kernels
from tests.render.fakes import kernel
from tests.toolchain.programs import program
from tests.toolchain.projects import NAME, SPILLING, write_project


def fake_module(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


# --------------------------------------------------------------------------- list, schema


def test_list_prints_a_table_and_the_same_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernels(monkeypatch, kernel("copy"), kernel("blend", targets=("sm_90a",)))
    table = loomgen(tmp_path, "list").output
    assert "blend__c64_f32__base   gdn      sm_90a" in table
    rows = json.loads(loomgen(tmp_path, "list", "--json").output)
    assert [row["kernel"] for row in rows] == ["blend__c64_f32__base", "copy__c64_f32__base"]
    assert rows[0]["targets"] == ["sm_90a"]


def test_list_selects_by_stage_or_by_kernel_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernels(monkeypatch, kernel("copy"), kernel("blend"))
    for pattern in ("copy", "c*y", "copy__c64*"):
        rows = json.loads(loomgen(tmp_path, "list", "--stage", pattern, "--json").output)
        assert [row["stage"] for row in rows] == ["copy"]


def test_schema_of_a_registry_is_the_published_one(tmp_path: Path) -> None:
    assert loomgen(tmp_path, "schema", "registry").output == published_schema().decode()


def test_specs_leave_out_tables_and_rounds(tmp_path: Path) -> None:
    for path in ("gdn/a.yaml", "tables/shapes.yaml", "rounds/1.yaml", "gdn/notes.txt"):
        (tmp_path / "specs" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "specs" / path).write_text("")
    assert Project(tmp_path).spec_paths() == (tmp_path / "specs" / "gdn" / "a.yaml",)


# --------------------------------------------------------------------------- explain


def use_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(spec: KernelSpec, target: Target, after: str | None) -> str:
        return f"{spec.name} {target.name} after {after}\n"

    def schedule_text(spec: KernelSpec, target: Target) -> str:
        return f"{spec.name} {target.name} schedule\n"

    fake_module(monkeypatch, "loomgen.emit.explain", explain=explain)
    fake_module(monkeypatch, "loomgen.passes.schedule_text", schedule_text=schedule_text)


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ((), "copy__c64_f32__base sm_100a after None\n"),
        (("--after", "rings", "--arch", "sm_90a"), "copy__c64_f32__base sm_90a after rings\n"),
        (("--schedule",), "copy__c64_f32__base sm_100a schedule\n"),
    ],
)
def test_explain(options: tuple[str, ...], output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernels(monkeypatch, kernel("copy"), kernel("blend"))
    use_pipeline(monkeypatch)
    assert loomgen(tmp_path, "explain", "copy", *options).stdout == output


def test_explain_names_the_kernels_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = kernel("copy")
    wide = replace(plain, name=replace(plain.name, variant="wide"))
    use_kernels(monkeypatch, wide, plain)
    use_pipeline(monkeypatch)
    result = loomgen(tmp_path, "explain", "copy")
    assert result.stdout == "copy__c64_f32__base sm_100a after None\n"
    assert result.stderr.endswith("other kernels that match:\n  copy__c64_f32__wide\n")


def test_explain_refuses_what_contradicts_or_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernels(monkeypatch, kernel("copy"))
    use_pipeline(monkeypatch)
    assert loomgen(tmp_path, "explain", "copy", "--after", "rings", "--schedule").exit_code == 2
    assert loomgen(tmp_path, "explain", "nothing").exit_code == 2


# --------------------------------------------------------------------------- build, census


def test_build_compiles_the_selected_kernels(tmp_path: Path) -> None:
    root = write_project(tmp_path)
    result = loomgen(root, "build", "--arch", "sm_103a", "--stage", "rev*")
    assert result.exit_code == 0, result.output
    assert [path.name for path in (root / "build" / "cubin").rglob("*.cubin")] == [f"{NAME}.cubin"]


def test_build_without_a_registry_or_a_stage_exits_2(tmp_path: Path) -> None:
    assert loomgen(tmp_path, "build").exit_code == 2
    assert loomgen(write_project(tmp_path), "build", "--stage", "nothing").exit_code == 2


def test_build_without_nvcc_exits_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMGEN_NVCC", str(tmp_path / "nvcc"))
    result = loomgen(write_project(tmp_path), "build")
    assert result.exit_code == 3
    assert "pip install 'loomgen[nvcc]'" in result.stderr


@pytest.mark.parametrize("command", ["build", "census"])
def test_without_a_compiler_for_nvcc_nothing_is_built(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOMGEN_CXX", str(tmp_path / "g++"))
    monkeypatch.setenv("LOOMGEN_NVCC", str(tmp_path / "nvcc"))
    result = loomgen(write_project(tmp_path), command)
    assert result.exit_code == 3
    assert "error: g++ is not" in result.stderr
    assert "nvcc's host pass); apt-get install g++" in result.stderr
    assert not (tmp_path / "build").exists()


def test_build_refuses_an_nvcc_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = program(tmp_path / "nvcc", "Cuda compilation tools, release 12.4, V12.4.131")
    monkeypatch.setenv("LOOMGEN_NVCC", str(old))
    result = loomgen(write_project(tmp_path), "build")
    assert result.exit_code == 3
    assert f"error: nvcc 12.4.131 at {old} is older than 12.9" in result.stderr


def test_census_counts(tmp_path: Path) -> None:
    root = write_project(tmp_path)
    result = loomgen(root, "census", "--arch", "sm_90a", "--strict", "--json")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)
    assert (row["kernel"], row["stack_bytes"], row["shared_bytes"], row["instructions"]["BAR"]) == (NAME, 0, 512, 1)
    table = loomgen(root, "census", "--arch", "sm_90a").stdout
    assert "blocks/SM" in table
    assert "BAR" in table
    assert "HMMA" not in table


def test_census_fails_on_spills_under_strict(tmp_path: Path) -> None:
    root = write_project(tmp_path, source=SPILLING)
    assert loomgen(root, "census", "--arch", "sm_100a").exit_code == 0
    result = loomgen(root, "census", "--arch", "sm_100a", "--strict")
    assert result.exit_code == 1
    assert f"error: sm_100a {NAME}: " in result.stderr


# --------------------------------------------------------------------------- doctor


def test_doctor_reports_every_tool(tmp_path: Path) -> None:
    findings = {row["what"]: row for row in json.loads(loomgen(tmp_path, "doctor", "--json").stdout)}
    assert {"python", "torch", "g++", "nvcc", "ninja", "nvdisasm", "GPU"} <= findings.keys()
    assert findings["python"]["status"] == "ok"
    assert findings["nvcc"]["version"].count(".") == 2


def test_doctor_says_how_to_get_what_is_missing_and_exits_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMGEN_CXX", str(tmp_path / "g++"))
    result = loomgen(tmp_path, "doctor", "--json")
    assert result.exit_code == 3
    (finding,) = [row for row in json.loads(result.stdout) if row["what"] == "g++"]
    assert (finding["status"], finding["how_to_get"]) == (
        "missing",
        "apt-get install g++, or your system's equivalent",
    )


@pytest.mark.parametrize(
    ("gxx", "nvcc", "status"),
    [
        ("8.5.0", "13.0.88", "too old"),
        ("9.4.0", "13.0.88", "ok"),
        ("15.2.0", "13.0.88", "ok"),
        ("16.1.0", "13.0.88", "too new"),
        ("15.2.0", "12.9.86", "too new"),
        ("16.1.0", "99.0.1", "ok"),
        ("16.1.0", "12.4.131", "ok"),
    ],
)
def test_doctor_says_whether_nvcc_accepts_the_compiler(
    gxx: str, nvcc: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOMGEN_CXX", str(program(tmp_path / "g++", f"g++ (GCC) {gxx}")))
    monkeypatch.setenv("LOOMGEN_NVCC", str(program(tmp_path / "nvcc", f"release {nvcc[:4]}, V{nvcc}")))
    result = loomgen(tmp_path, "doctor", "g++", "--json")
    (finding,) = json.loads(result.stdout)
    assert (finding["status"], finding["version"]) == (status, gxx)
    assert result.exit_code == (0 if status == "ok" else 3)
    assert (finding["how_to_get"] == "") is (status == "ok")


def test_doctor_looks_at_what_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = program(tmp_path / "nvcc", "release 12.4, V12.4.131")
    monkeypatch.setenv("LOOMGEN_NVCC", str(old))
    assert loomgen(tmp_path, "doctor", "python", "ninja").exit_code == 0
    result = loomgen(tmp_path, "doctor", "nvcc", "--json")
    assert result.exit_code == 3
    (finding,) = json.loads(result.stdout)
    assert (finding["status"], finding["where"]) == ("too old", str(old))
    assert loomgen(tmp_path, "doctor", "gcc").exit_code == 2


def test_every_command_documents_its_exit_codes() -> None:
    assert [info.name for info in app.registered_commands] == [
        "render",
        "list",
        "explain",
        "build",
        "census",
        "verify",
        "mutate",
        "fuzz",
        "bench",
        "plan",
        "doctor",
        "schema",
    ]
    assert all("Exit codes: 0 fine" in (info.epilog or "") for info in app.registered_commands)
