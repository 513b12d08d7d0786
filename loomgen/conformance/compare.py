"""How the device's results are compared with the host's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

_NAN_DISTANCE = 2**32
"""Between a number and NaN: more than any two numbers are apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a comparison found.

    ``differing`` elements are not the same, ``outside`` elements break the bound and ``first_outside`` describes the
    first of those. ``max_ulp`` is None unless the elements are floats; ``share_of_bound`` is the largest error over
    what is allowed, None for a bitwise comparison.
    """

    elements: int
    differing: int
    outside: int
    first_outside: str | None
    max_ulp: int | None
    share_of_bound: float | None


class Comparison(Protocol):
    """A bound, in words and as a rule."""

    @property
    def bound(self) -> str: ...

    def shares(self, inputs: Sequence[Array], host: Array, device: Array) -> npt.NDArray[np.float64] | None:
        """Each element's error over what is allowed; None if elements that are not the same are all outside."""
        ...


@dataclass(frozen=True, slots=True)
class Bitwise:
    """Every element the same; floats may be different NaNs."""

    bound: str = "bitwise"

    def shares(self, inputs: Sequence[Array], host: Array, device: Array) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Ulps:
    """At most ``limit`` representable floats apart; where both sides flush, 0 is next to the smallest normal number."""

    limit: int
    flushes: bool = False

    @property
    def bound(self) -> str:
        return f"{self.limit} ulp{', subnormals as 0' if self.flushes else ''}"

    def shares(self, inputs: Sequence[Array], host: Array, device: Array) -> npt.NDArray[np.float64]:
        if self.flushes:
            host, device = _flushed(host), _flushed(device)
        return ulp_distances(host, device) / self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """|device - host| <= ``relative`` * ``scale(inputs, host)``; what is not finite is the same."""

    relative: float
    scale: Callable[[Sequence[Array], Array], Array]
    bound: str

    def shares(self, inputs: Sequence[Array], host: Array, device: Array) -> npt.NDArray[np.float64]:
        allowed = self.relative * self.scale(inputs, host).astype(np.float64)
        finite = np.isfinite(host) & np.isfinite(device)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.abs(device.astype(np.float64) - host.astype(np.float64)) / allowed
        shares[~finite] = np.inf
        shares[same(host, device)] = 0.0
        return shares


def same(host: Array, device: Array) -> Mask:
    """Where the bits are equal, or both are float NaNs."""
    bits = np.dtype(f"u{host.dtype.itemsize}")
    equal: Mask = host.view(bits) == device.view(bits)
    if host.dtype.kind == "f":
        equal |= np.isnan(host) & np.isnan(device)
    return equal


def ulp_distances(host: Array, device: Array) -> npt.NDArray[np.int64]:
    """How many representable floats lie between, counting one end; 0 between NaNs and between zeros."""
    distances: npt.NDArray[np.int64] = np.abs(_positions(host) - _positions(device))
    host_nan, device_nan = np.isnan(host), np.isnan(device)
    distances[host_nan & device_nan] = 0
    distances[host_nan ^ device_nan] = _NAN_DISTANCE
    return distances


def _flushed(values: Array) -> Array:
    """The same with no subnormals between 0 and the smallest normal number: those nearest to 0 stand for it."""
    gap = np.uint32(np.finfo(np.float32).smallest_normal.view(np.uint32) - 1)
    bits = np.ascontiguousarray(values).view(np.uint32)
    magnitudes, signs = bits & np.uint32(0x7FFFFFFF), bits & np.uint32(1 << 31)
    moved = np.where(magnitudes > gap, magnitudes - gap, np.uint32(0)) | signs
    return np.where(np.isnan(values), bits, moved).view(np.float32)


def _positions(values: Array) -> npt.NDArray[np.int64]:
    """The place of each float32 in their order, 0 for zeros."""
    bits = values.view(np.uint32).astype(np.int64)
    magnitudes = bits & 0x7FFFFFFF
    return np.where(bits >> 31 == 1, -magnitudes, magnitudes)


def compare(comparison: Comparison, inputs: Sequence[Array], host: Array, device: Array) -> Outcome:
    """Compares the results of one kernel; both arrays have one shape and dtype, else ValueError."""
    if (host.shape, host.dtype) != (device.shape, device.dtype):
        raise ValueError(f"host {host.shape} {host.dtype}, device {device.shape} {device.dtype}: want the same")
    differing = ~same(host, device)
    shares = comparison.shares(inputs, host, device)
    outside = differing if shares is None else ~(shares <= 1.0)
    return Outcome(
        elements=host.size,
        differing=int(differing.sum()),
        outside=int(outside.sum()),
        first_outside=_describe_first(outside, host, device),
        max_ulp=int(ulp_distances(host, device).max()) if host.dtype == np.float32 else None,
        share_of_bound=None if shares is None else float(shares.max()),
    )


def _describe_first(outside: Mask, host: Array, device: Array) -> str | None:
    if not outside.any():
        return None
    i = int(np.flatnonzero(outside)[0])
    return f"[{i}] host {_describe(host.reshape(-1)[i])}, device {_describe(device.reshape(-1)[i])}"


def _describe(value: Any) -> str:
    """The bits of an element, and its value if it is a float."""
    hexadecimal = f"0x{int.from_bytes(value.tobytes(), 'little'):0{2 * value.itemsize}x}"
    return f"{hexadecimal} ({value})" if value.dtype.kind == "f" else hexadecimal
