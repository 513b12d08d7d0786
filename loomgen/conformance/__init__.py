"""Conformance: each device primitive's host body against the device, element by element.

The kernels in ``kernels/`` call one primitive each. :mod:`~loomgen.conformance.host` runs them in the emulator,
:mod:`~loomgen.conformance.device` the same sources on a GPU, and :mod:`~loomgen.conformance.compare` says how far the
two may differ. Needs numpy only, and cuda-bindings for the device.
"""
