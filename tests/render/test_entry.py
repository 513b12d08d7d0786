"""Registry entries: what is copied from the lowered kernel and what is derived from the program."""

from __future__ import annotations

from loomgen.registry import Constraints, LaunchEntry, Multiple, ScanEntry, SourceEntry, StrideSource
from loomgen.render.entry import kernel_entry
from loomgen.target import SM_90A
from tests.render.fakes import fake_lower, kernel, scan_kernel

SOURCE = SourceEntry(path="generated/csrc/sm_90a/gdn/copy.cu", sha256="0" * 64)


def test_names_launch_and_constraints() -> None:
    spec = kernel()
    entry = kernel_entry(spec, fake_lower(spec, SM_90A), SOURCE)
    assert (entry.name, entry.stage, entry.signature, entry.variant, entry.instantiation) == (
        "copy__c64_f32__base",
        "copy",
        "c64_f32",
        "base",
        None,
    )
    assert entry.symbol == entry.name
    assert entry.source == SOURCE
    assert entry.launch == LaunchEntry(threads=128, min_blocks=2, grid=("HV", 4), dynamic_shared_bytes=1024)
    assert entry.constraints == Constraints(dims={"C": 64, "VB": 32}, multiples=(Multiple(dim="HV", of="H"),))
    assert entry.scan is None


def test_arguments_keep_their_order() -> None:
    spec = kernel()
    entry = kernel_entry(spec, fake_lower(spec, SM_90A), SOURCE)
    assert [(a.name, a.kind, a.dtype, a.shape, a.access) for a in entry.arguments] == [
        ("x", "tensor", "f32", ("T", 4), "in"),
        ("x_stride0", "stride", "i64", (), None),
        ("HV", "dim", "i32", (), None),
    ]
    assert entry.arguments[1].source == StrideSource(tensor="x", dim=0)


def test_scan_block_of_a_kernel_that_carries_a_state() -> None:
    spec = scan_kernel()
    entry = kernel_entry(spec, fake_lower(spec, SM_90A), SOURCE)
    assert entry.scan == ScanEntry(step=64, blocks={"vb": 32}, parts={"d": 2})
