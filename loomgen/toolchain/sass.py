"""The instruction mix of a cubin."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from loomgen.errors import LoomgenError

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", re.MULTILINE)

FEATURED = ("HMMA", "HGMMA", "LDSM", "STSM", "LDGSTS", "LDG", "STG", "LDS", "STS", "SHFL", "MUFU", "BAR")
"""The opcodes that a table shows: matrix products, copies, memory, exchange, special functions, barriers."""


def disassemble(nvdisasm: Path, cubin: Path) -> str:
    """The cubin's SASS; raises LoomgenError with what nvdisasm printed."""
    done = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LoomgenError(f"{nvdisasm} failed on {cubin}:\n{done.stderr.strip()}")
    return done.stdout


def instruction_mix(sass: str) -> dict[str, int]:
    """How often each opcode (without its modifiers) stands in the text, by opcode; padding is left out."""
    counts = Counter(match[1] for match in _INSTRUCTION.finditer(sass))
    return {opcode: counts[opcode] for opcode in sorted(counts) if opcode != "NOP"}
