"""Who asks for the memory of a call that cannot be is told why."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from loomgen.ops import training_bytes, workspace_bytes

GIVEN: dict[str, Any] = {"n_tokens": 128, "n_sequences": 2, "key_heads": 2, "value_heads": 4}
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"n_tokens": -1}, ValueError, "n_tokens: -1, expected at least 0"),
    ({"n_tokens": 128.0}, TypeError, "n_tokens: 128.0, expected an integer"),
    ({"n_sequences": 0}, ValueError, "n_sequences: 0, expected at least 1"),
    ({"key_heads": 0}, ValueError, "key_heads: 0, expected at least 1"),
    ({"value_heads": True}, TypeError, "value_heads: True, expected an integer"),
    ({"value_heads": 3}, ValueError, "value_heads: 3, expected a multiple of key_heads, 2"),
    ({"head_dim": 96}, ValueError, "head_dim: 96, expected 64 or 128"),
    ({"dtype": torch.float32}, TypeError, "dtype: torch.float32, expected torch.bfloat16 or torch.float16"),
    ({"dtype": "bf16"}, TypeError, "dtype: 'bf16', expected torch.bfloat16 or torch.float16"),
    ({"n_chunks": 5}, ValueError, "n_chunks: 5, expected at most 4, which so many tokens can have"),
    ({"n_chunks": -1}, ValueError, "n_chunks: -1, expected at least 0"),
    ({"use_gate_in_kernel": "False"}, TypeError, "use_gate_in_kernel: 'False', expected True or False"),
]


@pytest.mark.parametrize("ask", [workspace_bytes, training_bytes])
@pytest.mark.parametrize(("changes", "error", "message"), WRONG)
def test_a_call_that_cannot_be_has_no_memory(
    ask: Any, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    ask(**GIVEN)
    with pytest.raises(error) as raised:
        ask(**{**GIVEN, **changes})
    assert str(raised.value) == message


def test_what_is_saved_is_one_of_two_things() -> None:
    with pytest.raises(ValueError, match=r"^save: 'all', expected minimal or states$"):
        training_bytes(**GIVEN, save="all")  # type: ignore[arg-type]
