#pragma once
// The asynchronous primitives: copies and products that go on beside the threads, and what they are waited for with.
// wgmma.cuh is for sm_90a alone, the others for sm_90 and later.

#include "loom/mbarrier.cuh"
#include "loom/panel.cuh"
#include "loom/tma.cuh"
#include "loom/wgmma.cuh"
