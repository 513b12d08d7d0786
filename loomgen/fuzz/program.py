"""A generated program: blocks of statements, loops that carry tiles, branches that merge them."""

from __future__ import annotations

from dataclasses import replace

from loomgen.fuzz.expressions import Tile
from loomgen.fuzz.setting import Letter
from loomgen.fuzz.statements import Block
from loomgen.fuzz.tensors import FLOATS

_FEWEST, _MOST = 2, 7


def statements(block: Block, most: int = _MOST) -> None:
    """Some statements of all kinds that fit where the block stands."""
    kinds = [block.load, block.map, block.store, block.reduce, block.load, block.map, block.scan, block.update]
    kinds += [lambda: branch(block), lambda: count_loop(block), block.gather]
    if block.setting.has_products:
        kinds += [block.product] * 5 + [block.inverse, block.reduce]
    for _ in range(block.choices.count(0, 2)):
        block.load()
    for _ in range(block.choices.count(min(_FEWEST, most), most)):
        block.choices.pick(kinds)()


def body(block: Block) -> None:
    """The whole program: statements, perhaps a loop over the chunks of a sequence, what is not stored yet."""
    if block.setting.grid == "sequences":
        if block.choices.chance(2):
            statements(block, most=3)
        chunk_loop(block)
        if block.choices.chance(3):
            statements(block, most=2)
    else:
        statements(block)
    if block.setting.has_products and not block.names.contracted:
        block.product()
    _store_rest(block)


def _store_rest(block: Block) -> None:
    """Every program stores something; what was computed last is likeliest to depend on the rest."""
    for tile in block.tiles[:-4:-1]:
        if block.choices.chance(2) or not block.names.stored:
            block.store_tile(tile)
    if block.names.stored:
        return
    letter = block.setting.block or block.setting.letters[0]
    vector = block.define((letter,), "f32", block.expressions.value((letter,), 1))
    block.store_tile(vector)


# --------------------------------------------------------------------------- loops


def chunk_loop(block: Block) -> None:
    """Over the chunks of the sequence, in either direction, with tiles that are carried from one to the next."""
    carried = [_start(block) for _ in range(block.choices.count(0, 2))]
    place = replace(block.place, has_chunk=True, in_loop=True)
    inside = block.inner(place, ("c.len", "c.pos"))
    statements(inside)
    for tile in carried:
        _advance(inside, tile)
    if not inside.lines:
        inside.map()
    if not carried or inside.choices.chance(2):
        _store_rest_of_loop(inside)
    chunks = "reversed(chunks(n))" if block.choices.chance(2) else "chunks(n)"
    block.say(f"for c in {chunks}:")
    block.add(inside)


def _store_rest_of_loop(inside: Block) -> None:
    made = [tile for tile in inside.tiles if tile.name in inside.names.looped]
    if made:
        inside.store_tile(made[-1])


def count_loop(block: Block) -> None:
    """A few iterations that advance a tile or a scalar; perhaps as many as a tensor says, none among them."""
    if block.depth > 1:
        return
    tile = _start(block)
    variable = f"r{block.depth}"
    bounds = _bounds(block)
    inside = block.inner(block.place, (variable,))
    if inside.choices.chance(2):
        inside.map()
    if inside.choices.chance(3):
        inside.load()
    _advance(inside, tile)
    block.say(f"for {variable} in range({bounds}):")
    block.add(inside)


def _bounds(block: Block) -> str:
    if not block.choices.chance(2):
        return str(block.choices.count(1, 3))
    block.gather()
    count = block.place.slots[-1]
    return block.choices.pick((count, f"1, {count}", f"{count} % 2", f"{count}, 2"))


def _start(block: Block) -> Tile:
    """A tile or a scalar before the loop that carries it; perhaps read from an optional tensor."""
    letters = block.letters(2) if not block.choices.chance(5) else ()
    if block.choices.chance(2):
        tile = block.define(letters, "f32", block.expressions.value(letters, 1))
    else:
        tile = block.define(letters, "f32", "0.0" if not letters else "0")
    if block.choices.chance(3):
        name, coords = block.tensors.read(letters, "f32", block.place, optional=True)
        block.say(f"if given({name}):")
        block.say(f"    {tile.plain} = {name}[{coords}]")
    return tile


def _advance(inside: Block, tile: Tile) -> None:
    """The tile's value for the next iteration."""
    kind = inside.choices.count(0, 3)
    is_product = len(tile.letters) == 2 and inside.setting.has_products and tile.letters[0] in inside.setting.rows
    if kind == 0 or not is_product:
        inside.say(f"{tile.plain} = 0.5*{tile.plain} + {inside.expressions.value(tile.letters, 2)}")
        return
    seed = {1: tile.plain, 2: f"0.5*{tile.plain}"}.get(kind) or inside.seed(tile.letters)
    inside.say(f"{tile.plain} = {seed} + {inside.product_text(_pair(tile))}")


def _pair(tile: Tile) -> tuple[Letter, Letter]:
    first, second = tile.letters
    return first, second


# --------------------------------------------------------------------------- branches


def branch(block: Block) -> None:
    """A value that depends on which arm a cell takes."""
    if block.depth > 1:
        return
    letters = block.letters(2) if not block.choices.chance(4) else ()
    dtype = block.choices.pick(FLOATS)
    condition = _uniform(block)
    name = block.names.fresh()
    tile = Tile(name=name, dtype=dtype, letters=letters)
    one_arm = block.choices.chance(2)
    arms = [block.inner(block.place) for _ in range(1 if one_arm else 2)]
    if one_arm:
        block.say(f"{tile.plain} = {block.expressions.rounded(letters, dtype, 1)}")
    for arm, head in zip(arms, (f"if {condition}:", "else:"), strict=False):
        block.say(head)
        if arm.choices.chance(3):
            arm.map()
        arm.say(f"{tile.plain} = {arm.expressions.rounded(letters, dtype, 2)}")
        block.add(arm)
    block.tiles.append(tile)


def _uniform(block: Block) -> str:
    """A condition of the whole cell."""
    options = [f"{block.integers[0]} % 2 == 0" if block.integers else "scale < 1.0"]
    scalars = [tile.name for tile in block.tiles if not tile.letters and tile.dtype == "f32"]
    if scalars:
        options.append(f"{scalars[-1]} < 0.5")
    options.append("flag")
    chosen = block.choices.pick(options)
    block.names.scalars.update({"scale": "f32"} if "scale" in chosen else {})
    block.names.scalars.update({"flag": "bool"} if chosen == "flag" else {})
    return chosen
