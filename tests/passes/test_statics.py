"""Static numbers under the names of their spec."""

from __future__ import annotations

import pytest

from loomgen.emit.printer import expression
from loomgen.passes.lower.statics import static


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("C", "C"),
        ("", "7"),
        (12, "7"),
        ("W-1", "W - 1"),
        ("V//(VB)", "V / VB"),
        ("VB//16*KS", "VB / 16 * KS"),
        ("(A-B)//2+9", "7"),
        ("width", "7"),
        ("2**3", "7"),
    ],
)
def test_a_symbol_is_written_where_c_means_the_same(symbol: int | str, text: str) -> None:
    assert expression(static(symbol, 7)) == text
