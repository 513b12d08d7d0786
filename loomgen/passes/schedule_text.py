"""A kernel's whole schedule as YAML, what was inferred included, to be pasted back into its spec and changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import wrap

from loomgen.ir import plan, walk
from loomgen.ir.kernel import KernelSpec
from loomgen.ir.plan import Leaf, Plan, PlanOp
from loomgen.ir.schedule import Place, Schedule, Split
from loomgen.ir.tile import Program, Stmt, Store
from loomgen.passes.pipeline import lower
from loomgen.passes.team import divide
from loomgen.passes.trace import leaves
from loomgen.target import Target

_WIDTH = 100
_LEFT_SIDE = re.compile(r"\w+")


def schedule_text(kernel: KernelSpec, target: Target) -> str:
    """The ``schedule`` section that gives this very kernel, and the stage's others; ends with a newline.

    What the spec writes with static names (``across: KS``) stays so, for a variant sets them. Warps that follow from
    rows and split, and thus perhaps from the variant, are a comment. Tiles that no longer exist, because they are
    computed where they are read, have no place.
    """
    lowered = lower(kernel, target)
    division = divide(kernel, lowered.program)
    said = kernel.schedule
    warps = str(lowered.plan.team.warps)
    entries: dict[str, str] = {}
    if not said.roles and (said.warps is not None or division.vector is not None):
        entries["warps"] = said.formula("warps") or warps
    if division.vector is not None:
        entries["vector"] = said.formula("vector") or str(division.vector)
    if division.rows:
        rows = (index.name for index in lowered.program.indices if index.name in division.rows)
        entries["rows"] = f"[{', '.join(rows)}]"
    if division.split is not None:
        entries["split"] = _split(division.split, said)
    single = {name: slots for name, slots in said.rings if slots == 1}
    if rings := {**dict(_rings(lowered.plan.body)), **single}:
        entries["rings"] = _mapping({name: said.formula(f"rings.{name}") or slots for name, slots in rings.items()})
    if place := _places(kernel.program, lowered.plan):
        entries["place"] = _mapping({name: where.value for name, where in place.items()})
    entries |= _of_roles(said)
    entries["min_blocks"] = said.formula("min_blocks") or str(lowered.launch.min_blocks)
    lines = [line for key, value in entries.items() for line in _entry(key, value)]
    follows = [] if "warps" in entries or said.roles else [f"  # {warps} warps: what rows and split come to"]
    return "\n".join([f"# the whole schedule of {kernel.name}", "schedule:", *follows, *lines]) + "\n"


def _of_roles(said: Schedule) -> dict[str, str]:
    """Who runs what, and what the hardware beside the threads does."""
    if not said.roles:
        return {}
    roles = {}
    for role in said.roles:
        runs = "rest" if role.runs is None else f"[{', '.join(role.runs)}]"
        registers = {} if role.registers is None else {"registers": role.registers}
        roles[role.name] = _mapping({"warps": role.warps, **registers, "runs": runs})
    return {"roles": _mapping(roles), "atom": said.atom.value, "tma": f"[{', '.join(said.boxes)}]"}


def _split(split: Split, said: Schedule) -> str:
    parts, across = (
        said.formula(f"split.{split.index}.{key}") or number
        for key, number in (("parts", split.parts), ("across", split.across))
    )
    return f"{{{split.index}: {{parts: {parts}, across: {across}}}}}"


def _mapping(entries: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in entries.items()) + "}"


def _entry(key: str, value: str) -> list[str]:
    """``key: value``, folded where it is long."""
    return wrap(f"{key}: {value}", _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _rings(ops: tuple[PlanOp, ...]) -> Iterator[tuple[str, int]]:
    """The tiles that loops load, with their slots."""
    for op in ops:
        for leaf in leaves(op):
            if isinstance(leaf, plan.Arrive):
                yield from ((ref.buffer.name, ref.buffer.slots) for ref in leaf.refs if ref.buffer.slots > 1)
            if isinstance(leaf, plan.BoxIn):
                yield leaf.dst.buffer.name, leaf.dst.buffer.slots


def _places(program: Program, kernel: Plan) -> dict[str, Place]:
    """Where each tile of two indices lives and how each store leaves, by the left sides of the program."""
    found: dict[str, Place] = {}
    for op in kernel.body:
        for leaf in leaves(op):
            found.update(_placed(leaf))
    names = dict.fromkeys(_left_side(stmt) for stmt in walk.statements(program.body))
    return {name: found[name] for name in names if name is not None and name in found}


def _left_side(stmt: Stmt) -> str | None:
    """What a schedule calls the statement: the tensor of a store, the tile that the program itself names."""
    if isinstance(stmt, Store):
        return stmt.tensor.name
    written = _LEFT_SIDE.match(stmt.text)
    names = (value.name for value in walk.defined(stmt) if len(value.indices) == 2)
    return next((name for name in names if written is not None and name == written.group()), None)


def _placed(op: Leaf) -> Iterator[tuple[str, Place]]:
    match op:
        case plan.CopyIn():
            yield op.dst.buffer.name, Place.SHARED
        case plan.MapShared():
            yield op.value.name, Place.SHARED
        case plan.MapFragment():
            yield op.value.name, Place.REGISTERS
        case plan.LoadStrip():
            yield op.dst.name, Place.REGISTERS
        case plan.CopyOut():
            yield op.tensor.name, Place.SHARED
        case plan.StoreDirect():
            yield op.tensor.name, Place.DIRECT
        case _:
            pass
