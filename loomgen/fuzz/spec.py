"""A whole generated case: a stage's YAML and the batch that it runs on."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from loomgen.fuzz.case import Case
from loomgen.fuzz.choices import Choices
from loomgen.fuzz.program import body
from loomgen.fuzz.setting import Letter, Setting, draw_setting
from loomgen.fuzz.statements import Block, Names
from loomgen.fuzz.tensors import Place, Tensors

_LONGEST = 150
_LENGTHS = (1, 0, 16, 40, 64, 65)
STAGE = "fuzz"
_LIKE_INTERNAL = (
    *("slab", "lane", "thread", "row", "part", "tile", "step", "half", "pair", "out", "smem", "block", "total"),
    *("x0_smem", "x1_smem", "x0_id", "x1_mm", "x2_lhs", "x0_out", "x1_next", "x0_ring", "x1_tile", "x2_2", "x0_0"),
    *("c_start", "c_len", "n_start", "g_0", "next", "float4", "short", "x0_sum", "x0_parts", "o0_tile", "x1_rows"),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Valid stages with small batches."""
    choices = Choices(draw)
    text = _draw_spec(choices)
    n_sequences = choices.count(1, 3)
    lengths = [choices.count(0, _LONGEST) if choices.chance(2) else choices.pick(_LENGTHS) for _ in range(n_sequences)]
    heads = choices.pick(((1, 1), (1, 2), (2, 2)))
    return Case(text=text, lengths=tuple(lengths), heads=heads, seed=choices.count(0, 999))


def _draw_spec(choices: Choices) -> str:
    setting = draw_setting(choices)
    tensors, names = Tensors(choices=choices, setting=setting), Names()
    block = Block(
        choices=choices,
        setting=setting,
        tensors=tensors,
        names=names,
        place=Place(has_chunk=setting.grid == "chunks", in_loop=False),
        tiles=[],
        integers=("c.len",) if setting.grid == "chunks" else ("n",),
    )
    if choices.chance(2):
        names.scalars["scale"] = "f32"
    if setting.grid != "chunks" and choices.chance(4):
        _slots(block)
    body(block)
    text = _spec_text(setting, tensors, names, block.lines, _draw_schedule(choices, setting, names))
    return _renamed(choices, text, names.count) if choices.chance(3) else text


def _renamed(choices: Choices, text: str, n_values: int) -> str:
    """Some values under names that the compiler, or the code that it prints, has use for itself."""
    values = [f"x{n}" for n in range(n_values)]
    chosen = choices.sample(values, min(len(values), 3))
    for old, new in zip(chosen, choices.sample(_LIKE_INTERNAL, len(chosen)), strict=True):
        text = re.sub(rf"\b{old}\b", new, text)
    return text


def _slots(block: Block) -> None:
    """Sequences have slots; one without does nothing."""
    block.say(f"slot = {block.tensors.index()}[n]")
    block.say("if slot == 0:")
    block.say("    return")
    block.place = Place(has_chunk=False, in_loop=False, has_slot=True)


def _draw_schedule(choices: Choices, setting: Setting, names: Names) -> list[str]:
    """Parts of a schedule, as lines of YAML."""
    lines = []
    if setting.rows:
        is_plain = set(names.products) == set(setting.rows) and not names.has_inverse
        if not is_plain or choices.chance(2):
            lines.append(f"rows: [{', '.join(letter.name for letter in setting.rows)}]")
        split = _draw_split(choices, names)
        if split is not None and split.extent >= 32:
            parts = choices.pick((2, 2, split.extent // 16))
            lines.append(f"split: {{{split.name}: {{parts: {parts}, across: {choices.pick((1, 2))}}}}}")
    else:
        lines.append(f"warps: {choices.pick((4, 1, 2))}")
        lines.append(f"vector: {choices.pick((2, 4, 8))}")
    if names.looped and choices.chance(2):
        lines.append(f"rings: {{{choices.pick(names.looped)}: {choices.pick((2, 3, 1))}}}")
    places = [f"{choices.pick(names.stored)}: direct"] if names.stored and choices.chance(4) else []
    if setting.rows and names.halves and choices.chance(4):
        places.append(f"{choices.pick(names.halves)}: {choices.pick(('shared', 'registers'))}")
    lines += [f"place: {{{', '.join(places)}}}"] if places else []
    return lines + (["min_blocks: 2"] if choices.chance(6) else [])


def _draw_split(choices: Choices, names: Names) -> Letter | None:
    """A letter that a tile is reduced along, or the last product's."""
    if names.reduced and choices.chance(2):
        return choices.pick(names.reduced)
    return names.contracted[-1] if names.contracted and choices.chance(3) else None


def _spec_text(setting: Setting, tensors: Tensors, names: Names, program: list[str], schedule: list[str]) -> str:
    dims = ", ".join(f"{name}: {extent}" for name, extent in setting.dims)
    index = ", ".join(f"{letter.name}: {letter.symbol}" for letter in setting.letters)
    text = "\n".join(program)
    scalars = ", ".join(f"{name}: {dtype}" for name, dtype in names.scalars.items() if _is_used(name, text))
    lines = [f"stage: {STAGE}", "family: fuzz", f"dims: {{{dims}}}", "tensors:"]
    lines += [tensor.text() for tensor in tensors.declared]
    lines += [f"scalars: {{{scalars}}}"] if scalars else []
    lines += [f"index: {{{index}}}", f"grid: {setting.grid_text()}"]
    lines += ['where: {hk: "h // (HV // H)"}'] if _is_used("hk", text) else []
    lines += ["program: |", *(f"  {line}" for line in program)]
    lines += ["schedule:", *(f"  {line}" for line in schedule)] if schedule else []
    return "\n".join(lines) + "\n"


def _is_used(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None
