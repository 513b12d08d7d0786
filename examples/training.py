"""A run of the training example: from recorded batches to losses, gradient norms and the digest of what was learnt."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor, nn

from examples.tiny_model import Setting, make_model, rule_named
from loomgen.integrations.transformers import use_loomgen

N_WARM_STEPS = 10
"""Not timed, where there are more: kernels are compiled and tuned in them."""

_BAR_COLUMNS = 30
_NONDETERMINISTIC = "does not have a deterministic implementation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """``losses`` and ``grad_norms`` of every step, before it; ``weights``: SHA-256 of all of them after the last."""

    rule: str
    losses: tuple[float, ...]
    grad_norms: tuple[float, ...]
    weights: str
    steps_per_second: float


@contextmanager
def deterministic() -> Iterator[set[str]]:
    """Torch's deterministic settings; the set gets what torch says of operators that have no deterministic form."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    memory: Any = torch.utils.deterministic
    before, fills = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    memory.fill_uninitialized_memory = False
    found: set[str] = set()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield found
        found.update(text for warning in caught if _NONDETERMINISTIC in (text := str(warning.message)))
    finally:
        torch.use_deterministic_algorithms(before)
        memory.fill_uninitialized_memory = fills


def train(setting: Setting, batches: Tensor, rule: str, device: torch.device, label: str) -> Trained:
    """Trains a new model on ``batches`` [steps, batch, tokens + 1], one after the other, in bf16 over fp32 weights."""
    model = make_model(setting).to(device).train()
    use_loomgen(model, rule=rule_named(rule))
    optimizer = torch.optim.AdamW(model.parameters())
    losses, norms = [], []
    n_warm = N_WARM_STEPS if len(batches) > N_WARM_STEPS else 0
    start = now(device)
    for i, batch in enumerate(batches):
        if i == n_warm:
            start = now(device)
        set_rate(optimizer, setting.learning_rate * rate_at(i, len(batches)))
        loss, norm = step(model, optimizer, batch.to(device).long())
        losses.append(loss)
        norms.append(norm)
        show_progress(label, i + 1, len(batches))
    seconds = now(device) - start
    return Trained(
        rule=rule,
        losses=tuple(torch.stack(losses).tolist()),
        grad_norms=tuple(torch.stack(norms).tolist()),
        weights=digest(model),
        steps_per_second=(len(batches) - n_warm) / seconds,
    )


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor) -> tuple[Tensor, Tensor]:
    """The loss before the step and the norm of its gradient, left on the device: reading them would wait for it."""
    with torch.autocast(batch.device.type, dtype=torch.bfloat16):
        logits = model(input_ids=batch[:, :-1]).logits
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach(), norm.detach()


def rate_at(i: int, n_steps: int) -> float:
    """A share of the learning rate: up to all of it over the first steps, then down in a line, almost to nothing."""
    return min(1.0, (i + 1) / N_WARM_STEPS) * (1 - i / n_steps)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def digest(model: nn.Module) -> str:
    total = sha256()
    for name, x in sorted(model.state_dict().items()):
        total.update(name.encode() + x.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def show_progress(label: str, done: int, total: int) -> None:
    """A bar on the terminal that stderr is, if it is one."""
    if not sys.stderr.isatty():
        return
    bar = "#" * (_BAR_COLUMNS * done // total)
    end = "\n" if done == total else ""
    print(f"\r{label:<12} [{bar:<{_BAR_COLUMNS}}] {done}/{total}", end=end, file=sys.stderr, flush=True)
