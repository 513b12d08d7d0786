"""Small kernels and a compiler that prints without compiling, for tests of what surrounds the compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from loomgen.errors import Span
from loomgen.ir.kernel import Argument, ArgumentKind, KernelName, KernelSpec, Launch
from loomgen.ir.schedule import Schedule, Split
from loomgen.ir.tile import (
    Access,
    ArgRead,
    Binary,
    BinaryOp,
    Carry,
    Const,
    ForWindow,
    GridAxis,
    GridRead,
    Map,
    Program,
    Tensor,
    TensorRead,
    TileRead,
    Window,
    WindowKind,
)
from loomgen.ir.types import DType, Value
from loomgen.render import Compiler
from loomgen.target import Target

SPAN = Span(path="specs/gdn/copy.yaml", line=1, col=1, end_col=2)
DIGEST = "ab" * 32
ALL_TARGETS = ("sm_90a", "sm_100a", "sm_103a")

X = Tensor(name="x", dtype=DType.F32, shape=("T", 4), access=Access.IN, strides="contiguous", optional=False, span=SPAN)


def program(stage: str) -> Program:
    """Reads ``x[hv // (HV // H)]``; nothing else matters here."""
    ratio = Binary(op=BinaryOp.FLOORDIV, a=dim("HV"), b=dim("H"), dtype=DType.I32, span=SPAN)
    head = Binary(op=BinaryOp.FLOORDIV, a=GridRead(name="hv", span=SPAN), b=ratio, dtype=DType.I32, span=SPAN)
    read = TensorRead(tensor=X, coords=(head, Const(value=0, dtype=DType.I32, span=SPAN)), span=SPAN)
    value = Value(name="y", dtype=DType.F32, indices=())
    return Program(
        stage=stage,
        dims=(("C", 64), ("VB", 32)),
        runtime_dims=("T", "H", "HV"),
        tensors=(X,),
        scalars=(),
        grid=(GridAxis(name="hv", count="HV", window=None, span=SPAN),),
        indices=(),
        body=(Map(value=value, expr=read, text="y = x[hk,0]", span=SPAN),),
        span=SPAN,
    )


def dim(name: str) -> ArgRead:
    return ArgRead(name=name, dtype=DType.I32, span=SPAN)


def kernel(stage: str = "copy", targets: tuple[str, ...] = ALL_TARGETS) -> KernelSpec:
    return KernelSpec(
        name=KernelName(stage=stage, signature="c64_f32", variant="base"),
        family="gdn",
        program=program(stage),
        schedule=Schedule(),
        spec_path=f"specs/gdn/{stage}.yaml",
        spec_digest=DIGEST,
        targets=targets,
    )


def scan_kernel() -> KernelSpec:
    """A kernel that carries a scalar along the chunks of a sequence, for a block of 32 value rows."""
    sequence = Window(name="n", kind=WindowKind.SEQUENCE, extent=0, parent=None, span=SPAN)
    chunk = Window(name="c", kind=WindowKind.CHUNK, extent=64, parent="n", span=SPAN)
    block = Window(name="vb", kind=WindowKind.BLOCK, extent=32, parent=None, span=SPAN)
    state = [Value(name=name, dtype=DType.F32, indices=()) for name in ("S", "S_2", "S_3", "S_4")]
    step = Map(value=state[2], expr=TileRead(value=state[1], subs=(), span=SPAN), text="S = S", span=SPAN)
    carry = Carry(init=state[0], inner=state[1], update=state[2], result=state[3])
    loop = ForWindow(window=chunk, carried=(carry,), body=(step,), text="for c in chunks(n)", span=SPAN)
    plain = kernel("scan")
    grid = (
        GridAxis(name="n", count="N", window=sequence, span=SPAN),
        GridAxis(name="vb", count=4, window=block, span=SPAN),
    )
    return replace(
        plain,
        program=replace(plain.program, grid=grid, body=(loop,)),
        schedule=Schedule(splits=(Split(index="d", parts=2, across=2),)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeLowered:
    kernel: KernelSpec
    target: Target
    launch: Launch
    arguments: tuple[Argument, ...]


ARGUMENTS = (
    Argument(name="x", kind=ArgumentKind.TENSOR, dtype=DType.F32, shape=("T", 4), access="in"),
    Argument(name="x_stride0", kind=ArgumentKind.STRIDE, dtype=DType.I64, source=("x", 0)),
    Argument(name="HV", kind=ArgumentKind.DIM, dtype=DType.I32),
)
LAUNCH = Launch(threads=128, min_blocks=2, grid=("HV", 4), shared_bytes=1024)


def fake_lower(kernel: KernelSpec, target: Target) -> FakeLowered:
    return FakeLowered(kernel=kernel, target=target, launch=LAUNCH, arguments=ARGUMENTS)


def body(lowered: FakeLowered) -> str:
    """The same text for every target."""
    return f'extern "C" __global__ void {lowered.kernel.name}(const float* x) {{}}'


def fake_compiler(emit_body: Callable[[FakeLowered], str] = body) -> Compiler[FakeLowered]:
    return Compiler(lower=fake_lower, emit_body=emit_body)


HEADERS = {"loom/loom.cuh": b"#pragma once\n"}
