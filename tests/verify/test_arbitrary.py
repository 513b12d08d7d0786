"""Inputs made from an argument list."""

from __future__ import annotations

import torch

from loomgen.verify.arbitrary import Case, Parameter, make_case


def tensor(name: str, dtype: str, *shape: int | str, access: str = "in") -> Parameter:
    return Parameter(name=name, kind="tensor", dtype=dtype, shape=shape, access=access)


def scalar(name: str, dtype: str) -> Parameter:
    return Parameter(name=name, kind="scalar", dtype=dtype, shape=(), access=None)


def case(*parameters: Parameter, lengths: tuple[int, ...] = (5, 0, 65)) -> Case:
    return make_case(parameters, {"K": 16}, lengths, heads=(2, 6), seed=0)


def test_run_time_dims_follow_from_the_batch() -> None:
    parameters = [tensor(dim, "f32", dim) for dim in ("T", "N", "NC", "H", "HV", "SLOTS", "QKV", "N + 1")]
    found = case(*parameters).given
    sizes = [len(x) for parameter in parameters if isinstance(x := found[parameter.name], torch.Tensor)]
    assert sizes == [70, 3, 3, 2, 6, 5, (2 * 2 + 6) * 16, 4]


def test_slots_are_distinct_and_within_the_pool() -> None:
    index, one = case(tensor("i", "i32", "N")), case(tensor("i", "i32", "N"), lengths=(7,))
    assert [x.tolist() for x in (index.given["i"], one.given["i"]) if isinstance(x, torch.Tensor)] == [[0, 2, 3], [1]]


def test_scalars_and_flags() -> None:
    given = case(scalar("scale", "f32"), scalar("on", "bool"), tensor("old", "bool", "N")).given
    assert (given["scale"], given["on"]) == (0.5, True)
    assert isinstance(old := given["old"], torch.Tensor)
    assert old.tolist() == [True, False, True]


def test_what_is_written_starts_as_nan_and_what_is_updated_as_numbers() -> None:
    found = case(tensor("y", "bf16", "T", access="out"), tensor("pool", "f32", "SLOTS", access="inout"))
    assert set(found.initial) == {"y", "pool"}
    assert found.initial["y"].isnan().all()
    assert found.initial["pool"].isfinite().all()
    fresh = found.fresh()
    fresh["pool"].zero_()
    assert found.initial["pool"].any(), "a launch has tensors of its own"
