"""``loomgen plan``: the choice, the grids and the bytes, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loomgen.cli.project import default_root
from loomgen.ops import workspace_bytes
from loomgen.ops.dispatch import MULTIPROCESSORS
from tests.cli.command import loomgen

TRAINING = ("--seqlens", "4096,4096,4096,4096", "--heads", "16/32")


def planned(*arguments: str) -> dict[str, Any]:
    result = loomgen(default_root(), "plan", *arguments, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.output)
    return document


def chosen(document: dict[str, Any]) -> str:
    (scan,) = (scan["variant"] for scan in document["scans"] if scan["chosen"])
    return str(scan)


def test_a_training_batch() -> None:
    found = planned(*TRAINING)
    assert (found["n_tokens"], found["n_sequences"], found["n_chunks"]) == (16384, 4, 256)
    assert found["table_bytes"] == 4 * (2 * 256 + 2 * 5)
    assert found["workspace_bytes"] == workspace_bytes(
        n_tokens=16384, n_sequences=4, key_heads=16, value_heads=32, n_chunks=256
    )
    assert chosen(found) == "r64k1"
    assert "256 blocks of 64 rows fill most of 132" in found["reason"]
    scan = next(scan for scan in found["scans"] if scan["variant"] == "r64k1")
    assert (scan["blocks"], scan["resident"], scan["waves"], scan["idle_share"], scan["steps"]) == (256, 2, 1, 0, 64)
    assert [(launch["kernel"].split("__")[0], launch["blocks"]) for launch in found["launches"]] == [
        ("prep", 256 * 16),
        ("wy", 256 * 32),
        ("fwd_h", 256),
        ("fwd_o", 256 * 32),
    ]
    assert [launch["threads"] for launch in found["launches"]] == [512, 128, 128, 128]


def test_raw_gates_and_steps_take_a_launch_and_memory() -> None:
    found, plain = planned(*TRAINING, "--raw-gates", "--raw-steps"), planned(*TRAINING)
    assert found["launches"][0]["kernel"] == "gates__c64_bf16_bf16__base"
    assert found["launches"][0]["blocks"] == 256 * 32
    assert found["launches"][1:] == plain["launches"]
    assert found["workspace_bytes"] == plain["workspace_bytes"] + 2 * 16384 * 32 * 4
    steps = planned(*TRAINING, "--raw-steps")
    assert steps["workspace_bytes"] == plain["workspace_bytes"] + 16384 * 32 * 4


def test_the_scan_follows_the_multiprocessors() -> None:
    few = ("--seqlens", "16384", "--heads", "16/16")
    assert chosen(planned(*few)) == "r32k2"
    found = planned(*few, "--sms", "50")
    assert chosen(found) == "r64k1"
    assert chosen(planned(*few, "--sms", "60")) == "r32k1"
    assert planned(*few)["scans"][0]["idle_share"] == pytest.approx(1 - 64 / 132)


def test_lengths_on_the_device_give_room_for_the_most_chunks() -> None:
    found = planned("--seqlens", "64,64", "--heads", "1/2", "--on-device", "--k", "64", "--v", "64", "--dtype", "f16")
    assert found["n_chunks"] == 2 + 2
    stages = [launch["kernel"].split("__")[0] for launch in found["launches"]]
    assert stages == ["meta", "prep", "wy", "fwd_h", "fwd_o", "slack"]
    assert [launch["blocks"] for launch in found["launches"]] == [2 * 3, 4, 8, 8, 8, 2 * 2]


def test_the_table_says_why() -> None:
    result = loomgen(default_root(), "plan", *TRAINING)
    assert result.exit_code == 0
    for text in ("16384 tokens, 4 sequences, 256 chunks of 64", "scan r64k1: 256 blocks", "fwd_h__c64_k128_v128_bf16"):
        assert text in result.output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--seqlens", "4096,x"), "--seqlens '4096,x': want lengths"),
        (("--seqlens", "2147483647,1"), "--seqlens '2147483647,1': 2147483648 tokens"),
        (("--heads", "16"), "--heads '16': want key heads / value heads"),
        (("--heads", "3/4"), "--heads '3/4': value heads must be a multiple"),
        (("--k", "96"), "--k 96: want 64 or 128"),
        (("--v", "64"), "--v 64: want 128"),
        (("--dtype", "f32"), "--dtype 'f32': want bf16 or f16"),
        (("--arch", "sm_80"), "unknown target 'sm_80'"),
        (("--sms", "0"), "--sms"),
    ],
)
def test_a_wrong_argument_is_named(changes: tuple[str, ...], message: str) -> None:
    result = loomgen(default_root(), "plan", *TRAINING, *changes)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("\u2502", " ").split())


def test_the_default_is_what_the_operator_decides_for() -> None:
    assert planned(*TRAINING) == planned(*TRAINING, "--sms", str(MULTIPROCESSORS))
