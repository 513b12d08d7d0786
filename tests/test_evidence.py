"""What a document says of a run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from loomgen.errors import NoGpu
from loomgen.evidence import (
    Card,
    command_of,
    commit_of,
    first_card,
    package_version,
    package_versions,
    parse_card,
    write_evidence,
)

QUERIED = "NVIDIA H200, 580.159.04, 1980, 3201, 1985\n"


def test_a_card_is_what_nvidia_smi_says() -> None:
    card = parse_card(QUERIED)
    assert (card.name, card.slug, card.driver) == ("NVIDIA H200", "h200", "580.159.04")
    assert card.clocks == {"sm_mhz": 1980, "memory_mhz": 3201, "max_sm_mhz": 1985}
    assert parse_card("NVIDIA H200, 1, 345, [N/A], 1985").clocks["memory_mhz"] is None


@pytest.mark.parametrize(("script", "name"), [(f"echo '{QUERIED}'", "NVIDIA H200"), ("exit 9", None), (None, None)])
def test_without_a_working_nvidia_smi_there_is_no_gpu(
    script: str | None, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if script is not None:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    if name is not None:
        assert first_card().name == name
        return
    with pytest.raises(NoGpu, match="nvidia-smi"):
        first_card()


def test_the_version_of_what_is_not_installed_is_unknown() -> None:
    assert package_versions(("numpy", "loomgen-is-not-this")) == {
        "numpy": package_version("numpy"),
        "loomgen-is-not-this": "unknown",
    }
    assert package_version("numpy")[0].isdigit()


def test_the_commit_is_marked_where_files_differ_from_it(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == "unknown"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    commit = commit_of(tmp_path)
    assert len(commit) == 40
    (tmp_path / "new").touch()
    assert commit_of(tmp_path) == f"{commit}+"


@pytest.mark.parametrize(
    ("given", "kept"), [(["--out", "/a b"], "--out OUT"), (["--out=/a"], "--out=OUT"), (["--out"], "--out")]
)
def test_a_command_does_not_tell_where_it_wrote_to(given: list[str], kept: str) -> None:
    assert command_of(["loomgen"], ["bench", *given]) == f"loomgen bench {kept}"
    assert command_of(["loomgen"], ["--filter", "a b"]) == "loomgen --filter 'a b'"


def test_a_document_has_its_rows_after_what_it_takes_to_repeat_them(tmp_path: Path) -> None:
    card = Card(name="NVIDIA H200", driver="1", clocks={"sm_mhz": None})
    path = write_evidence(
        tmp_path / "new",
        "topic",
        card,
        iter([{"row": 1}]),
        versions={"a": "2"},
        commit="abc",
        command="c",
        more={"z": 3},
    )
    assert path == tmp_path / "new" / "topic.h200.json"
    found = json.loads(path.read_text())
    assert list(found) == ["card", "driver", "clocks", "versions", "commit", "command", "rows", "z"]
    assert (found["rows"], found["versions"], found["clocks"]) == ([{"row": 1}], {"a": "2"}, {"sm_mhz": None})
