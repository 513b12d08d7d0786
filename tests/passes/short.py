"""Short programs over one chunk of the grid, as Tile IR, and Tile IR as lines."""

from __future__ import annotations

from pathlib import Path

from loomgen.ir.print_tile import print_program
from loomgen.ir.tile import Program
from tests.spec.support import SHORT, kernels_of

LOADS = "x[i,l] = a[c[i],hv,l]; y[j,l] = b[c[j],hv,l]; g[i] = f[c[i],hv]\n"
N_LOADS = 3


def program_of(folder: Path, statements: str, *, chunk: int = 16) -> Program:
    """``statements`` after three loads: bf16 tiles ``x[i,l]``, ``y[j,l]``, an f32 vector ``g[i]``; ``o`` takes f32."""
    indented = "".join(f"  {line}\n" for line in (LOADS + statements.strip("\n")).split("\n"))
    text = f"{SHORT}program: |\n{indented}".replace("{C: 16,", f"{{C: {chunk},")
    return kernels_of(folder, text)[0].program


def lines_of(program: Program) -> list[str]:
    """The statements, printed."""
    lines = print_program(program).splitlines()
    last_grid = max(n for n, line in enumerate(lines) if line.startswith("  grid "))
    return [line.removeprefix("  ") for line in lines[last_grid + 1 :]]
