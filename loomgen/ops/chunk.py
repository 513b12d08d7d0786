"""The chunked gated delta rule, with the signature that callers of flash-linear-attention already write."""

from __future__ import annotations

from torch import Tensor

from loomgen.ops.arguments import Arguments, check_flags
from loomgen.ops.autograd import Runner, differentiable, wants_gradients
from loomgen.ops.backward import backward
from loomgen.ops.checks import checked_lengths
from loomgen.ops.dispatch import ACTIVATIONS, CHUNK
from loomgen.ops.forward import forward
from loomgen.ops.library import EMULATE, library_of, runs_on_gpu
from loomgen.ops.torch_op import gdn_forward, is_watched, observed_forward
from loomgen.ops.transforms import refuse_transforms
from loomgen.ops.workspace import Save, check_save


def chunk_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    chunk_indices: Tensor | None = None,
    cp_context: object | None = None,
    *,
    use_gate_in_kernel: bool = False,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    chunk_size: int = CHUNK,
    save: Save = "minimal",
    backend: str | None = None,
    checked: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Per value head and token: S <- exp(g) S; S <- S + beta (v - S k) k^T; o = scale S q.

    ``q``, ``k`` [B, T, H, K] and ``v`` [B, T, HV, V], bf16 or f16, HV a multiple of H, K = V = 64 or 128; ``g``
    [B, T, HV] fp32, the natural logarithm of the decay, None for no decay; ``beta`` [B, T, HV] fp32 or bf16.
    ``scale`` defaults to K^-1/2. ``initial_state`` [N, HV, K, V] fp32, or [N, HV, V, K] with ``state_v_first``,
    defaults to zeros.

    Without ``cu_seqlens`` each of the B rows is a sequence. With it (i32 or i64 [N + 1], B = 1) sequence n holds
    tokens cu_seqlens[n] .. cu_seqlens[n+1] - 1, and rows of ``o`` past the last one are zero. ``cu_seqlens_cpu`` and
    ``chunk_indices`` may repeat what it says. ``use_qk_l2norm_in_kernel`` divides q and k by their lengths.

    ``use_gate_in_kernel``: ``g``, fp32, bf16 or f16, is raw, and the gate is -exp(``A_log``) softplus(g + ``dt_bias``),
    both [HV], ``dt_bias`` zeros by default. ``use_beta_sigmoid_in_kernel``: ``beta``, in the same dtypes, is raw, and
    the step its sigmoid, twice that with ``allow_neg_eigval``.

    Differentiable in ``q``, ``k``, ``v``, ``g``, ``beta``, ``initial_state``, ``A_log`` and ``dt_bias``. ``save``
    decides what stays in memory from the forward to the backward (see ``training_bytes``): ``minimal`` runs the state
    scan once more in the backward, ``states`` keeps its results.

    ``backend``: ``cuda`` for tensors on a GPU; ``emulate``, or ``emulate:<arch>`` for the kernels of one target, for
    those on the CPU; None chooses by device. On a GPU lengths are taken from ``cu_seqlens_cpu``; without it the GPU
    reads them off ``cu_seqlens``, and no call waits for it. ``checked`` looks at every offset and every gate that is
    not raw.

    Returns ``o``, like ``v``, and with ``output_final_state`` the final state, laid out as the initial one, else None.
    Views of any stride may be passed; no input is written. Raises, before anything runs, TypeError and ValueError
    that name the argument, its value and what was expected, and NotImplementedError for what is not supported yet.
    """
    check_flags(
        output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
        use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel, allow_neg_eigval=allow_neg_eigval,
        state_v_first=state_v_first, use_gate_in_kernel=use_gate_in_kernel, checked=checked,
    )  # fmt: skip
    _refuse_options(cp_context, chunk_size, save)
    A_log, dt_bias = _gate_parameters(use_gate_in_kernel, A_log, dt_bias)
    arguments = Arguments(
        q, k, v, g, beta, scale, initial_state, output_final_state, normalise=use_qk_l2norm_in_kernel,
        state_v_first=state_v_first, cu_seqlens=cu_seqlens, cu_seqlens_cpu=cu_seqlens_cpu, chunk_indices=chunk_indices,
        A_log=A_log, dt_bias=dt_bias, sigmoid_of_beta=use_beta_sigmoid_in_kernel, allow_neg_eigval=allow_neg_eigval,
    )  # fmt: skip
    return _run(arguments, save, backend, checked)


def _run(arguments: Arguments, save: Save, backend: str | None, checked: bool) -> tuple[Tensor, Tensor | None]:
    refuse_transforms(arguments)
    if isinstance(arguments.q, Tensor):
        if runs_on_gpu(backend, arguments.q.device):
            return gdn_forward(arguments, checked, save)
        if is_watched(arguments) and (backend is None or (backend == EMULATE and not arguments.q.is_cuda)):
            return observed_forward(arguments, checked, save)
    lengths, library = checked_lengths(arguments, backend, checked), library_of(backend)
    if not wants_gradients(arguments):
        return forward(arguments, lengths, library)[:2]
    runner = Runner(
        forward=lambda call, save: forward(call, lengths, library, save=save),
        backward=lambda call, _: backward(call, library),
    )
    return differentiable(runner, arguments, save)


def _refuse_options(cp_context: object | None, chunk_size: int, save: str) -> None:
    """No option is ignored: what has no kernel yet is refused."""
    if chunk_size != CHUNK:
        raise ValueError(f"chunk_size: {chunk_size!r}, expected {CHUNK}")
    check_save(save)
    if cp_context is not None:
        raise NotImplementedError("cp_context: context parallelism is not supported yet: pass whole sequences and None")


def _gate_parameters(
    use_gate: bool, A_log: Tensor | None, dt_bias: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Both in fp32. ``A_log`` stands for the flag from here on: it is given with it, and neither without it."""
    if use_gate:
        if A_log is None:
            raise ValueError("A_log: None, expected a tensor, [HV], with use_gate_in_kernel")
        return _widened(A_log), None if dt_bias is None else _widened(dt_bias)
    for name, x in (("A_log", A_log), ("dt_bias", dt_bias)):
        if x is not None:
            raise ValueError(f"{name}: given, expected None without use_gate_in_kernel")
    return None, None


def _widened(x: Tensor) -> Tensor:
    """``x`` in fp32 where its dtype is a narrower one, which changes no value; else as it is, for others to judge."""
    return x.float() if isinstance(x, Tensor) and x.dtype in ACTIVATIONS else x
