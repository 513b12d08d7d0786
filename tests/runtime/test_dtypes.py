"""The table of dtypes: all that the language knows but tf32, each once."""

from __future__ import annotations

from loomgen.ir.types import DType
from loomgen.runtime.dtypes import DTYPE_NAMES, TORCH_DTYPES


def test_every_dtype_of_the_language_has_one_of_torch_of_its_size() -> None:
    in_memory = {dtype.value: dtype.n_bytes for dtype in DType if dtype is not DType.TF32}
    assert {name: dtype.itemsize for name, dtype in TORCH_DTYPES.items()} == in_memory


def test_names_are_those_of_the_table() -> None:
    assert {name: dtype for dtype, name in DTYPE_NAMES.items()} == TORCH_DTYPES
