"""Rendering: the files that follow from the specs, and how a tree on disk differs from them."""

from loomgen.render.compare import Change, Difference, compare, unified_diff
from loomgen.render.compiler import Compiler, Lowered
from loomgen.render.disk import apply, read_tree
from loomgen.render.selection import Selection
from loomgen.render.tree import render_tree

__all__ = [
    "Change",
    "Compiler",
    "Difference",
    "Lowered",
    "Selection",
    "apply",
    "compare",
    "read_tree",
    "render_tree",
    "unified_diff",
]
