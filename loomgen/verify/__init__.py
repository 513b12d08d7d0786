"""Verification: stages and their composition against the float64 golden, on a packed ragged batch."""

from loomgen.verify.backends import BACKENDS, Backend, StageRunner, emulator, interpreter
from loomgen.verify.op import CASES, OPERATORS, OpCase, OpRow, verify_op
from loomgen.verify.problem import Formats, Inputs, Problem, make_problem, same_bits
from loomgen.verify.stages import BOUNDS, ORDER, VerifyRow, relative_l2, verify_stages

__all__ = [
    "BACKENDS",
    "BOUNDS",
    "CASES",
    "OPERATORS",
    "ORDER",
    "Backend",
    "Formats",
    "Inputs",
    "OpCase",
    "OpRow",
    "Problem",
    "StageRunner",
    "VerifyRow",
    "emulator",
    "interpreter",
    "make_problem",
    "relative_l2",
    "same_bits",
    "verify_op",
    "verify_stages",
]
