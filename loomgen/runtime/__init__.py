"""The runtime: from tensors and a registry entry to a launch. Imports nothing of the compiler."""

from loomgen.runtime.bind import BoundCall, bind
from loomgen.runtime.tables import WindowTables, window_tables

__all__ = ["BoundCall", "WindowTables", "bind", "window_tables"]
