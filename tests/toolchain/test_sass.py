"""Counting instructions in a disassembly."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomgen.errors import LoomgenError
from loomgen.toolchain.sass import disassemble, instruction_mix

SASS = """\
.text.scale_it:
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
        /*0050*/              @!P0 LDG.E R0, desc[UR6][R2.64] ;
        /*0060*/              @UP1 UMOV UR4, 0x400 ;
        /*00b0*/                   STS [R5+UR4], R0 ;
        /*00c0*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*00d0*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*00e0*/                   HMMA.16816.F32.BF16 R4, R8, R14, R4 ;
.L_x_1:
        /*10110*/                  EXIT ;
.L_x_0:
        /*10120*/                  BRA `(.L_x_0);
        /*10130*/                  NOP;
"""


def test_mix_counts_opcodes_without_modifiers_predicates_or_padding() -> None:
    assert instruction_mix(SASS) == {
        "BAR": 1,
        "BRA": 1,
        "EXIT": 1,
        "HMMA": 2,
        "LDC": 1,
        "LDG": 1,
        "STS": 1,
        "UMOV": 1,
    }


def test_a_failing_disassembler_is_reported(tmp_path: Path) -> None:
    nvdisasm = tmp_path / "nvdisasm"
    nvdisasm.write_text("#!/bin/sh\necho 'not a cubin' >&2\nexit 1\n")
    nvdisasm.chmod(0o755)
    with pytest.raises(LoomgenError, match="not a cubin"):
        disassemble(nvdisasm, tmp_path / "x.cubin")
