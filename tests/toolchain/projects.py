"""A project folder with one hand-written kernel, for tests that compile."""

from __future__ import annotations

from pathlib import Path

from loomgen.registry import (
    Constraints,
    KernelEntry,
    LaunchEntry,
    Registry,
    SourceEntry,
    SpecEntry,
    canonical_json,
    registry_path,
)
from loomgen.target import TARGETS

NAME = "reverse__c128_f32__base"

SOURCE = f"""\
#include "loom/loom.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK, 2) {NAME}(float* x, float scale) {{
    __shared__ float buffer[BLOCK];
    buffer[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = scale * buffer[BLOCK - 1 - threadIdx.x];
}}
"""

SPILLING = f"""\
#include "loom/loom.cuh"

extern "C" __global__ void __launch_bounds__(1024, 2) {NAME}(float* p, const int* q) {{
    float r[80];
#pragma unroll
    for (int i = 0; i < 80; i++) r[i] = p[threadIdx.x + i * 1024];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 80; i++) p[q[i] + threadIdx.x] = r[i] * r[79 - i];
}}
"""

HEADER = "#pragma once\n#define BLOCK 128\n"
SOURCE_PATH = f"generated/csrc/sm_90a/test/{NAME}.cu"
HEADER_PATH = "generated/include/loom/loom.cuh"


def registry(arch: str) -> Registry:
    entry = KernelEntry(
        name=NAME,
        stage="reverse",
        signature="c128_f32",
        variant="base",
        instantiation=None,
        family="test",
        symbol=NAME,
        source=SourceEntry(path=SOURCE_PATH, sha256="0" * 64),
        spec=SpecEntry(path="specs/test/reverse.yaml", digest="0" * 64),
        arguments=(),
        launch=LaunchEntry(threads=128, min_blocks=2, grid=(1,), dynamic_shared_bytes=0),
        scan=None,
        constraints=Constraints(dims={}, multiples=()),
    )
    return Registry(schema_version="1.0", arch=arch, kernels=(entry,))


def write_project(root: Path, source: str = SOURCE) -> Path:
    """The files of the project, with a registry for every target; returns ``root``."""
    files = {SOURCE_PATH: source.encode(), HEADER_PATH: HEADER.encode()}
    for target in TARGETS:
        files[registry_path(target.name)] = canonical_json(registry(target.name).model_dump(mode="json"))
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root
