"""The runtime: from tensors and a registry entry to a launch. Imports nothing of the compiler.

What any backend needs is imported here; the GPU's part is in :mod:`~loomgen.runtime.cubins` (from sources to cubins),
:mod:`~loomgen.runtime.kernels` (from cubins to loaded kernels) and :mod:`~loomgen.runtime.launch`.
"""

from loomgen.runtime.bind import BoundCall, bind
from loomgen.runtime.tables import WindowTables, window_tables

__all__ = ["BoundCall", "WindowTables", "bind", "window_tables"]
