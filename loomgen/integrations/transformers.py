"""One call that makes the Gated DeltaNet layers of a transformers model, such as Qwen3-Next, run on loomgen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from types import FunctionType, MethodType, TracebackType
from typing import Any

from torch import Tensor, nn

from loomgen import ops
from loomgen.errors import LoomgenError
from loomgen.integrations.rebind import reads_global, rebound
from loomgen.ops.dispatch import CHUNK

ATTRIBUTE = "chunk_gated_delta_rule"
"""What a layer keeps the operator as in transformers 4.57."""

FUNCTION = "torch_chunk_gated_delta_rule"
"""The function of a layer's module that its forward calls in transformers 5."""

_FORWARD = "forward"
_OPERATOR_ARGUMENTS = frozenset(signature(ops.chunk_gated_delta_rule).parameters)


class NoLayers(LoomgenError):
    """A model in which there is nothing to switch; the message says what would be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """An attribute of a layer's own: ``after`` in place of ``before``, None where it had none."""

    layer: nn.Module
    name: str
    before: Callable[..., Any] | None
    after: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Switched:
    """The layers of a model that run on loomgen until :meth:`restore`, or to the end of a ``with``."""

    changes: tuple[_Change, ...]

    @property
    def n_layers(self) -> int:
        return len(self.changes)

    def restore(self) -> None:
        """Each layer as it was; once more changes nothing."""
        for change in self.changes:
            if change.layer.__dict__.get(change.name) is not change.after:
                continue
            if change.before is None:
                delattr(change.layer, change.name)
            else:
                setattr(change.layer, change.name, change.before)

    def __enter__(self) -> Switched:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()


def use_loomgen(model: nn.Module, *, rule: Callable[..., Any] | None = None) -> Switched:
    """Makes every Gated DeltaNet layer in ``model`` run on loomgen, forward and backward; the rest stays as it is.

    For CUDA tensors the kernels run, for CPU tensors the emulator. Their activations are bf16 or f16: the dtype of the
    model, or of ``torch.autocast``. Steps of one token with a cache stay with transformers' own recurrent function.
    ``rule`` is called in loomgen's place, with the arguments that transformers passes. No other model is touched, nor
    transformers itself. Raises :class:`NoLayers`, LoomgenError for a layer whose ``forward`` someone replaced, and
    TypeError for what is no model.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: {model!r}, expected a torch.nn.Module")
    changes = tuple(_changes(model, rule or chunk_rule))
    if not changes:
        raise NoLayers(
            f"{type(model).__name__}: no layer that keeps {ATTRIBUTE} or calls {FUNCTION}, as those of Qwen3-Next "
            f"and Qwen3.5 do; {_transformers()}"
        )
    for change in changes:
        setattr(change.layer, change.name, change.after)
    return Switched(changes)


def chunk_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int = CHUNK,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: Tensor | None = None,
    **more: Any,
) -> tuple[Tensor, Tensor | None]:
    """The operator, as layers of transformers call it. What else a model was called with reaches it, too, such as the
    longest sequence, which only attention needs: of ``more``, the operator's own arguments count.
    """
    return ops.chunk_gated_delta_rule(
        query, key, value, g, beta,
        initial_state=None if initial_state is None else initial_state.float(),
        output_final_state=output_final_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
        cu_seqlens=cu_seqlens,
        chunk_size=chunk_size,
        **{name: value for name, value in more.items() if name in _OPERATOR_ARGUMENTS},
    )  # fmt: skip


def _changes(model: nn.Module, rule: Callable[..., Any]) -> Iterator[_Change]:
    forwards: dict[FunctionType, FunctionType] = {}  # one copy for all layers of a class: a compiler compiles it once
    for name, layer in model.named_modules():
        own = vars(layer)
        if callable(own.get(ATTRIBUTE)):
            yield _Change(layer=layer, name=ATTRIBUTE, before=own[ATTRIBUTE], after=rule)
        elif reads_global(type(layer).forward, FUNCTION):
            if _is_replaced(layer):
                raise LoomgenError(
                    f"{name}: its forward was replaced already, by a hook or an earlier use_loomgen: restore that first"
                )
            yield _Change(layer=layer, name=_FORWARD, before=None, after=_forward(layer, rule, forwards))


def _forward(layer: nn.Module, rule: Callable[..., Any], forwards: dict[FunctionType, FunctionType]) -> MethodType:
    """The bound forward of ``layer`` that calls ``rule``; ``forwards`` has the copies that were made before."""
    forward = type(layer).forward
    if not isinstance(forward, FunctionType):
        raise LoomgenError(f"{type(layer).__name__}.forward: a {type(forward).__name__}, expected a function")
    if forward not in forwards:
        forwards[forward] = rebound(forward, FUNCTION, rule)
    return MethodType(forwards[forward], layer)


def _is_replaced(layer: nn.Module) -> bool:
    """Whether ``layer`` has another forward than its class; a pickled layer comes back with its class's own."""
    own = vars(layer).get(_FORWARD)
    return own is not None and own != MethodType(type(layer).forward, layer)


def _transformers() -> str:
    try:
        return f"transformers {version('transformers')} is installed"
    except PackageNotFoundError:
        return "transformers is not installed: `pip install 'loomgen[transformers]'`"
