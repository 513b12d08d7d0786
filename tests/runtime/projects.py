"""Projects of two small kernels, and a compiler that makes a cubin of anything at once."""

from __future__ import annotations

import hashlib
import shlex
import sys
from pathlib import Path

from loomgen.registry import (
    Constraints,
    KernelEntry,
    LaunchEntry,
    Registry,
    SourceEntry,
    SpecEntry,
    canonical_json,
    registry_path,
)

ARCH = "sm_90a"
NAMES = ("first__c64__base", "second__c64__base")
HEADER = "generated/include/loom/loom.cuh"


def source_path(name: str) -> str:
    return f"generated/csrc/{ARCH}/test/{name}.cu"


def write_project(root: Path, text: str = "a kernel") -> Registry:
    """The project's files; the source of each kernel is ``text`` and the kernel's name."""
    sources = {source_path(name): f"{text}: {name}".encode() for name in NAMES}
    registry = Registry(schema_version="1.0", arch=ARCH, kernels=tuple(_entry(name, sources) for name in NAMES))
    files = {**sources, HEADER: b"a header", registry_path(ARCH): canonical_json(registry.model_dump(mode="json"))}
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return registry


def _entry(name: str, sources: dict[str, bytes]) -> KernelEntry:
    path = source_path(name)
    return KernelEntry(
        name=name,
        stage=name.split("__")[0],
        signature="c64",
        variant="base",
        instantiation=None,
        family="test",
        symbol=name,
        source=SourceEntry(path=path, sha256=hashlib.sha256(sources[path]).hexdigest()),
        spec=SpecEntry(path="specs/test.yaml", digest="0" * 64),
        arguments=(),
        launch=LaunchEntry(threads=32, min_blocks=1, grid=(1,), dynamic_shared_bytes=0),
        scan=None,
        constraints=Constraints(dims={}, multiples=()),
    )


def cubin_of(name: str, text: str = "a kernel") -> bytes:
    """What the compiler of :func:`write_nvcc` makes of a kernel of :func:`write_project`."""
    return f"cubin of {text}: {name}".encode()


_NVCC = """\
import sys, time
from pathlib import Path
if "--version" in sys.argv:
    print("Cuda compilation tools, release 13.0, V{version}")
    sys.exit()
include = next(argument[2:] for argument in sys.argv if argument.startswith("-I"))
if not (Path(include) / "loom").is_dir():
    sys.exit(include + ": no headers")
out, source = Path(sys.argv[sys.argv.index("-o") + 1]), Path(sys.argv[-1])
with Path({log!r}).open("a") as log:
    log.write(source.stem + "\\n")
out.write_bytes(b"cubin of ")
time.sleep({seconds})
out.write_bytes(b"cubin of " + source.read_bytes())
Path(str(out) + ".d").write_text(f"{{out}}: {{source}}\\n")
"""


def write_nvcc(folder: Path, *, seconds: float = 0.0, version: str = "13.0.88") -> tuple[Path, Path]:
    """A compiler, for LOOMGEN_NVCC, that takes ``seconds`` for a kernel, and the log of the kernels it compiled."""
    folder.mkdir(parents=True, exist_ok=True)
    script, program, log = folder / "nvcc.py", folder / "nvcc", folder / "compiled"
    script.write_text(_NVCC.format(version=version, log=str(log), seconds=seconds))
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S -E {shlex.quote(str(script))} "$@"\n')
    program.chmod(0o755)
    log.touch()
    return program, log
