"""The interpreter of the Tile IR: what a stage means, what its roundings cost, and what its kernel computes."""

from loomgen.interp.arguments import Argument
from loomgen.interp.interpreter import Mode, interpret

__all__ = ["Argument", "Mode", "interpret"]
