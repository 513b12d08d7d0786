// Every kernel in one translation unit.

#include "copy.cu"
#include "kernel.cu"
#include "layout.cu"
#include "linalg.cu"
#include "math.cu"
#include "mbarrier.cu"
#include "mma.cu"
#include "panel.cu"
#include "shuffle.cu"
#include "sync.cu"
#include "tma.cu"
#include "wgmma.cu"
