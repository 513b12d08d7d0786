"""The rules from expressions to statements, one small program each, with the Tile IR that it must give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.support import SHORT, TILES, body_of, mistakes_in

PRODUCTS = [
    ("z[i,j] = x[i,l] @ y[j,l]", ["z[i,j]:f32 = x[i,l] @ y[j,l] over l"]),
    ("z[j,i] = x[i,l] @ y[j,l]", ["z[j,i]:f32 = y[j,l] @ x[i,l] over l"]),
    ("z[i,j] = 1 + x[i,l] @ y[j,l]", ["z_seed[i,j]:f32 = 1.0", "z[i,j]:f32 = z_seed[i,j] + x[i,l] @ y[j,l] over l"]),
    (
        "z[i,j] = x[i,l] @ y[j,l] + g[i]",
        ["z_seed[i,j]:f32 = g[i]", "z[i,j]:f32 = z_seed[i,j] + x[i,l] @ y[j,l] over l"],
    ),
    (
        "z[i,j] = x[i,l] @ y[j,l] + x[j,l] @ y[i,l]",
        ["z_seed[i,j]:f32 = x[i,l] @ y[j,l] over l", "z[i,j]:f32 = z_seed[i,j] + y[i,l] @ x[j,l] over l"],
    ),
    (
        "t[i,j] = x[i,l] @ y[j,l]; z[i,j] = t[i,j] + x[i,l] @ y[j,l]",
        ["t[i,j]:f32 = x[i,l] @ y[j,l] over l", "z[i,j]:f32 = t[i,j] + x[i,l] @ y[j,l] over l"],
    ),
    (
        "z[i,j] = g[i] - x[i,l] @ y[j,l]",
        ["z_mm[i,j]:f32 = x[i,l] @ y[j,l] over l", "z[i,j]:f32 = g[i] - z_mm[i,j]"],
    ),
    (
        "z[i,j] = (x[i,l] @ y[j,l])*(y[i,l] @ x[j,l])",
        [
            "z_mm[i,j]:f32 = x[i,l] @ y[j,l] over l",
            "z_mm2[i,j]:f32 = y[i,l] @ x[j,l] over l",
            "z[i,j]:f32 = z_mm[i,j]*z_mm2[i,j]",
        ],
    ),
    (
        "z[i,j] = bf16(g[l]*x[i,l]) @ y[j,l]",
        ["z_lhs[i,l]:bf16 = bf16(g[l]*f32(x[i,l]))", "z[i,j]:f32 = z_lhs[i,l] @ y[j,l] over l"],
    ),
    (
        "z[i,j] = x[i,l] @ b[c[j],hv,l]",
        ["z_rhs[j,l]:bf16 = load b[c[j], hv, l]", "z[i,j]:f32 = x[i,l] @ z_rhs[j,l] over l"],
    ),
    (
        "z[i,j] = tf32(g[i]*x[i,l]) @ tf32(y[j,l])",
        [
            "z_lhs[i,l]:tf32 = tf32(g[i]*f32(x[i,l]))",
            "z_rhs[j,l]:tf32 = tf32(y[j,l])",
            "z[i,j]:f32 = z_lhs[i,l] @ z_rhs[j,l] over l",
        ],
    ),
]

EXPRESSIONS = [
    ("z[i,l] = x[i,l]*2", ["z[i,l]:f32 = f32(x[i,l])*2.0"]),
    ("z[i,l] = x[l,i]", ["z[i,l]:bf16 = x[l,i]"]),
    ("z[i] = x[i,i]", ["z[i]:bf16 = x[i,i]"]),
    ("z = g[C-1]", ["z:f32 = g[15]"]),
    ("z[i,l] = x[i,l] if l <= i else 0", ["z[i,l]:bf16 = x[i,l] if l <= i else 0.0"]),
    ("z[i] = g[i] if 0 < i < c.len else 1", ["z[i]:f32 = g[i] if 0 < i and i < c.len else 1.0"]),
    ("z[i] = 0 if not i < 3 and hv != 1 else 2*K", ["z[i]:f32 = 0.0 if not i < 3 and hv != 1 else 64.0"]),
    ("z[i] = fma(g[i], 2, 1)", ["z[i]:f32 = fma(g[i], 2.0, 1.0)"]),
    ("z[i] = f32(min(i, c.last)) - -g[i]", ["z[i]:f32 = f32(min(i, c.last)) - -g[i]"]),
    ("z[i] = f32(g[i])", ["z[i]:f32 = g[i]"]),
    ("z[i] = bf16(0)", ["z[i]:bf16 = bf16(0.0)"]),
    ("z = 3", ["z:i32 = 3"]),
    ("z[i] = max[l](x[i,l]) - g[i]", ["z_max[i]:f32 = max[l] f32(x[i,l])", "z[i]:f32 = z_max[i] - g[i]"]),
    ("z[i] = suffix_sum[i](g[i])", ["z[i]:f32 = suffix_sum[i] g[i]"]),
    (
        "z[j] = sum[i](g[i]*(x[i,l] @ y[j,l]))",
        ["z_mm[j,i]:f32 = y[j,l] @ x[i,l] over l", "z[j]:f32 = sum[i] g[i]*z_mm[j,i]"],
    ),
]

CONTROL = [
    (
        "z[i] = 0\nif hv > 1:\n    z[i] = g[i]\nt[i] = z[i]",
        ["z[i]:f32 = 0.0", "if hv > 1:", "  z_2[i]:f32 = g[i]", "z_3[i]:f32 = z_2 or z", "t[i]:f32 = z_3[i]"],
    ),
    (
        "if hv > 1:\n    z[i] = g[i]\n    q[i] = 1\nelse:\n    z[i] = 0\n    q[i] = 2\nt[i] = z[i]",
        [
            *("if hv > 1:", "  z[i]:f32 = g[i]", "  q[i]:f32 = 1.0"),
            *("else:", "  z_2[i]:f32 = 0.0", "  q_2[i]:f32 = 2.0"),
            *("z_3[i]:f32 = z or z_2", "t[i]:f32 = z_3[i]"),
        ],
    ),
    (
        "z[i] = 0\nfor m in range(1, H):\n    z[i] = z[i] + f32(m)\nt[i] = z[i]",
        [
            *("z[i]:f32 = 0.0", "for m in range(1, H):", "  carry z_2[i]:f32 = z, then z_3"),
            *("  z_3[i]:f32 = z_2[i] + f32(m)", "z_4[i]:f32 = z_2 after the loop", "t[i]:f32 = z_4[i]"),
        ],
    ),
    (
        "if hv == 1:\n    return\nelse:\n    z = 1\nt = 2",
        ["if hv == 1:", "  nothing", "else:", "  z:i32 = 1", "  t:i32 = 2"],
    ),
    (
        "if hv == 1:\n    return\nelif hv == 2:\n    return\nt = 2",
        ["if hv == 1:", "  nothing", "else:", "  if hv == 2:", "    nothing", "  else:", "    t:i32 = 2"],
    ),
    (
        "z_2[i] = 0\nz[i] = 0\nif hv > 1:\n    z[i] = g[i]",
        ["z_2[i]:f32 = 0.0", "z[i]:f32 = 0.0", "if hv > 1:", "  z_3[i]:f32 = g[i]", "z_4[i]:f32 = z_3 or z"],
    ),
]


def _statements(folder: Path, program: str) -> list[str]:
    """The statements of ``program`` between the loads of the tiles and the store that every stage must have."""
    lines = body_of(folder, f"{TILES}o[c[i],hv,l] = f32(x[i,l])*g[i]*f32(y[i,l])\n{program}")
    assert lines[4].startswith("store o[c[i], hv, l] = o_tile")
    return lines[5:]


@pytest.mark.parametrize(("program", "expected"), PRODUCTS, ids=lambda value: str(value)[:40])
def test_products(program: str, expected: list[str], tmp_path: Path) -> None:
    assert _statements(tmp_path, program) == expected


@pytest.mark.parametrize(("program", "expected"), EXPRESSIONS, ids=lambda value: str(value)[:40])
def test_expressions(program: str, expected: list[str], tmp_path: Path) -> None:
    assert _statements(tmp_path, program) == expected


@pytest.mark.parametrize(("program", "expected"), CONTROL, ids=lambda value: str(value)[:40])
def test_control(program: str, expected: list[str], tmp_path: Path) -> None:
    assert _statements(tmp_path, program) == expected


def test_a_stored_product_is_stored_without_a_copy(tmp_path: Path) -> None:
    lines = body_of(tmp_path, f"{TILES}z[i] = g[i]\no[c[i],hv,j] = z[i] + x[i,l] @ y[j,l]")
    assert lines[-3:] == [
        "o_seed[i,j]:f32 = z[i]",
        "o_tile[i,j]:f32 = o_seed[i,j] + x[i,l] @ y[j,l] over l",
        "store o[c[i], hv, j] = o_tile[i,j]",
    ]


def test_a_name_that_depends_on_a_wrong_one_is_not_reported(tmp_path: Path) -> None:
    program = "".join(f"  {line}\n" for line in ("z[i] = nope", "t[i] = z[i]", "o[c[i],hv,l] = t[i]"))
    assert [item.message for item in mistakes_in(tmp_path, f"{SHORT}program: |\n{program}")] == ["unknown name `nope`"]


def test_arms_that_disagree_are_an_error_only_where_the_name_is_used(tmp_path: Path) -> None:
    arms = "if hv > 1:\n    z[i] = g[i]\nelse:\n    z[l] = 0"
    assert _statements(tmp_path, arms)[0] == "if hv > 1:"
    program = f"{TILES}{arms}\no[c[i],hv,l] = z[i]".replace("\n", "\n  ")
    found = mistakes_in(tmp_path, f"{SHORT}program: |\n  {program}\n")
    assert [item.message for item in found[:1]] == ["`z` is assigned differently in two arms"]
