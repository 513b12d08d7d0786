"""Where the kernels of this package are: the checkout that holds it, or the bundle that it carries."""

from __future__ import annotations

from pathlib import Path

BUNDLE = Path(__file__).resolve().parent / "bundle"
"""Where ``loomgen build --bundle`` writes, and a wheel carries, the bundle of this package."""

_OF_A_CHECKOUT = ("registry/registry_*.json", "specs/*/*.yaml")


def kernel_root(checkout: Path = BUNDLE.parents[1], bundle: Path = BUNDLE) -> Path:
    """The folder with ``registry/`` and ``generated/``: the checkout that holds this package, else its bundle.

    A checkout has registries, or specs to render them from.
    """
    return checkout if any(any(checkout.glob(pattern)) for pattern in _OF_A_CHECKOUT) else bundle
