"""Binding a call: the values that follow from the tensors, and messages that name the argument."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from loomgen.registry import (
    ArgumentEntry,
    Constraints,
    KernelEntry,
    LaunchEntry,
    Multiple,
    SourceEntry,
    SpecEntry,
    StrideSource,
)
from loomgen.runtime.bind import Value, bind


def argument(name: str, kind: Any, dtype: str, *shape: int | str, **more: Any) -> ArgumentEntry:
    fields = {"access": "in" if kind in ("tensor", "table") else None, "optional": False, "source": None, **more}
    return ArgumentEntry(name=name, kind=kind, dtype=dtype, shape=shape, **fields)


KERNEL = KernelEntry(
    name="copy__c64_f32__base",
    stage="copy",
    signature="c64_f32",
    variant="base",
    instantiation=None,
    family="gdn",
    symbol="copy__c64_f32__base",
    source=SourceEntry(path="generated/csrc/sm_90a/gdn/copy__c64_f32__base.cu", sha256="0" * 64),
    spec=SpecEntry(path="specs/gdn/copy.yaml", digest="0" * 64),
    arguments=(
        argument("x", "tensor", "bf16", "T", "HV", 4),
        argument("h0", "tensor", "f32", "N", "HV", optional=True),
        argument("y", "tensor", "f32", "T", 4, access="out"),
        argument("cu_seqlens", "table", "i32", "N + 1"),
        argument("chunk_start", "table", "i32", "NC"),
        argument("HV", "dim", "i32"),
        argument("h0_stride0", "stride", "i64", source=StrideSource(tensor="h0", dim=0)),
        argument("scale", "scalar", "f32"),
    ),
    launch=LaunchEntry(threads=128, min_blocks=1, grid=("NC", "HV", 2), dynamic_shared_bytes=1024),
    scan=None,
    constraints=Constraints(dims={"C": 64}, multiples=()),
)


def call() -> dict[str, Value]:
    return {
        "x": torch.zeros(70, 3, 4, dtype=torch.bfloat16),
        "h0": torch.zeros(2, 5)[:, :3],
        "y": torch.zeros(70, 4),
        "cu_seqlens": torch.tensor([0, 64, 70], dtype=torch.int32),
        "chunk_start": torch.tensor([0, 64], dtype=torch.int32),
        "scale": 0.5,
    }


def test_dims_strides_and_blocks_follow_from_the_tensors() -> None:
    given = call()
    bound = bind(KERNEL, given)
    values = {argument.name: value for argument, value in bound.values}
    assert list(values) == ["x", "h0", "y", "cu_seqlens", "chunk_start", "HV", "h0_stride0", "scale"]
    assert values["x"] is given["x"]
    assert (values["HV"], values["h0_stride0"], values["scale"]) == (3, 5, 0.5)
    assert bound.blocks == 2 * 3 * 2


def test_an_optional_tensor_may_be_missing() -> None:
    values = {argument.name: value for argument, value in bind(KERNEL, {**call(), "h0": None}).values}
    assert (values["h0"], values["h0_stride0"]) == (None, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "x: missing, expected a tensor of bf16"),
        ({"x": torch.zeros(70, 3, 4)}, "x: torch.float32, expected a tensor of bf16"),
        ({"x": 3}, "x: int, expected a tensor of bf16"),
        ({"x": torch.zeros(70, 3, dtype=torch.bfloat16)}, "x: shape [70, 3], expected [T, HV, 4]"),
        ({"x": torch.zeros(70, 3, 5, dtype=torch.bfloat16)}, "x: shape [70, 3, 5], expected [T, HV, 4]"),
        ({"y": torch.zeros(71, 4)}, "y: shape [71, 4], expected [T, 4] with T = 70"),
        ({"y": torch.zeros(4, 70).T}, "y: strides (1, 70), expected a contiguous tensor"),
        ({"h0": torch.zeros(2, 6)[:, ::2]}, "h0: strides (6, 2), expected 1 in the last dimension"),
        ({"h0": torch.zeros(1, 3)}, "cu_seqlens: shape [3], expected [N + 1] with N = 1"),
        ({"cu_seqlens": None}, "cu_seqlens: missing, expected a tensor of i32"),
        ({"chunk_start": torch.tensor([0, 64])}, "chunk_start: torch.int64, expected a tensor of i32"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected(changes: dict[str, Value], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        bind(KERNEL, {**call(), **changes})
    assert str(raised.value) == message


def test_a_missing_scalar_is_named() -> None:
    given = {name: value for name, value in call().items() if name not in ("scale", "h0")}
    with pytest.raises(ValueError, match=r"^scale: missing, expected a f32$"):
        bind(KERNEL, given)


def test_a_dim_that_no_tensor_shows_is_named() -> None:
    absent = KERNEL.model_copy(update={"arguments": (*KERNEL.arguments, argument("H", "dim", "i32"))})
    with pytest.raises(ValueError, match=r"^H: unknown, expected a number or a tensor that has this dim$"):
        bind(absent, {**call(), "h0": None})


def test_a_dim_may_be_given_as_a_number_that_agrees_with_the_tensors() -> None:
    more = KERNEL.model_copy(update={"arguments": (*KERNEL.arguments, argument("H", "dim", "i32"))})
    values = {argument.name: value for argument, value in bind(more, {**call(), "H": 7}).values}
    assert values["H"] == 7
    with pytest.raises(ValueError, match=r"^x: shape \[70, 3, 4\], expected \[T, HV, 4\] with HV = 2$"):
        bind(KERNEL, {**call(), "HV": 2})


GROUPED = KERNEL.model_copy(
    update={
        "arguments": (*KERNEL.arguments, argument("H", "dim", "i32")),
        "constraints": Constraints(dims={"C": 64}, multiples=(Multiple(dim="HV", of="H"),)),
    }
)


@pytest.mark.parametrize("key_heads", [1, 3])
def test_a_dim_may_be_any_multiple(key_heads: int) -> None:
    assert bind(GROUPED, {**call(), "H": key_heads}).blocks == 2 * 3 * 2


@pytest.mark.parametrize("key_heads", [2, 6, 0])
def test_a_dim_that_is_no_multiple_is_named_with_the_kernel(key_heads: int) -> None:
    with pytest.raises(ValueError) as raised:
        bind(GROUPED, {**call(), "H": key_heads})
    assert str(raised.value) == f"HV: 3, expected a multiple of H = {key_heads} for copy__c64_f32__base"
