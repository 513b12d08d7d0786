"""Three real stages in Tile IR, written by hand, so that the interpreter is tested without the front end."""

from __future__ import annotations

from loomgen.ir import tile
from loomgen.ir.tile import Carry, Expr, ForWindow, Given, If, Inverse, Merge, WindowKind
from loomgen.ir.types import Index, Value
from tests.interp import programs as p

C, K, V, VB = 64, 128, 128, 32

ROW, COL, D, E = p.index("i", C), p.index("j", C), p.index("d", K), p.index("e", V)
B = p.index("b", VB)
KEY_HEAD = p.binary(p.coordinate("hv"), "//", p.binary(p.scalar("HV", p.I32), "//", p.scalar("H", p.I32)))
HEAD = p.coordinate("hv")

KN = p.tensor("kn", "T", "H", K, dtype=p.BF16)
GATES = p.tensor("G", "NC", "HV", C)
STEPS = p.tensor("beta", "NC", "HV", C)
G = p.value("g", ROW)
S = p.value("s", ROW)


def by_chunk(value: Value, tensor: tile.Tensor) -> tile.Load:
    """g[i] = G[c, hv, i]"""
    return p.load(value, tensor, p.coordinate("c"), HEAD, p.letter(ROW))


def decay() -> Expr:
    """exp2(g[i] - g[j])"""
    return p.call("exp2", p.binary(p.read(G, ROW), "-", p.read(G, COL)))


def bf16(name: str, *indices: Index) -> Value:
    return p.value(name, *indices, dtype=p.BF16)


def f32(x: Expr) -> Expr:
    return p.cast(x, p.F32)


def fwd_o() -> tile.Program:
    c = p.window("c", WindowKind.CHUNK, C)
    qn = p.tensor("qn", "T", "H", K, dtype=p.BF16)
    v_new = p.tensor("v_new", "NC", "HV", V, C, dtype=p.BF16)
    h = p.tensor("h", "NC", "HV", V, K, dtype=p.BF16)
    o = p.tensor("o", "T", "HV", V, dtype=p.BF16, access="out")
    qc, kc, hc, vn = bf16("qc", ROW, D), bf16("kc", COL, D), bf16("hc", E, D), bf16("vn", E, COL)
    qk, probs = p.value("P_mm", ROW, COL), bf16("P", ROW, COL)
    qh, inter, pv, result = (
        p.value("inter_mm", ROW, E),
        p.value("inter", ROW, E),
        p.value("o_mm", ROW, E),
        bf16("o", ROW, E),
    )
    causal = p.binary(p.letter(COL), "<=", p.letter(ROW))
    masked = p.select(causal, p.product(decay(), p.read(qk)), p.const(0.0))
    total = p.product(p.scalar("scale"), p.read(pv))
    return p.program(
        p.load(qc, qn, p.within(c, p.letter(ROW)), KEY_HEAD, p.letter(D)),
        p.load(kc, KN, p.within(c, p.letter(COL)), KEY_HEAD, p.letter(D)),
        p.load(hc, h, p.coordinate("c"), HEAD, p.letter(E), p.letter(D)),
        p.load(vn, v_new, p.coordinate("c"), HEAD, p.letter(E), p.letter(COL)),
        by_chunk(G, GATES),
        p.contract(qk, p.read(qc), p.read(kc), D),
        p.map_(probs, p.cast(masked, p.BF16)),
        p.contract(qh, p.read(qc), p.read(hc), D),
        p.map_(inter, p.product(p.call("exp2", p.read(G)), p.read(qh))),
        p.contract(pv, p.read(probs), p.read(vn), COL, seed=p.read(inter)),
        p.map_(result, p.cast(total, p.BF16)),
        p.store(o, result, p.within(c, p.letter(ROW)), HEAD, p.letter(E)),
        tensors=(qn, KN, v_new, h, GATES, o),
        scalars={"scale": p.F32},
        grid=(p.axis("c", "NC", c), p.axis("hv", "HV")),
    )


def wy(lower_inverse: bool = False) -> tile.Program:
    """``lower_inverse`` computes the inverse by rows in fp32, as the ordered mode has no inverse of its own."""
    c = p.window("c", WindowKind.CHUNK, C)
    out = p.tensor("A", "T", "HV", C, dtype=p.BF16, access="out")
    kc, a = bf16("kc", ROW, D), bf16("Ac", ROW, COL)
    kk, lower, inverse = p.value("L_mm", ROW, COL), p.value("L", ROW, COL), p.value("U", ROW, COL)
    strict = p.binary(p.letter(COL), "<", p.letter(ROW))
    masked = p.select(strict, p.product(p.read(S), decay(), p.read(kk)), p.const(0.0))
    tokens = p.within(c, p.letter(ROW))
    return p.program(
        p.load(kc, KN, tokens, KEY_HEAD, p.letter(D)),
        by_chunk(G, GATES),
        by_chunk(S, STEPS),
        p.contract(kk, p.read(kc), p.read(kc, COL, D), D),
        p.map_(lower, masked),
        *(_by_rows(lower, inverse) if lower_inverse else _inverse(lower, inverse)),
        p.map_(a, p.cast(p.read(inverse), p.BF16)),
        p.store(out, a, tokens, HEAD, p.letter(COL)),
        tensors=(KN, GATES, STEPS, out),
        grid=(p.axis("c", "NC", c), p.axis("hv", "HV")),
    )


def _inverse(lower: Value, inverse: Value) -> tuple[tile.Stmt, ...]:
    return (Inverse(value=inverse, source=p.read(lower), text="U", span=p.SPAN),)


def _by_rows(lower: Value, inverse: Value) -> tuple[tile.Stmt, ...]:
    """X starts as the identity; step m takes L[i, m] X[m, :] from every row i > m."""
    current = p.value("X", ROW, COL)
    same = p.binary(p.letter(ROW), "==", p.letter(COL))
    statements: list[tile.Stmt] = [p.map_(current, p.select(same, p.const(1.0), p.const(0.0)))]
    for m in range(C - 1):
        below = p.binary(p.letter(ROW), ">", p.integer(m))
        step = p.product(p.read(lower, ROW, m), p.read(current, m, COL))
        following = inverse if m == C - 2 else p.value(f"X_{m}", ROW, COL)
        difference = p.binary(p.read(current), "-", step)
        statements.append(p.map_(following, p.select(below, difference, p.read(current))))
        current = following
    return tuple(statements)


def fwd_h() -> tile.Program:
    n = p.window("n", WindowKind.SEQUENCE)
    c = p.window("c", WindowKind.CHUNK, C, parent="n")
    vb = p.window("vb", WindowKind.BLOCK, VB)
    v = p.tensor("v", "T", "HV", V, dtype=p.BF16)
    a = p.tensor("A", "T", "HV", C, dtype=p.BF16)
    h0 = p.tensor("h0", "N", "HV", V, K, optional=True)
    h = p.tensor("h", "NC", "HV", V, K, dtype=p.BF16, access="out")
    v_new = p.tensor("v_new", "NC", "HV", V, C, dtype=p.BF16, access="out")
    ht = p.tensor("ht", "N", "HV", V, K, access="out", optional=True)
    columns = p.within(vb, p.letter(B))
    zero, given, start = p.value("S", B, D), p.value("S_2", B, D), p.value("S_3", B, D)
    inner, seed, update, final = (p.value(f"S_{m}", B, D) for m in (4, 5, 6, 7))
    state = (p.coordinate("n"), HEAD, columns, p.letter(D))
    from_h0 = If(
        cond=Given(tensor=h0, span=p.SPAN),
        then=(p.load(given, h0, *state),),
        orelse=(),
        merges=(Merge(then=given, orelse=zero, result=start),),
        text="if given(h0)",
        span=p.SPAN,
    )
    loop = ForWindow(
        window=c,
        carried=(Carry(init=start, inner=inner, update=update, result=final),),
        body=_scan_body(c, v, a, h, v_new, columns, inner, seed, update),
        text="for c in chunks(n)",
        span=p.SPAN,
    )
    to_ht = If(
        cond=Given(tensor=ht, span=p.SPAN),
        then=(p.store(ht, final, *state),),
        orelse=(),
        merges=(),
        text="if given(ht)",
        span=p.SPAN,
    )
    return p.program(
        p.map_(zero, p.const(0.0)),
        from_h0,
        loop,
        to_ht,
        tensors=(KN, v, a, GATES, STEPS, h0, h, v_new, ht),
        grid=(p.axis("n", "N", n), p.axis("hv", "HV"), p.axis("vb", V // VB, vb)),
    )


def _scan_body(
    c: tile.Window,
    v: tile.Tensor,
    a: tile.Tensor,
    h: tile.Tensor,
    v_new: tile.Tensor,
    columns: tile.Coord,
    inner: Value,
    seed: Value,
    update: Value,
) -> tuple[tile.Stmt, ...]:
    kc, vc, ac, sb = bf16("kc", ROW, D), bf16("vc", ROW, B), bf16("Ac", COL, ROW), bf16("Sb", B, D)
    x_mm, x, vn = p.value("x_mm", B, ROW), bf16("x", B, ROW), p.value("vn", B, COL)
    vnb, rhs = bf16("vnb", B, COL), bf16("S_lhs", B, COL)
    tokens = p.within(c, p.letter(ROW))
    last = p.read(G, C - 1)
    remaining = p.call("exp2", p.binary(last, "-", p.read(G, COL)))
    decayed = p.product(p.call("exp2", p.read(G)), p.read(x_mm))
    alone = p.product(p.read(S), p.binary(f32(p.read(vc, ROW, B)), "-", decayed))
    return (
        p.load(kc, KN, tokens, KEY_HEAD, p.letter(D)),
        p.load(vc, v, tokens, HEAD, columns),
        p.load(ac, a, p.within(c, p.letter(COL)), HEAD, p.letter(ROW)),
        by_chunk(G, GATES),
        by_chunk(S, STEPS),
        p.map_(sb, p.cast(p.read(inner), p.BF16)),
        p.store(h, sb, p.coordinate("c"), HEAD, columns, p.letter(D)),
        p.contract(x_mm, p.read(sb), p.read(kc), D),
        p.map_(x, p.cast(alone, p.BF16)),
        p.contract(vn, p.read(x), p.read(ac), ROW),
        p.map_(vnb, p.cast(p.read(vn), p.BF16)),
        p.store(v_new, vnb, p.coordinate("c"), HEAD, columns, p.letter(COL)),
        p.map_(seed, p.product(p.call("exp2", last), p.read(inner))),
        p.map_(rhs, p.cast(p.product(remaining, p.read(vn)), p.BF16)),
        p.contract(update, p.read(rhs), p.read(kc, COL, D), COL, seed=p.read(seed)),
    )
