"""Every code is raised by a spec that has this one mistake, at the place of the mistake."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from loomgen.errors import Span, SpecError
from loomgen.passes.pipeline import lower
from loomgen.spec import load, render_error
from loomgen.spec.codes import EXPLANATIONS, Code, errors_markdown
from loomgen.target import SM_90A
from tests.spec.support import BASE, FIRST, LAST, kernels_of, mistakes_in, write


@dataclass(frozen=True, slots=True)
class Case:
    """``old`` of the base spec becomes ``new``; the mistake is at ``place`` (the first one after ``new`` begins)."""

    code: Code
    old: str
    new: str
    place: str
    message: str


def _in_loop(code: Code, statement: str, place: str, message: str) -> Case:
    """A statement of the loop that is wrong."""
    return Case(code, FIRST, f"{FIRST}      {statement}\n", place, message)


def _at_end(code: Code, statement: str, place: str, message: str) -> Case:
    """A last statement that is wrong."""
    return Case(code, LAST, f"{LAST}  {statement}\n", place, message)


FILE_CASES = [
    Case(Code.YAML, "family: gdn", "family: &x gdn", "&x", "anchors"),
    Case(Code.YAML, "family: gdn", "family: gdn: x", ": x", "mapping values are not allowed here"),
    Case(Code.DUPLICATE_KEY, "family: gdn", "family: gdn\nfamily: kda", "family: kda", "stands twice"),
    Case(
        Code.UNKNOWN_KEY,
        "access: in, dtype: TX, shape: [T, H, K]",
        "acess: in, access: in, dtype: TX, shape: [T, H, K]",
        "acess",
        "`acess` in `tensors.k`",
    ),
    Case(Code.MISSING_KEY, "family: gdn\n", "", "stage: demo", "key `family` is missing"),
    Case(Code.MISSING_KEY, "{access: inout, ", "{", "pool", "key `access` is missing in `tensors.pool`"),
    Case(Code.BAD_VALUE, "access: inout", "access: both", "both", "'in', 'out' or 'inout'"),
    Case(Code.BAD_VALUE, "dims: {C: 16,", "dims: {C: sixteen,", "sixteen", "valid integer"),
    Case(Code.BAD_NAME, "stage: demo", "stage: Demo", "Demo", "`Demo`"),
    Case(Code.BAD_NAME, "{i: C,", "{ii: C, i: C,", "ii", "one lower case letter"),
    Case(Code.BAD_NAME, "scale: f32", "scale__x: f32, scale: f32", "scale__x", "identifier"),
    Case(Code.NAME_CLASH, "scale: f32", "scale: f32, v: f32", "v: f32", "`v` is declared in `tensors`"),
    Case(Code.NAME_CLASH, "scale: f32", "scale: f32, exp2: f32", "exp2", "word of the language"),
    Case(Code.PROGRAM_STYLE, "program: |", "program: >", ">", "literal block"),
    Case(Code.UNKNOWN_STATIC, "e: VB}", "e: VX}", "VX", "`VX`"),
    Case(
        Code.UNKNOWN_STATIC,
        "dims: {C: 16, K: 32, V: 32}",
        "dims: {K: 32, V: 32, L: 16}",
        "C",
        "unknown static name `C`",
    ),
    Case(Code.VARIANT_NAMES, "v32: {VB: 32}", "v32: {VB: 32, VC: 1}", "VC", "does not give `VC`"),
    Case(Code.UNKNOWN_OVERRIDE, "split: {mode: split}", "split: {mod: split}", "mod:", "`mod` is not"),
    Case(
        Code.NOT_A_CHOICE, "split: {mode: split}", "split: {mode: spilt}", "spilt", "`spilt` is not a choice of `mode`"
    ),
    Case(Code.NOT_A_CHOICE, "default: plain", "default: plane", "plane", "default of `mode`"),
    _in_loop(Code.NOT_A_CHOICE, 'z = 1 if mode == "plan" else 2', '"plan"', "`plan` is not a choice"),
    Case(Code.UNKNOWN_DTYPE, "slots: {access: in, dtype: i32", "slots: {access: in, dtype: int", "int", "`int`"),
    Case(Code.UNKNOWN_DTYPE, "dtypes: {TX: bf16}", "dtypes: {TX: b16}", "b16", "`b16`"),
    Case(Code.NOT_STATIC, "e: VB}", 'e: "VB/2"}', "VB/2", "integer expression"),
    _in_loop(Code.NOT_STATIC, "z = mode", "mode", "parameter `mode` is not a number"),
    Case(
        Code.UNUSED_VARIANT_NAME, "v16: {VB: 16}, v32: {VB: 32}", "v16: {VB: 16, Q: 1}, v32: {VB: 32, Q: 2}", "Q", "`Q`"
    ),
    Case(Code.BAD_EXTENT, "dims: {C: 16,", "dims: {C: 0,", "0", "C is 0"),
    Case(Code.BAD_EXTENT, "shape: [SLOTS, HV, V]", 'shape: [SLOTS, HV, "V - 32"]', '"V - 32"', "at least 1"),
    Case(Code.NOT_DIVISIBLE, "v16: {VB: 16}, v32: {VB: 32}", "v16: {VB: 12}", "12", "VB=12 does not divide V=32"),
    Case(Code.BAD_AXIS, "hv: HV", "hv: heads", "heads", "`heads` is not a grid axis"),
    Case(Code.BAD_AXIS, '"blocks(V, VB)"', '"blocks(V)"', "blocks", "not a grid axis"),
    Case(Code.SEGMENTS, "n: sequences", "n: segments", "segments", "not part of this version"),
]

PROGRAM_CASES = [
    _in_loop(Code.SYNTAX, "z = = 1", "= 1", "syntax error"),
    _in_loop(Code.NOT_IN_LANGUAGE, "z = [1]", "[1]", "`List`"),
    _in_loop(Code.NOT_IN_LANGUAGE, "z = scale**2", "scale**2", "`BinOp`"),
    _in_loop(Code.NOT_IN_LANGUAGE, "z += 1", "z += 1", "`AugAssign`"),
    _in_loop(Code.UNKNOWN_NAME, "z[i] = sclae*kc[i,0]", "sclae", "unknown name `sclae`"),
    _in_loop(Code.BAD_TARGET, "z[i+1] = scale", "i+1", "index letters only"),
    _in_loop(Code.ASSIGNED_TWICE, "vc[i,e] = 0", "vc[i,e]", "`vc` is assigned twice"),
    _in_loop(Code.MISPLACED_RETURN, "return", "return", "cannot stand here"),
    _at_end(Code.MAYBE_UNASSIGNED, "z[i,j] = a[i,j]", "a[i,j]\n", "`a` is assigned only inside a loop"),
    _in_loop(Code.BAD_CALL, "z = exp3(scale)", "exp3(scale)", "no function `exp3`"),
    _in_loop(Code.BAD_CALL, "z = fma(scale, 2)", "fma(scale, 2)", "takes 3 arguments"),
    _in_loop(Code.DECLARED_NAME, "scale = 1", "scale", "`scale` is declared"),
    _in_loop(Code.UNBOUND_INDEX, "z[i] = kc[i,d]", "d]\n", "index `d` is neither on the left nor summed"),
    _in_loop(Code.WRONG_RANK, "z[i] = kc[i]", "kc[i]", "`kc` has 2 indices, 1 subscripts"),
    _in_loop(Code.WRONG_RANK, "z[i] = v[c[i],hv]", "v[c[i],hv]", "3 dimensions, 2 coordinates"),
    _in_loop(Code.WRONG_AXIS, "z[i,e] = kc[i,e]", "e]\n", "index `e` runs over VB, the axis `d` over K"),
    _in_loop(Code.RUN_TIME_SUBSCRIPT, "z[i] = kc[i,count]", "count", "static subscripts"),
    _in_loop(Code.OUT_OF_RANGE, "z[i] = kc[i,K]", "K]\n", "element 32 of axis `d`, which has 32"),
    _in_loop(Code.OUT_OF_RANGE, "z[i] = kc[i+1,0]", "i+1", "`i` runs over 16 elements from 1, the axis `i` has 16"),
    _in_loop(
        Code.OUT_OF_RANGE, "z[i] = sum[d](kc[i,d+K])", "d+K", "`d` runs over 32 elements from 32, the axis `d` has 32"
    ),
    _in_loop(Code.RUN_TIME_SUBSCRIPT, "z[i] = kc[i,i+count]", "i+count", "static subscripts"),
    _in_loop(Code.RUN_TIME_SUBSCRIPT, "z[i] = kc[i,16-i]", "16-i", "static subscripts"),
    _in_loop(Code.UNBOUND_INDEX, "z[i] = kc[i,j+8]", "j+8", "index `j` is neither on the left nor summed"),
    _in_loop(Code.REPEATED_INDEX, "z[i,i] = scale", "i] = scale", "`i` stands twice"),
    _in_loop(
        Code.WRONG_COORDINATE, "z[i,d] = k[c[i],hv,d]", "hv,d]", "dimension 1 of `k` is H, the coordinate runs over HV"
    ),
    _in_loop(
        Code.WRONG_COORDINATE, "z[i,e] = v[c[i],hv,e]", "e]\n", "dimension 2 of `v` is V, the coordinate runs over VB"
    ),
    _in_loop(Code.SUMMED_AND_BOUND, "z[i,d] = sum[d](kc[i,d])", "sum[d]", "index `d` is summed here and bound outside"),
    _at_end(Code.CARRIED_CHANGES, "if count > 0:\n      S[d,e] = 0", "S[d,e]", "carried over the indices [e,d]"),
    _at_end(Code.CARRIED_CHANGES, "if count > 0:\n      S[e,d] = count", "count\n", "the name is f32 and carried"),
    _in_loop(Code.NOTHING_TO_CONTRACT, "z[i,e] = kc[i,d] @ vc[j,e]", "kc[i,d] @", "share no index"),
    _in_loop(Code.SEVERAL_TO_CONTRACT, "z[i,d] = kc[i,d] @ kc[i,d]", "kc[i,d] @", "`i`, `d`"),
    _in_loop(Code.OPERAND_DTYPES, "z[i,e] = a[i,j] @ vc[j,e]", "a[i,j] @", "are f32 and bf16"),
    _in_loop(Code.OPERAND_RANK, "w[i] = a[i,0]; z[j] = w[i] @ kc[i,d]", "w[i] @", "want two indices each"),
    _in_loop(Code.OPERATOR_INDEX, "z[i] = sum[e](kc[i,0])", "e](", "index letters of its argument"),
    _in_loop(Code.BAD_INVERSE, "z[i,j] = 2*unit_lower_inverse[i,j](a[i,j])", "unit_lower", "stands alone"),
    _in_loop(Code.BAD_INVERSE, "z[i,j] = unit_lower_inverse[i,j](a[j,i])", "a[j,i]", "f32 tile over i,j"),
    _in_loop(Code.MIXED_DTYPES, "z = scale*count", "scale*count", "f32 and i32 do not mix"),
    _in_loop(Code.NARROWING, "z[i,d] = kc[i,d] if i == 0 else 0.1", "0.1", "`0.1` is not a bf16 number"),
    Case(
        Code.STORE_DTYPE,
        "TX(scale*(TX(a[i,j]) @ vc[j,e]))",
        "scale*(TX(a[i,j]) @ vc[j,e])",
        "scale*(",
        "f32 into a tensor of bf16",
    ),
    _in_loop(Code.NOT_A_CONDITION, "z = scale if count else 0", "count", "a i32 is not a condition"),
    _in_loop(Code.BAD_OPERAND, "z = count/2", "count/2", "`/` is not defined on i32"),
    _in_loop(Code.WINDOW_OUTSIDE_TENSOR, "z[i] = f32(c[i])", "c[i]", "stands for an element"),
    _in_loop(Code.WINDOW_MISUSE, "z = c.length", "c.length", "no field `.length`"),
    _in_loop(Code.WINDOW_MISUSE, "z[d] = v[c[d],hv,0]", "c[d]", "the window `c` has 16 elements"),
    _at_end(Code.WINDOW_MISUSE, "for z in chunks(hv):\n      t = z.len", "chunks(hv)", "`chunks` takes a sequence"),
    _at_end(
        Code.WINDOW_MISUSE,
        "for z in reversed(range(3)):\n      t = z",
        "reversed(",
        "`reversed` takes `chunks(<sequence>)`",
    ),
    _at_end(Code.WINDOW_MISUSE, "for z in reversed(chunks(hv)):\n      t = z.len", "chunks(hv)", "takes a sequence"),
    _at_end(
        Code.WINDOW_MISUSE, "for z in chunks(reversed(n)):\n      t = z.len", "chunks(", "`chunks` takes a sequence"
    ),
    _at_end(Code.WINDOW_MISUSE, "for z in sorted(chunks(n)):\n      t = z.len", "sorted(", "reversed or not"),
    _in_loop(Code.BAD_CALL, "z = reversed(scale)", "reversed(", "no function `reversed`"),
    _in_loop(Code.DECLARED_NAME, "reversed = scale", "reversed", "`reversed` is declared"),
    _in_loop(Code.SEGMENTS, "z = n.first", "n.first", "belongs to segments"),
    _in_loop(Code.NOT_UNIFORM, "if i > 0:\n          z[i] = 0", "i > 0", "depends on the index `i`"),
    _in_loop(Code.UNGUARDED_OPTIONAL, "z[d] = s0[n,hv,0,d]", "s0[n,hv,0,d]", "`s0` is optional and not tested"),
    _in_loop(Code.GIVEN_MISUSE, "z[e] = 1 if given(v) else 2", "given(v)", "optional tensor"),
    Case(Code.NOT_OWNED, "y[c[i],hv,vb[e]] =", "y[c[i],0,vb[e]] =", "y[c[i],0,vb[e]]", "`y` is not addressed by `hv`"),
    Case(
        Code.NOT_OWNED,
        "y[c[i],hv,vb[e]] =",
        "head = hk*2\n      y[c[i],head,vb[e]] =",
        "y[c[i],head,vb[e]]",
        "`y` is not addressed by `hv`",
    ),
    _in_loop(Code.NOT_OWNED, "pool[slot,hv,vb[e]] = S[e,0]", "pool[slot", "iterations of the loop over `c`"),
    _at_end(Code.WRITTEN_TWICE, "pool[slot,hv,vb[e]] = p[e]", "pool[slot", "stored a second time"),
    _at_end(Code.WRONG_ACCESS, "k[n[i],hk,d] = TX(0)", "k[n[i]", "`k` is `in`"),
    _in_loop(Code.WRONG_ACCESS, "z[i,e] = y[c[i],hv,vb[e]]", "y[c[i]", "`y` is `out`"),
    _at_end(Code.READ_AFTER_STORE, "q[e] = pool[slot,hv,vb[e]]", "pool[slot", "read after it is stored"),
    Case(Code.STORE_COORDINATE, "y[c[i],hv,vb[e]] =", "y[c[min(i,c.last)],hv,vb[e]] =", "c[min", "one index letter"),
    Case(Code.UNUSED_ARGUMENT, "scale: f32", "scale: f32, eps: f32", "eps", "`eps` is declared and not used"),
]

ROLES = "{v: {warps: 4, runs: [a]}, w: {warps: 4, runs: [kc, a]}, x: {warps: 4, runs: rest}}"

SCHEDULE_CASES = [
    Case(Code.UNKNOWN_STATEMENT, "rings: {kc: 2}", "rings: {kd: 2}", "kd", "no tile `kd`"),
    Case(Code.UNKNOWN_INDEX, "rows: e", "rows: z", "z", "no index `z`"),
    Case(Code.BAD_SPLIT, "parts: 2", "parts: 3", "3", "parts=3 does not divide the extent 32 of `d`"),
    Case(Code.BAD_SPLIT, "parts: 2", "parts: 2, across: VB", "16}, v32", "across: VB=16 does not divide parts=2"),
    Case(Code.BAD_RING, "rings: {kc: 2}", "rings: {p: 2}", "p: 2", "not assigned in a loop"),
    Case(Code.BAD_PLACE, "place: {y: direct}", "place: {kc: direct}", "kc", "only a store can be direct"),
    Case(Code.BAD_ROLE, "rows: e", "rows: e, roles: {w: {warps: 4, runs: [kc]}}", "roles", "0 roles run the rest"),
    Case(Code.BAD_ROLE, "rows: e", f"rows: e, roles: {ROLES}", "a]}, x", "`a` is run by the roles `v` and `w`"),
    Case(Code.BAD_ROLE, "rows: e", "rows: e, tma: [kc]", "tma", "only roles hand tiles to it"),
    Case(Code.BAD_ROLE, "rows: e", "rows: e, atom: wgmma", "atom", "only roles hand tiles to it"),
]
CASES = [*FILE_CASES, *PROGRAM_CASES, *SCHEDULE_CASES]


def _place(text: str, case: Case) -> tuple[int, int]:
    start = text.index(case.new) if case.new else 0
    shared = len(case.old) if case.new.startswith(case.old) else 0
    offset = text.index(case.place, start + shared)
    line = text.count("\n", 0, offset) + 1
    return line, offset - (text.rfind("\n", 0, offset) + 1) + 1


def test_the_base_spec_is_accepted(tmp_path: Path) -> None:
    assert len(kernels_of(tmp_path, BASE)) == 4


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code.value}-{case.message[:24]}")
def test_each_mistake_is_reported_at_its_place(case: Case, tmp_path: Path) -> None:
    assert BASE.count(case.old) >= 1
    text = BASE.replace(case.old, case.new, 1)
    found = mistakes_in(tmp_path, text)
    assert [item.code for item in found][:1] == [case.code.value], found
    assert case.message in found[0].message
    line, col = _place(text, case)
    assert (found[0].span.line, found[0].span.col) == (line, col), found[0]


INPLACE = BASE.replace("y: {access: out,", "y: {access: inout,").replace(
    "      y[c[i],hv,vb[e]] = TX(scale*(TX(a[i,j]) @ vc[j,e]))",
    "      before[i,e] = y[c[i],hv,vb[e]]\n"
    "      y[c[i],hv,vb[e]] = TX(scale*(TX(a[i,j]) @ vc[j,e]) + f32(before[i,e]))",
)


@pytest.mark.parametrize("offset", ["i", "min(i,c.last)"])
def test_a_chunk_may_be_updated_in_place(offset: str, tmp_path: Path) -> None:
    text = INPLACE.replace("before[i,e] = y[c[i]", f"before[i,e] = y[c[{offset}]")
    assert text.count(f"= y[c[{offset}],hv,vb[e]]\n") == 1
    assert len(kernels_of(tmp_path, text)) == 4


@pytest.mark.parametrize("offset", ["i-1", "min(i,3)", "C-1", "max(i,c.last)"])
def test_elements_of_another_iteration_are_not_read_where_it_stores_them(offset: str, tmp_path: Path) -> None:
    text = INPLACE.replace("before[i,e] = y[c[i]", f"before[i,e] = y[c[{offset}]")
    (found,) = mistakes_in(tmp_path, text)
    assert found.code == Code.READ_AFTER_STORE.value
    assert found.message == "`y` may be read here after an earlier iteration of `c` stored it"
    assert text.splitlines()[found.span.line - 1][found.span.col - 1 :].startswith(f"y[c[{offset}]")


def test_a_single_mistake_gives_a_single_message(tmp_path: Path) -> None:
    """What depends on a wrong statement is not reported again."""
    text = BASE.replace("kc[i,d] = k[c[i],hk,d]", "kc[i,d] = k[c[i],hkk,d]")
    assert [item.code for item in mistakes_in(tmp_path, text)] == [Code.UNKNOWN_NAME.value]


def test_all_mistakes_of_all_files_are_collected(tmp_path: Path) -> None:
    first = write(tmp_path, BASE.replace("scale*(TX", "sclae*(TX").replace(LAST, f"{LAST}  q = countt\n"), "a.yaml")
    second = write(tmp_path, "stage: [", "b.yaml")
    with pytest.raises(SpecError) as caught:
        load([first, second, tmp_path / "missing.yaml"], tmp_path)
    places = [(item.code, item.span.path) for item in caught.value.diagnostics]
    assert places == [("LG032", "a.yaml"), ("LG032", "a.yaml"), ("LG001", "b.yaml"), ("LG009", "missing.yaml")]


def test_the_same_kernel_in_two_files(tmp_path: Path) -> None:
    paths = [write(tmp_path, BASE, "a.yaml"), write(tmp_path, BASE, "b.yaml")]
    with pytest.raises(SpecError) as caught:
        load(paths, tmp_path)
    assert {item.code for item in caught.value.diagnostics} == {Code.SAME_KERNEL.value}
    assert caught.value.diagnostics[0].span == Span(path="b.yaml", line=1, col=8, end_col=12)


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("stage: d\xe9mo".encode("latin-1"))
    with pytest.raises(SpecError, match="LG009: cannot be read: not UTF-8"):
        load([path], tmp_path)


def test_every_code_has_a_case_and_an_explanation() -> None:
    tested = {case.code for case in CASES} | {Code.SAME_KERNEL, Code.UNREADABLE}
    assert tested == {code for code in Code if code.value < "LG100"}  # the passes have their own cases
    assert set(EXPLANATIONS) == set(Code)


def test_the_page_of_errors_is_the_table() -> None:
    """Mend with `python tools/update_published.py`."""
    page = Path(__file__).parents[2] / "docs" / "errors.md"
    assert page.read_text(encoding="utf-8") == errors_markdown()


MENDED = [
    (("grid: {n:", "gird: {n:"), (Code.UNKNOWN_KEY, "gird", "did you mean `grid`?")),
    (("{access: inout, ", "{acess: inout, "), (Code.UNKNOWN_KEY, "acess", "did you mean `access`?")),
    (("rings: {kc: 2}", "ring: {kc: 2}"), (Code.UNKNOWN_KEY, "ring", "did you mean `rings`?")),
    (("rings: {kc: 2}", "unroll: {kc: 2}"), (Code.UNKNOWN_KEY, "unroll", None)),
    (("rings: {kc: 2}", "rings: {kc: [2]}"), (Code.BAD_VALUE, "[2]", None)),
    (("place: {y: direct}", "place: {y: indirect}"), (Code.BAD_VALUE, "indirect", None)),
]


@pytest.mark.parametrize(("edit", "wanted"), MENDED)
def test_a_mistake_of_form_is_one_error_and_hides_none_of_the_program(
    edit: tuple[str, str], wanted: tuple[Code, str, str | None], tmp_path: Path
) -> None:
    assert BASE.count(edit[0]) == 1
    text = BASE.replace(*edit).replace("scale*(TX", "sclae*(TX")
    found = {item.code: item for item in mistakes_in(tmp_path, text)}
    code, place, hint = wanted
    assert sorted(found) == sorted([code.value, Code.UNKNOWN_NAME.value])
    line = text[: text.index(place)].count("\n") + 1
    col = text.index(place) - text.rfind("\n", 0, text.index(place))
    assert (found[code.value].span.line, found[code.value].span.col) == (line, col)
    assert found[code.value].hint == hint


def test_a_file_that_ends_too_early_shows_its_last_line(tmp_path: Path) -> None:
    text = "stage: demo\ndims: {C: 16\n\n\n"
    (found,) = mistakes_in(tmp_path, text)
    assert (found.code, found.span.line, found.span.col) == (Code.YAML.value, 2, 13)
    assert render_error(SpecError([found]), {"demo.yaml": text}).splitlines()[1:] == [
        "  dims: {C: 16",
        f"  {' ' * 12}^",
    ]


def test_a_number_below_one_is_named(tmp_path: Path) -> None:
    found = mistakes_in(tmp_path, BASE.replace("rings: {kc: 2}", "rings: {kc: 0}"))
    assert [item.message for item in found] == ["`kc` is 0: want at least 1"]
    found = mistakes_in(tmp_path, BASE.replace("shape: [SLOTS, HV, V]", "shape: [SLOTS, HV, 0]"))
    assert [item.message for item in found] == ["dimension 2 of `pool` is 0: want at least 1"]


SCHEDULES = [
    ("rows: e, warps: 3", "3", Code.WARP_COUNT),
    ("rows: [e, i2]", "[e, i2]", Code.UNEVEN_SLABS),
    ("rows: e, split: {d: {parts: 4, across: 4}}", "d: {parts", Code.SPLIT_COUNT),
    ("rows: e, split: {d: {parts: 4, across: 2}}", "d: {parts", Code.SPLIT_COUNT),
    ("rows: [e, i], min_blocks: 400", "400", Code.TOO_LARGE),
    ("rows: e, place: {S: shared}", "S: shared", Code.BAD_PLACE),
]


@pytest.mark.parametrize(("schedule", "place", "code"), SCHEDULES)
def test_what_the_schedule_asks_in_vain_is_reported_at_its_key(
    schedule: str, place: str, code: Code, tmp_path: Path
) -> None:
    last = next(line for line in BASE.splitlines() if line.startswith("schedule:"))
    text = (
        BASE.replace(last, f"schedule: {{{schedule}}}")
        .replace("{i: C,", "{i2: L, i: C,")
        .replace("{C: 16", "{L: 64, C: 16")
    )
    kernel = kernels_of(tmp_path, text)[0]
    with pytest.raises(SpecError) as caught:
        lower(kernel, SM_90A)
    (found,) = caught.value.diagnostics
    assert found.code == code.value
    (line,) = [k for k, row in enumerate(text.splitlines(), 1) if row.startswith("schedule:")]
    row = text.splitlines()[line - 1]
    assert (found.span.line, found.span.col) == (line, row.index(place, row.index(schedule)) + 1)
