"""Targets: the hardware limits of each architecture, the only place where they are written down."""

from loomgen.target.model import Target, UnknownTarget
from loomgen.target.occupancy import Occupancy, occupancy
from loomgen.target.targets import SM_90A, SM_100A, SM_103A, TARGETS, select_targets, target_named

__all__ = [
    "SM_90A",
    "SM_100A",
    "SM_103A",
    "TARGETS",
    "Occupancy",
    "Target",
    "UnknownTarget",
    "occupancy",
    "select_targets",
    "target_named",
]
