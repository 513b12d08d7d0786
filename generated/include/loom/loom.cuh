#pragma once
// Every primitive. A kernel includes this header and touches memory through it alone.

#include "loom/copy.cuh"
#include "loom/kernel.cuh"
#include "loom/layout.cuh"
#include "loom/linalg.cuh"
#include "loom/math.cuh"
#include "loom/mma.cuh"
#include "loom/shuffle.cuh"
#include "loom/sync.cuh"
#include "loom/types.cuh"
