"""A Qwen3-Next of a few layers with random weights, and a text to train it on byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn

from loomgen.integrations.optional import imported
from loomgen.integrations.transformers import FUNCTION, chunk_rule

HEAD_DIM = 128
VOCABULARY = 256
"""A token is a byte."""

Rule = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The model and its batches. ``layers`` as transformers names them, ``batch`` sequences of ``tokens`` a step."""

    hidden: int
    layers: tuple[str, ...]
    key_heads: int
    value_heads: int
    batch: int
    tokens: int
    learning_rate: float = 1e-3


ON_GPU = Setting(
    hidden=256, layers=(*("linear_attention",) * 3, "full_attention"), key_heads=2, value_heads=4, batch=8, tokens=256
)
IN_EMULATOR = Setting(hidden=32, layers=("linear_attention",), key_heads=1, value_heads=1, batch=1, tokens=16)


def make_model(setting: Setting, seed: int = 0) -> nn.Module:
    """The same weights for the same seed, in fp32. Raises MissingPackage without transformers."""
    transformers = imported("transformers", "transformers")
    torch.manual_seed(seed)
    config = transformers.Qwen3NextConfig(
        vocab_size=VOCABULARY,
        hidden_size=setting.hidden,
        intermediate_size=2 * setting.hidden,
        num_hidden_layers=len(setting.layers),
        layer_types=list(setting.layers),
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=setting.hidden // 4,
        linear_num_key_heads=setting.key_heads,
        linear_num_value_heads=setting.value_heads,
        linear_key_head_dim=HEAD_DIM,
        linear_value_head_dim=HEAD_DIM,
        num_experts=0,
        max_position_embeddings=2 * setting.tokens,
        attn_implementation="eager",
        use_cache=False,
    )
    model: nn.Module = transformers.Qwen3NextForCausalLM(config)
    return model


def rule_named(name: str) -> Rule:
    """``loomgen``; ``fla``, FLA's own path; or ``torch``, the reference of transformers, in fp32.

    Raises MissingPackage.
    """
    if name == "loomgen":
        return chunk_rule
    if name == "fla":
        return partial(_named_only, imported("fla.ops.gated_delta_rule", "fla").chunk_gated_delta_rule)
    modeling = imported("transformers.models.qwen3_next.modeling_qwen3_next", "transformers")
    return partial(_in_fp32, unwrap(getattr(modeling, FUNCTION)))


def _named_only(rule: Rule, *tensors: Tensor, **options: Any) -> Any:
    """Without what else the model was called with, which is none of ``rule``'s."""
    names = ("g", "beta", "initial_state", "output_final_state", "use_qk_l2norm_in_kernel", "cu_seqlens")
    return rule(*tensors, **{name: options[name] for name in names})


def _in_fp32(rule: Rule, query: Tensor, *others: Tensor, **options: Any) -> Any:
    with torch.autocast(query.device.type, enabled=False):
        return rule(query, *others, **options)


def corpus() -> Tensor:
    """The reference of the Python language that its library ships for ``help()``: u8 [bytes], near 500,000."""
    topics: dict[str, str] = imported("pydoc_data.topics", "transformers").topics
    text = "\n".join(topics[name] for name in sorted(topics))
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def draw_batches(text: Tensor, setting: Setting, n_steps: int, seed: int = 1) -> Tensor:
    """u8 [n_steps, batch, tokens + 1]: places in ``text`` chosen at random."""
    generator = torch.Generator().manual_seed(seed)
    n_bytes = setting.tokens + 1
    starts = torch.randint(len(text) - n_bytes, (n_steps, setting.batch, 1), generator=generator)
    return text[starts + torch.arange(n_bytes)]
