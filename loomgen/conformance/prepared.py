"""The host's results on disk, so that the machine with the GPU needs no compiler for the host."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loomgen.conformance.case import INCLUDE, Case
from loomgen.conformance.compare import Array
from loomgen.conformance.host import compile_for_host, run_on_host
from loomgen.errors import LoomgenError
from loomgen.toolchain.find import GXX, find_tool, tool_version

_MANIFEST = "manifest.json"
_PACKAGE = Path(__file__).parent
_SOURCES = (_PACKAGE, _PACKAGE / "kernels", _PACKAGE.parent / "emulator", _PACKAGE.parent / "emulator" / "csrc")


class StalePreparation(LoomgenError):
    """Results that are missing or were made from other sources or inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A folder with the host's results. ``inputs`` are digests by case name; ``compiler`` made the results."""

    folder: Path
    compiler: str
    inputs: dict[str, str]

    def output(self, case: Case, inputs: Sequence[Array]) -> Array:
        """The case's output on the host; raises :class:`StalePreparation` if it is not of these inputs."""
        if self.inputs.get(case.name) != _digest_of_arrays(inputs):
            raise StalePreparation(f"{case.name}: the host's results are not of these inputs; prepare again")
        with np.load(self.folder / f"{case.name}.npz") as archive:
            output: Array = archive["output"]
        return output


def prepare(cases: Sequence[Case], folder: Path, cache: Path) -> None:
    """Runs ``cases`` on the host and writes the results to ``folder``.

    Sources are taken side by side; launches are not, so that what one takes does not depend on the others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    launching = threading.Lock()

    def run_source(source: str) -> dict[str, str]:
        inputs = {case: case.inputs() for case in cases if case.source == source}
        kernels = compile_for_host([(case, len(arrays)) for case, arrays in inputs.items()], cache)
        for case, arrays in inputs.items():
            with launching:
                output = run_on_host(case, kernels[case.kernel], arrays)
            np.savez_compressed(folder / f"{case.name}.npz", output=output)
        return {case.name: _digest_of_arrays(arrays) for case, arrays in inputs.items()}

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = {name: digest for part in pool.map(run_source, _sources(cases)) for name, digest in part.items()}
    manifest = {"sources": sources_digest(), "compiler": tool_version(find_tool(GXX)), "inputs": digests}
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _sources(cases: Sequence[Case]) -> list[str]:
    return list(dict.fromkeys(case.source for case in cases))


def open_prepared(folder: Path) -> Prepared:
    """What :func:`prepare` wrote; raises :class:`StalePreparation` if the sources have changed since."""
    path = folder / _MANIFEST
    if not path.exists():
        raise StalePreparation(f"{folder} holds no prepared results")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    if manifest["sources"] != sources_digest():
        raise StalePreparation(f"{folder} was prepared from other sources; prepare again")
    return Prepared(folder=folder, compiler=manifest["compiler"], inputs=manifest["inputs"])


def sources_digest() -> str:
    """The digest of everything that the host's results depend on: headers, kernels, cases, emulator."""
    sha = hashlib.sha256()
    for path in sorted(_source_files()):
        data = path.read_bytes()
        sha.update(f"{path.relative_to(_PACKAGE.parent).as_posix()} {len(data)}\n".encode())
        sha.update(data)
    return sha.hexdigest()


def _source_files() -> Iterator[Path]:
    for folder in _SOURCES:
        yield from (path for path in folder.iterdir() if path.is_file())
    yield from (path for path in INCLUDE.rglob("*") if path.is_file())


def _digest_of_arrays(arrays: Sequence[Array]) -> str:
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(f"{array.dtype.str} {array.shape}\n".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
