"""Mutation: what a kernel's source owes to each barrier, wait, lane map, ring slot and swizzle.

Every mutant of a committed source must be found out by the emulator, which either faults or gives other bits; one that
survives shows synchronisation that the kernel does not need or a mistake that the emulator does not see.
"""

from loomgen.mutation.mutants import Kind, Mutant, mutants
from loomgen.mutation.run import MutantRow, mutate

__all__ = ["Kind", "Mutant", "MutantRow", "mutants", "mutate"]
