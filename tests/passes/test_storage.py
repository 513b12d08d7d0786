"""Which values share a register array: what is carried is updated in place."""

from __future__ import annotations

from pathlib import Path

from loomgen.passes.storage import share_registers
from tests.passes.gdn import kernel
from tests.passes.short import program_of

SCAN = """
S[i,l] = 0
for m in range(4):
    {update}
o[c[i],hv,l] = S[i,l]
"""


def arrays(folder: Path, update: str) -> dict[str, str]:
    """The values of the state with the array of each, those that share none left out."""
    shared = share_registers(program_of(folder, SCAN.format(update=update)))
    return {name: array for name, array in shared.items() if name.startswith("S")}


def test_an_element_wise_update_overwrites_the_state(tmp_path: Path) -> None:
    names = arrays(tmp_path, "S[i,l] = 2*S[i,l] + f32(x[i,l])")
    assert set(names.values()) == {"S"}


def test_an_update_that_needs_other_elements_may_not_overwrite(tmp_path: Path) -> None:
    names = arrays(tmp_path, "S[i,l] = 2*S[l,i]")
    assert len(set(names.values())) == 2


def test_an_update_from_other_tiles_has_an_array_of_its_own(tmp_path: Path) -> None:
    """The state is read twice, so neither reader may overwrite it for the other."""
    names = arrays(tmp_path, "p[i,l] = 2*S[i,l]\n    q[i,l] = S[i,l] + 1\n    S[i,l] = p[i,l] + q[i,l]")
    assert set(names.values()) == {"S", "S_3"}


def test_the_scan_holds_its_state_once() -> None:
    names = share_registers(kernel("fwd_h").program)
    states = {name for name in names if name.split("_")[0] == "S" and not name.endswith("lhs")}
    assert {names[name] for name in states} == {"S"}
    assert len(states) > 4
