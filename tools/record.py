"""Run a command of loomgen that checks something and keep what it printed, with what it takes to repeat it.

    python -m tools.record OUT COMMAND [OPTION ...]

Runs `loomgen COMMAND ... --json` in this checkout and writes OUT: the commit (`+` where files differ from it; or as
`--commit`, before OUT, has it), the card where there is one, the command, versions of what took part, the seconds it
took, its exit code, and its output as it is. Exits as the command does; where that printed no JSON, nothing is written.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from loomgen.documents import write_document
from loomgen.evidence import commit_of, first_card, package_versions
from loomgen.toolchain.find import GXX, find_tool, tool_version
from tools.arguments import out_file

ROOT = Path(__file__).resolve().parents[1]

_PACKAGES = ("hypothesis", "numpy", "torch")
"""Packages whose version may change what is drawn or computed."""


def record(words: Sequence[str], out: Path, commit: str | None = None) -> int:
    """Run ``loomgen`` with ``words`` and ``--json``, write the document to ``out``; returns the exit code."""
    arguments = [*words, "--json"]
    head: dict[str, Any] = {
        **(first_card().described() if torch.cuda.is_available() else {}),
        "commit": commit_of(ROOT) if commit is None else commit,
        "command": shlex.join(["loomgen", *arguments]),
        "versions": _versions(),
    }
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "loomgen", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    seconds = round(time.monotonic() - begin)
    if done.stdout.strip():
        output = json.loads(done.stdout)
        write_document(out, {**head, "seconds": seconds, "exit_code": done.returncode, "output": output})
    return done.returncode


def _versions() -> dict[str, str]:
    tools = {"python": platform.python_version(), "g++": tool_version(find_tool(GXX))}
    return {**tools, **package_versions(_PACKAGES)}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", help="the commit that runs (default: ask git)")
    parser.add_argument("out", type=out_file, metavar="OUT")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    options = parser.parse_args(argv)
    return record(options.words, options.out.resolve(), options.commit)


if __name__ == "__main__":
    sys.exit(main())
