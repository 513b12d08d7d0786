"""Every case."""

from __future__ import annotations

from loomgen.conformance.case import Case
from loomgen.conformance.cases_hopper import hopper_cases
from loomgen.conformance.cases_math import math_cases
from loomgen.conformance.cases_matrix import matrix_cases
from loomgen.conformance.cases_memory import copy_past_the_end, memory_cases


def all_cases() -> tuple[Case, ...]:
    """The cases of every primitive; their names differ.

    The last would fault if a device did read where it must not, and after a fault nothing else runs."""
    return (*memory_cases(), *matrix_cases(), *hopper_cases(), *math_cases(), copy_past_the_end())
