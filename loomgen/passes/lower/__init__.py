"""Plan IR -> Device IR: each operation becomes the C-like code that carries it out.

Before: a synchronised plan and its layout. After: statements in the plan's order, in which every name is declared
before its use; memory is touched through primitives only.
"""
