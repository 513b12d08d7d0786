"""Train a tiny Qwen3-Next on loomgen, replay its batches to the same bits, and train it on another path beside it.

    python -m examples.train_tiny --out DIR --commit COMMIT

On a GPU: 100 steps, beside FLA. Without one: --steps 2 --device cpu, in the emulator, beside transformers' reference.
Needs `loomgen[transformers]`, beside FLA `loomgen[fla]` too. Writes DIR/batches.pt and DIR/tiny_training.<card>.json,
and prints a table, or with --json the document. Exit codes: 0 all checks hold, 1 not, 2 could not run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from examples.tiny_model import IN_EMULATOR, ON_GPU, Setting, corpus, draw_batches
from examples.training import Trained, deterministic, train
from loomgen.evidence import Card, first_card, package_versions, write_evidence
from tools.arguments import out_folder
from tools.gpu_evidence import TORCH_VERSIONS, Row, line
from tools.running import exit_code

LOSS_BOUND = 1e-3
N_FINAL = 10
N_REPLAYS = 2
RECORDED = "batches.pt"
CONTROLS = ("fla", "torch", "none")
PACKAGES = ("transformers", "flash-linear-attention", "fla-core", "triton")


def recorded(folder: Path, batches: Tensor) -> Tensor:
    """What a replay finds in ``folder`` after a run has put its batches there."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(batches, folder / RECORDED)
    read: Tensor = torch.load(folder / RECORDED, weights_only=True)
    return read


def runs(setting: Setting, options: argparse.Namespace) -> dict[str, Trained]:
    """By name: ours and its replays, between them the control's, so that times meet the same state of the machine."""
    device = torch.device(options.device)
    batches = draw_batches(corpus(), setting, options.steps)
    order = ["run"]
    for i in range(N_REPLAYS):
        order += [] if options.control == "none" else [f"control {i + 1}"]
        order.append(f"replay {i + 1}")
    found = {}
    for name in order:
        rule = options.control if name.startswith("control") else "loomgen"
        found[name] = train(setting, batches, rule, device, name)
        batches = recorded(options.out, batches) if name == "run" else batches
    return found


def replay_row(first: Trained, again: Trained, name: str) -> Row:
    different = {
        "losses": sum(x != y for x, y in zip(first.losses, again.losses, strict=True)),
        "grad_norms": sum(x != y for x, y in zip(first.grad_norms, again.grad_norms, strict=True)),
        "weights": int(first.weights != again.weights),
    }
    measured = {**different, "steps": len(first.losses)}
    return Row(check="replay", case=name, measured=measured, bound=0, ok=not any(different.values()))


def loss_row(ours: Trained, control: Trained) -> Row:
    """The final losses of two runs that start alike and round differently: means of the last steps, since that of one
    batch moves by more than the weights do.
    """
    final, other = (sum(run.losses[-N_FINAL:]) / len(run.losses[-N_FINAL:]) for run in (ours, control))
    relative = abs(final - other) / abs(other)
    last = abs(ours.losses[-1] - control.losses[-1]) / abs(control.losses[-1])
    measured = {"loomgen": final, control.rule: other, "relative": relative, "relative_last_step": last}
    ok = relative <= LOSS_BOUND
    return Row(check="final loss", case=f"beside {control.rule}", measured=measured, bound=LOSS_BOUND, ok=ok)


def speed_row(found: dict[str, Trained]) -> Row:
    """The fastest run of each, steps a second."""
    speeds: dict[str, float] = {}
    for trained in found.values():
        speeds[trained.rule] = max(speeds.get(trained.rule, 0.0), trained.steps_per_second)
    return Row(check="speed", case="steps a second", measured=speeds, bound=None, ok=True)


def rows(found: dict[str, Trained], nondeterministic: set[str]) -> Iterator[Row]:
    for name, trained in found.items():
        if name.startswith("replay"):
            yield replay_row(found["run"], trained, name)
    if "control 1" in found:
        yield loss_row(found["run"], found["control 1"])
    n_found = len(nondeterministic)
    yield Row(check="settings", case="operators that are not deterministic", measured={"operators": n_found},
              bound=0, ok=not n_found)  # fmt: skip
    yield speed_row(found)


def document_rows(found: dict[str, Trained], checks: Sequence[Row]) -> list[dict[str, Any]]:
    """The checks, then every loss and norm of each run."""
    series = [{"check": "series", "case": name, "ok": True, **asdict(trained)} for name, trained in found.items()]
    return [*(asdict(check) for check in checks), *series]


def write_document(options: argparse.Namespace, card: Card, found: dict[str, Trained], checks: Sequence[Row]) -> Path:
    command = f"python -m examples.train_tiny --commit {options.commit} --steps {options.steps}"
    return write_evidence(
        options.out, "tiny_training", card, document_rows(found, checks),
        command=f"{command} --device {options.device} --control {options.control}",
        commit=options.commit,
        versions={**TORCH_VERSIONS, **package_versions(PACKAGES)},
    )  # fmt: skip


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(prog="train_tiny", description="Train a tiny Qwen3-Next on loomgen, to the bit.")
    parser.add_argument(
        "--out", type=out_folder, default=Path("build/training"), help="folder for batches and document"
    )
    parser.add_argument("--commit", default="unknown", help="the commit that runs, for the document")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if on_gpu else "cpu")
    parser.add_argument("--control", choices=CONTROLS, default="fla" if on_gpu else "torch")
    parser.add_argument("--json", action="store_true", help="print the document")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> bool:
    """Whether all checks hold."""
    on_gpu = options.device == "cuda"
    card = first_card() if on_gpu else Card(name="CPU", driver="", clocks={})
    with deterministic() as nondeterministic:
        found = runs(ON_GPU if on_gpu else IN_EMULATOR, options)
    checks = tuple(rows(found, nondeterministic))
    path = write_document(options, card, found, checks)
    print("\n".join(sorted(nondeterministic)), end="\n" * bool(nondeterministic), file=sys.stderr)
    print(json.dumps(json.loads(path.read_text()), indent=2) if options.json else "\n".join(map(line, checks)))
    return all(check.ok for check in checks)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    return exit_code(lambda: measure(options))


if __name__ == "__main__":
    sys.exit(main())
