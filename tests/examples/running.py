"""The committed kernels of ``specs/examples``: emulated, interpreted, and their results compared bit by bit; and specs
of tests, rendered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from loomgen.cli.project import Project, compiler, default_root, headers
from loomgen.emulator import EmulatorOptions
from loomgen.emulator.stage import EmulatedStage, emulated_stage
from loomgen.interp import interpret
from loomgen.ir.kernel import KernelSpec
from loomgen.passes.pipeline import LoweredKernel, lower
from loomgen.registry import load
from loomgen.registry.tables import WINDOW_TABLES
from loomgen.render import render_tree
from loomgen.spec import load as load_specs
from loomgen.target import SM_90A, target_named
from loomgen.verify import same_bits
from loomgen.verify.backends import target_of

ROOT = default_root()
PACK = (0, 15, 64, 65, 200, 1)
N_SEEDS = 4
_ARCH = "sm_100a"

Inputs = Mapping[str, Tensor | int | float | bool | None]
Fresh = Callable[[], dict[str, Tensor]]
"""Makes the tensors that a stage writes, as they are before it."""


@cache
def lowered(name: str) -> LoweredKernel:
    kernel = _kernel(name)
    return lower(kernel, target_named(target_of(kernel, _ARCH)))


def _kernel(name: str) -> KernelSpec:
    return next(kernel for kernel in Project(ROOT).kernels() if str(kernel.name) == name)


@cache
def compiled(name: str) -> EmulatedStage:
    return emulated_stage(load(target_of(_kernel(name), _ARCH), ROOT).kernel(name), ROOT)


def run(name: str, given: Inputs, fresh: Fresh) -> dict[str, Tensor]:
    """What the kernel writes: the same bits for every seed and in the interpreter's ordered mode."""
    results = _emulate(name, given, fresh, EmulatorOptions())
    for seed in range(N_SEEDS):
        again = _emulate(name, given, fresh, EmulatorOptions(seed=seed, completion="random"))
        assert _differing(results, again) == [], seed
    assert _differing(results, _interpret(name, given, fresh)) == []
    return results


def _emulate(name: str, given: Inputs, fresh: Fresh, options: EmulatorOptions) -> dict[str, Tensor]:
    results = fresh()
    compiled(name).run({**given, **results}, options)
    return results


def _interpret(name: str, given: Inputs, fresh: Fresh) -> dict[str, Tensor]:
    kernel, results = lowered(name), fresh()
    known = {*WINDOW_TABLES, *(t.name for t in kernel.program.tensors), *(a.name for a in kernel.arguments)}
    arguments = {key: value for key, value in {**given, **results}.items() if key in known}
    interpret(kernel.program, arguments, mode="ordered", orders=kernel.orders)
    return results


def _differing(some: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> list[str]:
    return [name for name, tensor in some.items() if not same_bits(tensor, others[name])]


def project(folder: Path, spec: str, *edits: tuple[str, str]) -> Path:
    """A stage's spec, with the edits, and its rendered kernel in a folder of their own."""
    text = spec
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (ROOT / "build").mkdir(exist_ok=True)
    (folder / "build").symlink_to(ROOT / "build")  # the emulator is built once
    path = folder / "specs" / "stage.yaml"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    for name, content in render_tree(load_specs([path], folder), [SM_90A], compiler(), headers()).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return path


def unwritten(*shape: int, dtype: torch.dtype) -> Tensor:
    """A tensor to write, NaN where that is forgotten."""
    return torch.full(shape, float("nan"), dtype=dtype)


def padded(tensor: Tensor, gap: int) -> Tensor:
    """The same elements, with ``gap`` elements of NaN after each row of the last dimension."""
    wide = unwritten(*tensor.shape[:-1], tensor.shape[-1] + gap, dtype=tensor.dtype)
    wide[..., : tensor.shape[-1]] = tensor
    return wide[..., : tensor.shape[-1]]


def gaps_are_untouched(tensor: Tensor) -> bool:
    """What :func:`padded` put between the rows is still there."""
    whole = tensor._base
    assert whole is not None
    return bool(torch.isnan(whole[..., tensor.shape[-1] :]).all())


def sequences(lengths: tuple[int, ...]) -> list[slice]:
    """The tokens of each sequence of a pack."""
    ends = torch.tensor([0, *lengths]).cumsum(0).tolist()
    return [slice(begin, end) for begin, end in pairwise(ends)]
