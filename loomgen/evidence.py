"""What a document says of the run that it is of: the card, versions of what took part, the commit and the command."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from loomgen.documents import write_document
from loomgen.errors import NoGpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU as nvidia-smi describes it; clocks in MHz, None where it does not know them."""

    name: str
    driver: str
    clocks: Mapping[str, int | None]

    @property
    def slug(self) -> str:
        """``NVIDIA H200`` as ``h200``."""
        words = [word for word in self.name.lower().split() if word != "nvidia"]
        return "-".join(words)

    def described(self) -> dict[str, Any]:
        """What a document says of it."""
        return {"card": self.name, "driver": self.driver, "clocks": dict(self.clocks)}


def parse_card(text: str) -> Card:
    """The card in a line of nvidia-smi's CSV: name, driver version, SM clock, memory clock, highest SM clock."""
    name, driver, *clocks = (part.strip() for part in text.splitlines()[0].split(","))
    names = ("sm_mhz", "memory_mhz", "max_sm_mhz")
    return Card(name=name, driver=driver, clocks=dict(zip(names, map(_clock, clocks), strict=True)))


def _clock(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def first_card() -> Card:
    """The first GPU; raises NoGpu where nvidia-smi is missing or fails."""
    query = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm"
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoGpu(f"nvidia-smi tells of no GPU: {error}") from error
    return parse_card(done.stdout)


def package_version(name: str) -> str:
    """``unknown`` where no package of this name is installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """By name."""
    return {name: package_version(name) for name in names}


def commit_of(root: Path) -> str:
    """The commit that is checked out in ``root``, with ``+`` where files differ from it; ``unknown`` outside git."""
    try:
        commit, changes = (_git(root, *words) for words in (("rev-parse", "HEAD"), ("status", "--porcelain")))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + ("+" if changes else "")


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def command_of(program: Sequence[str], arguments: Sequence[str]) -> str:
    """The command to run again; where it wrote to is the machine's own."""
    words = list(arguments)
    for n, word in enumerate(words):
        if word == "--out" and n + 1 < len(words):
            words[n + 1] = "OUT"
        if word.startswith("--out="):
            words[n] = "--out=OUT"
    return shlex.join([*program, *words])


def head(card: Card, *, versions: Mapping[str, str], commit: str, command: str) -> dict[str, Any]:
    """What stands before the results in a document of a run on ``card``."""
    return {**card.described(), "versions": dict(versions), "commit": commit, "command": command}


def evidence_path(folder: Path, topic: str, card: Card) -> Path:
    """``folder``/``topic``.<card>.json."""
    return folder / f"{topic}.{card.slug}.json"


def write_evidence(
    folder: Path,
    topic: str,
    card: Card,
    rows: Iterable[Mapping[str, Any]],
    *,
    versions: Mapping[str, str],
    commit: str,
    command: str,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Writes the document of a run, with the fields of ``more`` last, and returns its path; raises what
    :func:`~loomgen.documents.write_document` raises."""
    path = evidence_path(folder, topic, card)
    content = head(card, versions=versions, commit=commit, command=command)
    write_document(path, {**content, "rows": list(rows), **more})
    return path
