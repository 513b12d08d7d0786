"""Fuzzing: random valid stages, each computed by the interpreter and by the emulator, must agree bit for bit."""

from loomgen.fuzz.case import Case, from_file, to_file
from loomgen.fuzz.check import Outcome, Verdict, check_cases
from loomgen.fuzz.run import Failure, Report, fuzz

__all__ = ["Case", "Failure", "Outcome", "Report", "Verdict", "check_cases", "from_file", "fuzz", "to_file"]
