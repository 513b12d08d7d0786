"""What the selection of every statement of a kernel goes by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loomgen.errors import Diagnostic, Span, SpecError
from loomgen.ir.plan import SharedRef
from loomgen.ir.schedule import Schedule
from loomgen.ir.tile import TileRead
from loomgen.ir.types import Value
from loomgen.passes.homes import Homes
from loomgen.passes.team import Division
from loomgen.spec.codes import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """``shared_names``: values that some statement can only take from shared memory; ``contracted``:
    the first operands of products, each with the index that is summed over; one whose rows that is has to go through
    shared memory; ``boxes``: where the tiles lie that the copy hardware brings."""

    division: Division
    schedule: Schedule
    shared_names: frozenset[str]
    contracted: frozenset[tuple[str, str]]
    boxes: Mapping[str, SharedRef]


def reject(span: Span, code: Code, message: str, hint: str | None = None) -> SpecError:
    return SpecError([Diagnostic(code=code.value, message=message, span=span, hint=hint)])


def is_aligned(read: TileRead, value: Value, homes: Homes) -> bool:
    """The tile lies in shared memory with its rows and columns along the value's."""
    ref = homes.shared.get(read.value.name)
    if ref is None or read.letters is None:
        return False
    by_axis = dict(zip(read.value.indices, read.letters, strict=True))
    return [by_axis[axis] for axis in ref.axes] == list(value.indices)
