"""Variants and instantiations: names, order, digests, and where an expansion's mistakes are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomgen.errors import SpecError
from loomgen.ir.schedule import Place, Split
from loomgen.spec import load, render_error
from tests.spec.support import BASE, kernels_of, mistakes_in, write


def _digest(folder: Path, text: str) -> str:
    return kernels_of(folder, text)[0].spec_digest


def test_every_variant_with_every_instantiation(tmp_path: Path) -> None:
    names = [str(kernel.name) for kernel in kernels_of(tmp_path, BASE)]
    prefix = "demo__c16_k32_v32_bf16"
    assert names == [f"{prefix}__{part}" for part in ("v16__plain", "v16__split", "v32__plain", "v32__split")]


def test_without_variants_there_is_one_base_kernel(tmp_path: Path) -> None:
    text = BASE[: BASE.index("variants:")].replace("e: VB}", "e: V}").replace('"blocks(V, VB)"', '"blocks(V, V)"')
    assert [str(kernel.name) for kernel in kernels_of(tmp_path, text)] == ["demo__c16_k32_v32_bf16__base"]


def test_instantiations_set_dims_dtypes_and_parameters(tmp_path: Path) -> None:
    text = BASE.replace("split: {mode: split}}", "wide: {K: 64, TX: f16, mode: split}}")
    kernel = kernels_of(tmp_path, text)[1]
    assert str(kernel.name) == "demo__c16_k64_v32_f16__v16__wide"
    assert dict(kernel.program.dims)["K"] == 64
    assert {tensor.dtype.value for tensor in kernel.program.tensors if tensor.name in "kvy"} == {"f16"}


def test_the_schedule_is_read_under_the_variant(tmp_path: Path) -> None:
    text = BASE.replace("parts: 2}", 'parts: "VB // 8", across: 2}').replace(
        "rows: e,", 'rows: e, warps: "VB // 16 * 2",'
    )
    first, last = (kernels_of(tmp_path, text)[k].schedule for k in (0, -1))
    assert (first.warps, last.warps) == (2, 4)
    assert (first.splits, last.splits) == (
        (Split(index="d", parts=2, across=2),),
        (Split(index="d", parts=4, across=2),),
    )
    assert first.placed("y") is Place.DIRECT
    assert first.ring("kc") == 2


def test_static_branches_leave_out_what_they_do_not_use(tmp_path: Path) -> None:
    guarded = '  if mode == "split":\n      if given(s0):\n          S[e,d] = s0[n,hv,vb[e],d]\n'
    text = BASE.replace("  if given(s0):\n      S[e,d] = s0[n,hv,vb[e],d]\n", guarded)
    plain, split = (kernel.program for kernel in kernels_of(tmp_path, text)[:2])
    assert [tensor.name for tensor in plain.tensors] == ["k", "v", "slots", "pool", "y"]
    assert [tensor.name for tensor in split.tensors] == ["k", "v", "s0", "slots", "pool", "y"]


def test_a_mistake_of_one_expansion_names_it(tmp_path: Path) -> None:
    text = BASE.replace("v32: {VB: 32}", "v12: {VB: 12}")
    (found,) = mistakes_in(tmp_path, text)
    assert found.message == "VB=12 does not divide V=32"
    assert found.chain == ("in variant v12, instantiation plain",)


def test_a_mistake_of_all_expansions_names_none(tmp_path: Path) -> None:
    (found,) = mistakes_in(tmp_path, BASE.replace("scale*(TX", "sclae*(TX"))
    assert found.chain == ()


def test_an_unused_variant_with_a_bad_number(tmp_path: Path) -> None:
    (found,) = mistakes_in(tmp_path, BASE.replace("v32: {VB: 32}", "v0: {VB: 0}"))
    assert found.message == "VB is 0: want at least 1"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stage: demo\n", "# a comment\n\nstage: demo   # another\n"),
        ("family: gdn\n", "family: gdn\nabout: |\n  What it does.\n"),
        ("kc[i,d] = k[c[i],hk,d];  vc", "kc[i, d] = k[ c[i], hk, d ]  # keys\n      vc"),
        ("a[i,j] = kc[i,d] @ kc[j,d]", "a[i,j] = (kc[i,d]\n          @ (kc[j,d]))"),
        ('hk: "hv // (HV // H)"', "hk: hv//(HV//H)"),
        ("{i: C, j: C, d: K, e: VB}", "{i: C,\n  j: C, d: K, e: VB}"),
        ("v16: {VB: 16}, v32: {VB: 32}", "v32: {VB: 32}, v16: {VB: 16}"),
        ("s0: {access: in, dtype: f32, shape", "s0: {dtype: f32, access: in, shape"),
        ("rows: e,", "rows: [e],"),
        ("parts: 2}", "parts: 2, across: 1}"),
        ("stage: demo\n", "stage: demo\ntargets: [sm_103a, sm_100a, sm_90a]\n"),
    ],
)
def test_what_does_not_change_the_digest(old: str, new: str, tmp_path: Path) -> None:
    assert _digest(tmp_path, BASE.replace(old, new)) == _digest(tmp_path, BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scale*(TX", "2*scale*(TX"),
        ("{C: 16, K: 32, V: 32}", "{C: 16, V: 32, K: 32}"),
        ("rings: {kc: 2}", "rings: {kc: 3}"),
        ("v32: {VB: 32}", "v8: {VB: 8}"),
        ("stage: demo\n", "stage: demo\ntargets: [sm_90a]\n"),
        ("optional: true", "optional: true, strides: free"),
        ("n: sequences, hv: HV", "hv: HV, n: sequences"),
    ],
)
def test_what_changes_the_digest(old: str, new: str, tmp_path: Path) -> None:
    assert BASE.count(old) == 1
    assert _digest(tmp_path, BASE.replace(old, new)) != _digest(tmp_path, BASE)


def test_targets_are_in_one_order(tmp_path: Path) -> None:
    text = BASE.replace("stage: demo\n", "stage: demo\ntargets: [sm_103a, sm_90a]\n")
    assert kernels_of(tmp_path, text)[0].targets == ("sm_90a", "sm_103a")


def test_paths_are_relative_to_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "specs" / "gdn"
    folder.mkdir(parents=True)
    path = write(folder, BASE)
    monkeypatch.chdir(folder)
    assert load([path], tmp_path)[0].spec_path == "specs/gdn/demo.yaml"
    assert load([Path("demo.yaml")], tmp_path)[0].spec_path == "specs/gdn/demo.yaml"


def test_an_error_as_text(tmp_path: Path) -> None:
    text = BASE.replace("v32: {VB: 32}", "v12: {VB: 12}").replace("rings: {kc: 2}", "rings: {kcc: 2}")
    with pytest.raises(SpecError) as caught:
        kernels_of(tmp_path, text)
    assert render_error(caught.value, {"demo.yaml": text}) == (
        "demo.yaml:29:53: error LG090: no tile `kcc` in the program\n"
        "  schedule: {rows: e, split: {d: {parts: 2}}, rings: {kcc: 2}, place: {y: direct}}\n"
        "                                                      ^^^\n"
        "  hint: did you mean `kc`?\n"
        "  in variant v16, instantiation plain\n"
        "demo.yaml:30:37: error LG021: VB=12 does not divide V=32\n"
        "  variants: {v16: {VB: 16}, v12: {VB: 12}}\n"
        "                                      ^^\n"
        "  in variant v12, instantiation plain"
    )


def test_an_error_without_its_source(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load([tmp_path / "gone.yaml"], tmp_path)
    assert render_error(caught.value, {}) == "gone.yaml:1:1: error LG009: cannot be read: No such file or directory"
