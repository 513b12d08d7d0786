"""Every spec error: its code, a title and what it means. ``docs/errors.md`` is this table as text."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Code(Enum):
    """The codes by what they are about; a code keeps its number and meaning for good."""

    YAML = "LG001"
    DUPLICATE_KEY = "LG002"
    UNKNOWN_KEY = "LG003"
    MISSING_KEY = "LG004"
    BAD_VALUE = "LG005"
    BAD_NAME = "LG006"
    NAME_CLASH = "LG007"
    PROGRAM_STYLE = "LG008"
    UNREADABLE = "LG009"

    UNKNOWN_STATIC = "LG010"
    VARIANT_NAMES = "LG011"
    UNKNOWN_OVERRIDE = "LG012"
    NOT_A_CHOICE = "LG013"
    UNKNOWN_DTYPE = "LG014"
    NOT_STATIC = "LG015"
    UNUSED_VARIANT_NAME = "LG016"
    SAME_KERNEL = "LG017"

    BAD_EXTENT = "LG020"
    NOT_DIVISIBLE = "LG021"
    BAD_AXIS = "LG022"
    SEGMENTS = "LG023"

    SYNTAX = "LG030"
    NOT_IN_LANGUAGE = "LG031"
    UNKNOWN_NAME = "LG032"
    BAD_TARGET = "LG033"
    ASSIGNED_TWICE = "LG034"
    MISPLACED_RETURN = "LG035"
    MAYBE_UNASSIGNED = "LG036"
    BAD_CALL = "LG037"
    DECLARED_NAME = "LG038"

    UNBOUND_INDEX = "LG040"
    WRONG_RANK = "LG041"
    WRONG_AXIS = "LG042"
    RUN_TIME_SUBSCRIPT = "LG043"
    OUT_OF_RANGE = "LG044"
    REPEATED_INDEX = "LG045"
    WRONG_COORDINATE = "LG046"
    SUMMED_AND_BOUND = "LG047"
    CARRIED_CHANGES = "LG048"

    NOTHING_TO_CONTRACT = "LG050"
    SEVERAL_TO_CONTRACT = "LG051"
    OPERAND_DTYPES = "LG052"
    OPERAND_RANK = "LG053"
    OPERATOR_INDEX = "LG054"
    BAD_INVERSE = "LG055"

    MIXED_DTYPES = "LG060"
    NARROWING = "LG061"
    STORE_DTYPE = "LG062"
    NOT_A_CONDITION = "LG063"
    BAD_OPERAND = "LG064"

    WINDOW_OUTSIDE_TENSOR = "LG070"
    WINDOW_MISUSE = "LG071"
    NOT_UNIFORM = "LG072"
    UNGUARDED_OPTIONAL = "LG073"
    GIVEN_MISUSE = "LG074"

    NOT_OWNED = "LG080"
    WRITTEN_TWICE = "LG081"
    WRONG_ACCESS = "LG082"
    READ_AFTER_STORE = "LG083"
    STORE_COORDINATE = "LG084"
    UNUSED_ARGUMENT = "LG085"

    UNKNOWN_STATEMENT = "LG090"
    UNKNOWN_INDEX = "LG091"
    BAD_SPLIT = "LG092"
    BAD_RING = "LG093"
    BAD_PLACE = "LG094"
    BAD_ROLE = "LG095"

    UNEVEN_SLABS = "LG100"
    WARP_COUNT = "LG101"
    NO_MMA = "LG102"
    REDUCTION_SHAPE = "LG103"
    NO_ROW_INDEX = "LG104"
    STRIP_COLUMNS = "LG105"
    OUTSIDE_CHUNK = "LG107"
    SPLIT_COUNT = "LG108"
    CARRIED_VECTOR = "LG109"
    TOO_LARGE = "LG110"
    TILE_COLUMNS = "LG111"
    ROLE_WARPS = "LG120"
    ROLE_DEPENDENCE = "LG121"
    NO_BOX = "LG122"
    NO_WARPGROUP_PRODUCT = "LG123"


EXPLANATIONS: Mapping[Code, tuple[str, str]] = {
    Code.YAML: ("not YAML", "The file is not YAML, or uses anchors, aliases or tags, which a spec has no need of."),
    Code.DUPLICATE_KEY: ("duplicate key", "A key stands twice in one mapping; YAML readers differ on which one wins."),
    Code.UNKNOWN_KEY: ("unknown key", "No such key in this section."),
    Code.MISSING_KEY: ("missing key", "A key that the section must have is not there."),
    Code.BAD_VALUE: ("wrong kind of value", "The value is not of the kind that its key takes."),
    Code.BAD_NAME: (
        "bad name",
        "Stages, families, variants and instantiations are lower case words joined by single underscores; index "
        "letters are one lower case letter with an optional digit; static dims begin with an upper case letter; "
        "everything else is an identifier without a double underscore.",
    ),
    Code.NAME_CLASH: (
        "name declared twice",
        "Dims, parameters, dtype parameters, tensors, scalars, index letters, grid coordinates, `where` names, "
        "variant names and the language's own functions share one namespace, also with the tables and strides that "
        "kernels take as arguments.",
    ),
    Code.PROGRAM_STYLE: (
        "program is not a literal block",
        "Write the program as `program: |` with indented lines below.",
    ),
    Code.UNREADABLE: ("unreadable file", "The spec file does not exist, cannot be read or is not UTF-8."),
    Code.UNKNOWN_STATIC: (
        "unknown static name",
        "An extent, a shape, a grid axis or a schedule number uses a name that is not a static dim, an integer "
        "parameter or a name that the variants give.",
    ),
    Code.VARIANT_NAMES: ("variants give different names", "Every variant of a stage gives a value to the same names."),
    Code.UNKNOWN_OVERRIDE: (
        "nothing to instantiate",
        "An instantiation sets parameters, dims and dtype parameters that the file declares, nothing else.",
    ),
    Code.NOT_A_CHOICE: (
        "not a choice",
        "A parameter is set to, or compared with, a value that is not among its choices.",
    ),
    Code.UNKNOWN_DTYPE: ("unknown dtype", "Not a dtype (f32, tf32, bf16, f16, i32, i64, bool) nor a dtype parameter."),
    Code.NOT_STATIC: (
        "not static",
        "What must be known when the kernel is generated is not: static numbers combine with + - * // %, static "
        "conditions compare parameters and static numbers, alone or with and, or, not.",
    ),
    Code.UNUSED_VARIANT_NAME: ("unused variant name", "A name that the variants give is used nowhere in the file."),
    Code.SAME_KERNEL: ("kernel defined twice", "Two expansions, or two files, give a kernel of the same name."),
    Code.BAD_EXTENT: ("bad extent", "An extent, a count or a dimension must be at least 1."),
    Code.NOT_DIVISIBLE: (
        "does not divide",
        "Blocks cut a static dimension into equal parts: the block must divide it.",
    ),
    Code.BAD_AXIS: (
        "bad grid axis",
        "A grid axis is `sequences`, `chunks`, `blocks(DIM, BLOCK)`, a run-time dim or a static number.",
    ),
    Code.SEGMENTS: ("segments", "Segments of a sequence are not part of this version of the language."),
    Code.SYNTAX: ("syntax error", "The text cannot be parsed."),
    Code.NOT_IN_LANGUAGE: ("not in the language", "Python has this construct, the tile language does not."),
    Code.UNKNOWN_NAME: ("unknown name", "The name is neither declared nor assigned before."),
    Code.BAD_TARGET: (
        "bad left side",
        "A left side is a name, a name with index letters (`x[e,i]`) or a tensor element.",
    ),
    Code.ASSIGNED_TWICE: (
        "assigned twice",
        "A name is assigned once in a block. Assigned before a loop or an `if` and again inside, it is carried.",
    ),
    Code.MISPLACED_RETURN: (
        "misplaced return",
        "`return` ends an arm of an `if` that is not inside a loop or another `if`; nothing follows it in its arm.",
    ),
    Code.MAYBE_UNASSIGNED: (
        "not assigned on every path",
        "The name is assigned in one arm of an `if` only, or only inside a loop that may run no iteration.",
    ),
    Code.BAD_CALL: ("bad call", "No such function, or not with these arguments."),
    Code.DECLARED_NAME: ("declared name assigned", "A name declared in another section cannot be assigned."),
    Code.UNBOUND_INDEX: (
        "unbound index",
        "An index letter on the right must be on the left, contracted by `@` or summed: nothing says which element "
        "is meant.",
    ),
    Code.WRONG_RANK: ("wrong number of subscripts", "A tile or tensor has one subscript for each of its axes."),
    Code.WRONG_AXIS: (
        "index of another axis",
        "Index letters of one symbol interchange; a letter of another symbol does not fit the axis, even when both "
        "have the same extent.",
    ),
    Code.RUN_TIME_SUBSCRIPT: (
        "subscript not static",
        "A tile is subscripted with index letters, runs (`S[b+C,d]`) or static elements (`g[C-1]`), never with "
        "run-time values.",
    ),
    Code.OUT_OF_RANGE: ("element out of range", "The static element, or an element of the run, is outside its axis."),
    Code.REPEATED_INDEX: ("index twice on the left", "Each index letter stands once on a left side."),
    Code.WRONG_COORDINATE: (
        "coordinate does not fit",
        "A tensor coordinate must run over the dimension it stands in: token windows over T, blocks over their "
        "dimension, a grid coordinate over its count, an index letter over its symbol.",
    ),
    Code.SUMMED_AND_BOUND: (
        "summed index is bound",
        "An index that is summed or contracted cannot also be on the left.",
    ),
    Code.CARRIED_CHANGES: ("carried name changes", "A carried name keeps its index letters and its dtype."),
    Code.NOTHING_TO_CONTRACT: ("nothing to contract", "The operands of `@` share no index."),
    Code.SEVERAL_TO_CONTRACT: ("several indices to contract", "The operands of `@` share more than one index."),
    Code.OPERAND_DTYPES: (
        "operand dtypes",
        "The operands of `@` have one floating dtype; nothing is converted silently.",
    ),
    Code.OPERAND_RANK: (
        "operand axes",
        "Each operand of `@` has two indices, the shared one and one of its own; write other sums with `sum`.",
    ),
    Code.OPERATOR_INDEX: (
        "bad index of an operator",
        "`sum`, `max`, `cumsum` and `suffix_sum` name, in brackets, index letters that their argument uses.",
    ),
    Code.BAD_INVERSE: (
        "bad inverse",
        "`unit_lower_inverse[i,j](L[i,j])` stands alone on the right of `x[i,j] =`; its argument is an f32 tile over "
        "two letters of one symbol.",
    ),
    Code.MIXED_DTYPES: ("mixed dtypes", "Integers, floats and conditions do not mix; convert explicitly: `f32(n)`."),
    Code.NARROWING: ("implicit narrowing", "Narrowing is written out (`bf16(x)`); only widening happens by itself."),
    Code.STORE_DTYPE: ("store dtype", "A store needs the exact dtype of its tensor."),
    Code.NOT_A_CONDITION: ("not a condition", "A condition is a comparison, a bool or `given(tensor)`."),
    Code.BAD_OPERAND: ("bad operand", "The operator or function is not defined on operands of this dtype."),
    Code.WINDOW_OUTSIDE_TENSOR: (
        "window element outside a tensor",
        "`c[i]` names an element of a tensor dimension; it has no value of its own.",
    ),
    Code.WINDOW_MISUSE: (
        "window misuse",
        "Loops run over `chunks(<sequence>)`, `reversed(chunks(<sequence>))` and `range(...)`; windows have `.len`, "
        "`.last` and, chunks of a sequence, `.pos`; a window's subscript runs over the window's elements.",
    ),
    Code.NOT_UNIFORM: (
        "not uniform",
        "The condition of an `if` and the bounds of a `range` are the same for a whole cell of the grid: no index "
        "letters. Per element, use `x if cond else y`.",
    ),
    Code.UNGUARDED_OPTIONAL: (
        "optional tensor used without a test",
        "An optional tensor may be absent: use it under `if given(x)`.",
    ),
    Code.GIVEN_MISUSE: ("given", "`given(x)` takes the name of an optional tensor."),
    Code.NOT_OWNED: (
        "store not owned",
        "The coordinates of a store must determine every coordinate of the grid and of the loops around it, or two "
        "cells or iterations would write the same element.",
    ),
    Code.WRITTEN_TWICE: ("written twice", "Each element of an `out` tensor is written once on every path."),
    Code.WRONG_ACCESS: ("access", "`in` tensors are read, `out` tensors are written, `inout` tensors both."),
    Code.READ_AFTER_STORE: ("read after store", "An `inout` tensor is read before it is stored."),
    Code.STORE_COORDINATE: (
        "store coordinate",
        "The coordinates of a store are index letters, window elements of a letter, and scalars; each letter stands "
        "in one coordinate, so that no element is written twice.",
    ),
    Code.UNUSED_ARGUMENT: ("unused argument", "No expansion of the stage uses the tensor or scalar."),
    Code.UNKNOWN_STATEMENT: ("no such statement", "A schedule names statements by their left side."),
    Code.UNKNOWN_INDEX: ("no such index", "A schedule names index letters of the `index` section."),
    Code.BAD_SPLIT: ("bad split", "`parts` divides the index's extent and `across` divides `parts`."),
    Code.BAD_RING: ("bad ring", "A ring belongs to a tile assigned inside a loop and has at least one slot."),
    Code.BAD_PLACE: (
        "bad place",
        "`direct` is for stores; `registers` and `shared` are for tiles and stores. Only 16-bit tiles of a stage with "
        "products are computed in shared memory.",
    ),
    Code.BAD_ROLE: (
        "bad role",
        "Each statement is run by one role: the one that names it, or the one role of the rest. `tma` and `wgmma` are "
        "for stages with roles.",
    ),
    Code.UNEVEN_SLABS: (
        "uneven slabs",
        "The row indices of a stage with products have the same extent, a multiple of 16: each warp owns 16 rows.",
    ),
    Code.WARP_COUNT: ("warps", "`warps` is the number of 16-row slabs times the groups that a split is spread over."),
    Code.NO_MMA: ("no such product", "The tensor cores multiply bf16, f16 and tf32 operands; round them first."),
    Code.REDUCTION_SHAPE: (
        "reduction",
        "A reduction runs over one index: of a vector, or along the columns of a tile, which leaves one number a row. "
        "A running sum runs along a vector.",
    ),
    Code.NO_ROW_INDEX: (
        "no row index",
        "The first index of a product, and one index of every tile in registers, is one whose rows the warps own "
        "(`rows`).",
    ),
    Code.STRIP_COLUMNS: (
        "columns of a strip",
        "In a stage without products `vector` and the columns of a tile are powers of two, the columns at least "
        "`vector`: threads own equal strips of a row.",
    ),
    Code.OUTSIDE_CHUNK: (
        "outside the chunk",
        "Of a chunk of the grid only its own elements are known; loop over the chunks of a sequence to read others.",
    ),
    Code.SPLIT_COUNT: ("splits", "One index is split, spread over at most two groups of warps."),
    Code.CARRIED_VECTOR: ("carried vector", "Loops and branches carry scalars and tiles, not vectors."),
    Code.ROLE_WARPS: (
        "warps of a role",
        "A role has whole warpgroups, four warps each. Its registers a thread are a multiple of 8 from 24 to 240, and "
        "those of all roles together fit the block.",
    ),
    Code.ROLE_DEPENDENCE: (
        "between roles",
        "One role hands another the tiles that `tma` names, in a loop at the top of the program; a tile that is "
        "carried, and whatever is computed from it in registers, stays within a role.",
    ),
    Code.NO_BOX: (
        "no box",
        "A tensor's first dimension runs along a box's rows and its last along the columns, at most 256 rows of 16-bit "
        "elements in whole panels of 64 columns; the tensor is contiguous, and the rows are no chunk of a sequence, of "
        "which a box would bring the next sequence's tokens, too.",
    ),
    Code.NO_WARPGROUP_PRODUCT: (
        "no warpgroup product",
        "`wgmma` multiplies 16-bit tiles in shared memory whose rows run along the summed index, in panels of 64 "
        "columns: a multiple of 64 rows with 64, 128 or 256 rows.",
    ),
    Code.TOO_LARGE: ("too large", "A kernel needs more shared memory, threads or blocks than the target has."),
    Code.TILE_COLUMNS: (
        "columns of a tile",
        "In a stage with products the columns of a 16-bit tile, and both extents that a 16-bit product takes from its "
        "second operand, are multiples of 16, of another tile multiples of 8; a split cuts them into parts that are. A "
        "16-bit tile that stays in shared memory needs multiples of 8.",
    ),
}


def errors_markdown() -> str:
    """The text of ``docs/errors.md``."""
    head = (
        "# Spec errors\n\n"
        "What `loomgen` says about a mistake in a spec: `path:line:col: error LGnnn: message`, the source line, a\n"
        "caret, a hint where there is one, and the expansion it happened in when not all expansions have it. All\n"
        "mistakes of a run are reported together; the exit code is 2. This page is generated from\n"
        "`loomgen/spec/codes.py`.\n"
    )
    items = [f"\n## {code.value}: {EXPLANATIONS[code][0]}\n\n{EXPLANATIONS[code][1]}\n" for code in Code]
    return head + "".join(items)
