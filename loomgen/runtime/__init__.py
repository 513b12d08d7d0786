"""The runtime: from tensors and a registry entry to a launch. Imports nothing of the compiler.

What any backend needs is :mod:`~loomgen.runtime.bind` and :mod:`~loomgen.runtime.tables`; the GPU's part is in
:mod:`~loomgen.runtime.cubins` (from sources to cubins), :mod:`~loomgen.runtime.kernels` (from cubins to loaded kernels)
and :mod:`~loomgen.runtime.launch`.
"""
