"""Element-wise values that move to their only reader, and those that stay."""

from __future__ import annotations

from pathlib import Path

from loomgen.passes.fuse_maps import fuse_maps
from tests.passes.short import N_LOADS, lines_of, program_of


def fused(folder: Path, statements: str) -> list[str]:
    return lines_of(fuse_maps(program_of(folder, statements)))[N_LOADS:]


def test_a_value_moves_to_its_reader_in_the_readers_letters(tmp_path: Path) -> None:
    assert fused(
        tmp_path, "m[i,j] = f32(x[i,j])*2 if j <= i else 0\nn[i,j] = m[j,i] + g[i]\no[c[i],hv,j] = n[i,j]"
    ) == [
        "n[i,j]:f32 = (f32(x[j,i])*2.0 if i <= j else 0.0) + g[i]",
        "store o[c[i], hv, j] = n[i,j]",
    ]


def test_a_condition_is_tested_once(tmp_path: Path) -> None:
    text = "m[i,j] = exp2(g[i]) if j <= i else 0\nn[i,j] = m[i,j]*g[j] if j <= i else 0\no[c[i],hv,j] = n[i,j]"
    assert fused(tmp_path, text)[0] == "n[i,j]:f32 = exp2(g[i])*g[j] if j <= i else 0.0"


def test_a_value_with_two_readers_stays(tmp_path: Path) -> None:
    text = "m[i,j] = f32(x[i,j])*2\nn[i,j] = m[i,j] + m[j,i]\no[c[i],hv,j] = n[i,j]"
    assert fused(tmp_path, text)[:2] == ["m[i,j]:f32 = f32(x[i,j])*2.0", "n[i,j]:f32 = m[i,j] + m[j,i]"]


def test_a_vector_is_computed_once_and_stays(tmp_path: Path) -> None:
    text = "s[i] = exp2(g[i])\nn[i,j] = s[i]*f32(x[i,j])\no[c[i],hv,j] = n[i,j]"
    assert fused(tmp_path, text)[0] == "s[i]:f32 = exp2(g[i])"


def test_an_operand_of_a_product_stays(tmp_path: Path) -> None:
    text = "m[i,l] = bf16(f32(x[i,l])*2)\nn[i,j] = m[i,l] @ y[j,l]\no[c[i],hv,j] = n[i,j]"
    assert fused(tmp_path, text)[:2] == [
        "m[i,l]:bf16 = bf16(f32(x[i,l])*2.0)",
        "n[i,j]:f32 = m[i,l] @ y[j,l] over l",
    ]


def test_an_element_that_is_read_for_all_stays(tmp_path: Path) -> None:
    text = "m[i,j] = f32(x[i,j])*2\nn[i,j] = m[i,0] + g[j]\no[c[i],hv,j] = n[i,j]"
    assert fused(tmp_path, text)[0] == "m[i,j]:f32 = f32(x[i,j])*2.0"


def test_what_combines_tiles_is_not_put_off_past_other_statements(tmp_path: Path) -> None:
    """Put off, ``m`` and ``n`` would be kept through the product, where ``s`` alone is enough."""
    text = """
m[i,j] = x[i,l] @ y[j,l]
n[i,j] = y[i,l] @ x[j,l]
s[i,j] = m[i,j] + g[i]*n[i,j]
p[i,j] = x[i,l] @ x[j,l]
o[c[i],hv,j] = s[i,j] + p[i,j]
"""
    lines = fused(tmp_path, text)
    assert lines.index("s[i,j]:f32 = m[i,j] + g[i]*n[i,j]") < lines.index("p[i,j]:f32 = x[i,l] @ x[j,l] over l")


def test_what_scales_one_tile_is_put_off_past_a_product(tmp_path: Path) -> None:
    text = "m[i,j] = exp2(g[i] - g[j])\nn[i,j] = x[i,l] @ y[j,l]\no[c[i],hv,j] = m[i,j]*n[i,j]"
    assert not any(line.startswith("m[") for line in fused(tmp_path, text))
