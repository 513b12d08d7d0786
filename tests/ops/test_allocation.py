"""Memory whose shape is decided once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from loomgen.ops.allocation import allocation

CPU = torch.device("cpu")


@pytest.fixture
def filled_memory() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 4), (1, 0, 2, 64)])
def test_tensors_are_row_major_and_never_the_same_memory(shape: tuple[int, ...]) -> None:
    new = allocation(shape, torch.bfloat16, CPU)
    first, second = new(), new()
    assert (first.shape, first.dtype, first.device) == (shape, torch.bfloat16, CPU)
    assert first.stride() == torch.empty(shape).stride()
    assert first.numel() == 0 or first.data_ptr() != second.data_ptr()


@pytest.mark.usefixtures("filled_memory")
def test_they_are_filled_where_torch_fills_new_memory() -> None:
    assert allocation((3,), torch.float32, CPU)().isnan().all()
