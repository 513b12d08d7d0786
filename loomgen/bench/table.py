"""Rows as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loomgen.bench.evidence import OUR_NAMES, OURS_NAME, Row, Run, compare
from loomgen.bench.workloads import Pass


def table(run: Run) -> str:
    """A line a row: GPU kernel time and call time of everyone, our share of each peer's, our error, of training calls
    the largest of a gradient and our share of each peer's memory, too, our repeats; then the geometric means, what
    failed and what was left out."""
    names = _names(run.rows)
    cells = [_header(run, names), *(_cells(row, run, names) for row in run.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [_line(row, widths) for row in cells]
    lines += [
        f"{OURS_NAME} / {peer}: geometric mean {found.geometric_mean:.3f} over {found.rows} rows, "
        f"worst {found.worst:.3f} ({found.worst_row})"
        for peer, found in compare(run.rows).items()
    ]
    lines += [f"FAILED {name}, {row.case.key}: {text}" for row in run.rows for name, text in row.failures.items()]
    lines += [f"NOT MEASURED {key}: no time left" for key in run.not_measured]
    return "\n".join(lines)


def _names(rows: Sequence[Row]) -> list[str]:
    """Everyone who appears, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in (*row.times, *row.rel_l2, *row.failures)))


def _header(run: Run, names: Sequence[str]) -> list[str]:
    peers = [name for name in names if name not in OUR_NAMES]
    times = [f"{name} kernel / call ms" for name in names]
    of_training = [] if run.what is Pass.FWD else ["of a gradient", *(f"memory / {peer}" for peer in peers)]
    return ["row", "floor ms", *times, *(f"/ {peer}" for peer in peers), "error of o", *of_training, "repeats"]


def _cells(row: Row, run: Run, names: Sequence[str]) -> list[str]:
    work, ratios = row.case.workload, row.ratios()
    floor = None if run.ceilings is None else run.ceilings.floor_ms(work.io_bytes(run.what), work.flops(run.what))
    peers = [name for name in names if name not in OUR_NAMES]
    errors = row.rel_l2.get(OURS_NAME, {})
    equal = row.repeats_equal.get(OURS_NAME)
    return [
        row.case.key,
        _number(floor, "{:.3f}"),
        *(_times(row, name) for name in names),
        *(_number(ratios.get(peer), "{:.3f}") for peer in peers),
        _number(errors.get("o"), "{:.2e}"),
        *([] if run.what is Pass.FWD else [_of_a_gradient(errors), *(_memory(row, peer) for peer in peers)]),
        "-" if equal is None else "equal" if equal else "DIFFER",
    ]


def _of_a_gradient(errors: Mapping[str, float]) -> str:
    """The largest, and whose it is."""
    gradients = {name: error for name, error in errors.items() if name.startswith("d")}
    if not gradients:
        return "-"
    name = max(gradients, key=lambda name: gradients[name])
    return f"{name} {gradients[name]:.2e}"


def _memory(row: Row, peer: str) -> str:
    ours, theirs = row.times.get(OURS_NAME), row.times.get(peer)
    return "-" if ours is None or theirs is None else f"{ours.peak_bytes / theirs.peak_bytes:.3f}"


def _times(row: Row, name: str) -> str:
    times = row.times.get(name)
    return "-" if times is None else f"{times.kernel_ms.median:.3f} / {times.call_ms.median:.3f}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        cell.ljust(width) if n == 0 else cell.rjust(width)
        for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()
