"""What a caller passed, checked before anything is allocated or launched.

Messages name the argument, its value and what was expected: TypeError for types and dtypes, ValueError otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from loomgen.ops.dispatch import ACTIVATIONS, HEAD_DIMS, RAW, STEPS

_LARGEST = torch.finfo(torch.float32).max

MOST_TOKENS = 2**31 - 1
"""Token numbers are i32 in the window tables."""


class Arguments(NamedTuple):
    """The arguments of ``chunk_gated_delta_rule`` that decide what is computed, as they were passed.

    With ``A_log`` gates are raw, with ``sigmoid_of_beta`` steps are. A tuple, which a call makes in less than half the
    time that a frozen class of so many fields takes.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor | None
    beta: Tensor
    scale: float | None
    initial_state: Tensor | None
    output_final_state: bool
    normalise: bool
    state_v_first: bool
    cu_seqlens: Tensor | None
    cu_seqlens_cpu: Tensor | None
    chunk_indices: Tensor | None
    A_log: Tensor | None = None
    dt_bias: Tensor | None = None
    sigmoid_of_beta: bool = False
    allow_neg_eigval: bool = False

    def tensors(self) -> dict[str, Tensor]:
        """Those that are computed with, by name; without what was left out."""
        optional = {
            "g": self.g,
            "initial_state": self.initial_state,
            "A_log": self.A_log,
            "dt_bias": self.dt_bias,
        }
        given = {name: x for name, x in optional.items() if x is not None}
        return {"q": self.q, "k": self.k, "v": self.v, "beta": self.beta, **given}

    def offsets(self) -> dict[str, Tensor]:
        """Those that say where sequences and chunks lie, by name; without what was left out."""
        optional = {
            "cu_seqlens": self.cu_seqlens,
            "cu_seqlens_cpu": self.cu_seqlens_cpu,
            "chunk_indices": self.chunk_indices,
        }
        return {name: x for name, x in optional.items() if x is not None}


_PLAIN = frozenset((Tensor, torch.nn.Parameter, type(None), bool, int, float, str))
"""Of arguments that are no tensors of a class of their own."""


def has_subclasses(values: Iterable[object]) -> bool:
    """Whether a tensor among ``values`` is of a class of its own, which may lie anywhere or have no memory at all."""
    return any(issubclass(kind, Tensor) for kind in {*map(type, values)} - _PLAIN)


def check_types(arguments: Arguments) -> None:
    """Every tensor is one, on the device of q (``cu_seqlens_cpu``: on the CPU)."""
    tensors = {**arguments.tensors(), **arguments.offsets()}
    check_tensors(tensors)
    for name, x in tensors.items():
        device = torch.device("cpu") if name == "cu_seqlens_cpu" else arguments.q.device
        if x.device != device:
            raise ValueError(f"{name}: on {x.device}, expected {device}")
        if x.is_neg():
            raise TypeError(f"{name}: negated when it is read, expected its resolve_neg()")
    check_scale(arguments.scale)


def check_tensors(tensors: Mapping[str, object]) -> None:
    """Each of ``tensors``, by name, is one."""
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: {type(x).__name__}, expected a tensor")
        if x.is_nested or x.layout is not torch.strided:
            found = "nested" if x.is_nested else x.layout
            raise TypeError(f"{name}: {found}, expected a dense tensor, {torch.strided}")


def check_flags(**flags: object) -> None:
    """Each of ``flags`` is True or False: what counts as true is not for us to say."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name}: {_shown(value)}, expected True or False")


def _shown(value: object) -> str:
    return f"a {type(value).__name__}" if isinstance(value, Tensor) else repr(value)


def check_scale(scale: float | None) -> None:
    if scale is None:
        return
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise TypeError(f"scale: {_shown(scale)}, expected a Python number")
    if not abs(scale) <= _LARGEST:  # as NaN is not, and no integer is too large to ask
        raise ValueError(f"scale: {scale}, expected a finite number of fp32")


def check_inputs(arguments: Arguments) -> None:
    """Dtypes and shapes of q, k, v, g and beta, and how many tokens there are."""
    check_shapes(arguments)
    n_tokens = arguments.q.shape[0] * arguments.q.shape[1]
    if n_tokens > MOST_TOKENS:
        raise ValueError(f"q: {n_tokens} tokens, expected at most {MOST_TOKENS}")


def check_shapes(arguments: Arguments) -> None:
    """Dtypes and shapes of q, k, v, g and beta: [B, T, heads, dim] and [B, T, HV]. Bounds no size, for a compiler would
    hold later calls to it."""
    _check_dtypes(arguments)
    q, v = arguments.q, arguments.v
    for name, x in (("q", q), ("v", v)):
        if x.dim() != 4:
            raise _wrong_shape(name, x, "4 dims, [B, T, heads, dim]")
    _check_shape("k", arguments.k, q.shape, "the shape of q")
    _check_shape("v", v, (*q.shape[:2], *v.shape[2:]), "B and T of q")
    _check_heads(q.shape[2], v.shape[2])
    _check_dims(q.shape[3], v.shape[3])
    for name, gate in (("g", arguments.g), ("beta", arguments.beta)):
        if gate is not None:
            _check_shape(name, gate, v.shape[:3], "[B, T, HV] of v")
    check_raw(arguments)


def _check_dtypes(arguments: Arguments) -> None:
    q = arguments.q
    _check_dtype("q", q, ACTIVATIONS)
    for name, x in (("k", arguments.k), ("v", arguments.v)):
        if x.dtype is not q.dtype:
            raise TypeError(f"{name}: {x.dtype}, expected {q.dtype}, the dtype of q")
    if arguments.g is not None:
        _check_dtype("g", arguments.g, (torch.float32,) if arguments.A_log is None else RAW)
    for name in ("initial_state", "A_log", "dt_bias"):
        x = getattr(arguments, name)
        if x is not None:
            _check_dtype(name, x, (torch.float32,))
    _check_dtype("beta", arguments.beta, RAW if arguments.sigmoid_of_beta else STEPS)


def _check_dtype(name: str, x: Tensor, expected: Sequence[torch.dtype]) -> None:
    if x.dtype not in expected:
        raise TypeError(f"{name}: {x.dtype}, expected {' or '.join(map(str, expected))}")


def _check_shape(name: str, x: Tensor, expected: Sequence[int], meaning: str) -> None:
    if tuple(x.shape) != tuple(expected):
        raise _wrong_shape(name, x, f"{list(expected)}, {meaning}")


def _wrong_shape(name: str, x: Tensor, expected: str) -> ValueError:
    return ValueError(f"{name}: shape {list(x.shape)}, expected {expected}")


def _check_heads(key_heads: int, value_heads: int) -> None:
    if key_heads == 0:
        raise ValueError("q: 0 heads, expected at least 1")
    if value_heads == 0 or value_heads % key_heads:
        raise ValueError(f"v: {value_heads} heads, expected a multiple of the {key_heads} heads of q and k")


def _check_dims(key_dim: int, value_dim: int) -> None:
    supported = " or ".join(map(str, HEAD_DIMS))
    if key_dim not in HEAD_DIMS:
        raise ValueError(f"q: head dim {key_dim}, expected {supported}")
    if value_dim != key_dim:
        raise ValueError(f"v: head dim {value_dim}, expected {key_dim}, the head dim of q and k")


def check_raw(arguments: Arguments) -> None:
    """What belongs to raw gates and steps is there with them alone; ``A_log`` and ``dt_bias`` are [HV]."""
    if arguments.allow_neg_eigval and not arguments.sigmoid_of_beta:
        raise ValueError("allow_neg_eigval: True, expected False without use_beta_sigmoid_in_kernel")
    if arguments.A_log is None:
        if arguments.dt_bias is not None:
            raise ValueError("dt_bias: given, expected None without A_log")
        return
    if arguments.g is None:
        raise ValueError("g: None, expected raw gates, [B, T, HV], with use_gate_in_kernel")
    for name, x in (("A_log", arguments.A_log), ("dt_bias", arguments.dt_bias)):
        if x is not None:
            _check_shape(name, x, arguments.v.shape[2:3], "[HV] of v")


def check_state(arguments: Arguments, n_sequences: int) -> None:
    """The initial state: one for each sequence, in the layout that ``state_v_first`` says."""
    state = arguments.initial_state
    if state is None:
        return
    heads, key_dim, value_dim = arguments.v.shape[2], arguments.q.shape[3], arguments.v.shape[3]
    if state.dim() == 4 and state.shape[0] != n_sequences:
        raise ValueError(f"initial_state: {state.shape[0]} states, expected {n_sequences}, one for each sequence")
    dims = (value_dim, key_dim) if arguments.state_v_first else (key_dim, value_dim)
    meaning = "[N, HV, V, K]" if arguments.state_v_first else "[N, HV, K, V]"
    _check_shape("initial_state", state, (n_sequences, heads, *dims), meaning)


def check_gates(g: Tensor | None, n_tokens: int) -> None:
    """No gate of the first ``n_tokens`` tokens is positive or NaN; looks at every value. Not for raw ones."""
    if g is None:
        return
    wrong = ~(g.flatten(0, 1)[:n_tokens] <= 0)
    if not wrong.any():
        return
    token, head = wrong.nonzero()[0].tolist()
    place = [token // g.shape[1], token % g.shape[1], head]
    raise ValueError(
        f"g: {float(g[tuple(place)]):g} at {place}, expected natural logarithms of decays, at most 0; "
        "a decay alpha in (0, 1] itself is passed as alpha.log()"
    )
