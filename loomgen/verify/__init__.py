"""Verification: stages and their composition against the float64 golden, on a packed ragged batch."""

from loomgen.verify.compare import relative_l2, same_bits
from loomgen.verify.op import CASES, OpCase, OpRow, verify_op
from loomgen.verify.problem import Problem, make_problem
from loomgen.verify.stages import BOUNDS, ORDER, VerifyRow, verify_stages

__all__ = [
    "BOUNDS",
    "CASES",
    "ORDER",
    "OpCase",
    "OpRow",
    "Problem",
    "VerifyRow",
    "make_problem",
    "relative_l2",
    "same_bits",
    "verify_op",
    "verify_stages",
]
