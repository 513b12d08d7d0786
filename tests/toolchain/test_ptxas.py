"""Reading ptxas's report."""

from __future__ import annotations

import pytest

from loomgen.errors import InternalError
from loomgen.toolchain.ptxas import Resources, parse_resources

CLEAN = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'scale_it' for 'sm_90a'
ptxas info    : Function properties for scale_it
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 512 bytes smem
ptxas info    : Compile time = 1.949 ms
"""

SPILLED = """\
ptxas warning : Registers are spilled to local memory in function 'spill_it', 128 bytes spill stores, 184 bytes spill loads
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spill_it' for 'sm_100a'
ptxas info    : Function properties for spill_it
    112 bytes stack frame, 128 bytes spill stores, 184 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 112 bytes cumulative stack size
"""  # noqa: E501 - as ptxas prints it

CALLEE = """\
ptxas info    : Function properties for helper
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
"""

SERIALISED = (
    "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to"
    " insufficient register resources for the wgmma pipeline in the function 'scale_it'"
)


def test_clean_kernel() -> None:
    expected = Resources(
        registers=10, stack_bytes=0, spill_store_bytes=0, spill_load_bytes=0, static_shared_bytes=512, warnings=()
    )
    assert parse_resources(CLEAN, "scale_it") == expected
    assert not expected.spills


def test_spills_and_stack() -> None:
    found = parse_resources(SPILLED, "spill_it")
    assert found.spills
    assert (found.stack_bytes, found.spill_store_bytes, found.spill_load_bytes) == (112, 128, 184)
    assert found.static_shared_bytes == 0


def test_a_called_function_counts_too() -> None:
    found = parse_resources(CLEAN + CALLEE, "scale_it")
    assert (found.stack_bytes, found.spill_store_bytes, found.spill_load_bytes) == (16, 8, 4)


def test_serialised_mma_is_a_warning() -> None:
    assert parse_resources(f"{SERIALISED}\n{CLEAN}", "scale_it").warnings == (SERIALISED,)


@pytest.mark.parametrize("log", ["", CLEAN + SPILLED, SPILLED])
def test_a_log_of_something_else_is_refused(log: str) -> None:
    with pytest.raises(InternalError, match="expected the resources of scale_it"):
        parse_resources(log, "scale_it")
