#pragma once
// Warpgroup-wide matrix instructions of sm_90a, one a function, and the registers a warpgroup holds. Accumulators are
// [column block of 8][register].

#include "loom/types.cuh"

// The accumulators of a product as operands: 4, 32, 64 or 128 of them from block `j` on.
#define LOOM_ACC_4(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define LOOM_ACC_16(j) LOOM_ACC_4(j), LOOM_ACC_4(j + 1), LOOM_ACC_4(j + 2), LOOM_ACC_4(j + 3)
#define LOOM_ACC_32(j) LOOM_ACC_16(j), LOOM_ACC_16(j + 4)
#define LOOM_ACC_64(j) LOOM_ACC_32(j), LOOM_ACC_32(j + 8)
#define LOOM_ACC_128(j) LOOM_ACC_64(j), LOOM_ACC_64(j + 16)
#define LOOM_NAMES_32                                                      \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
    ", "                                                                   \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LOOM_NAMES_64                                                                \
    LOOM_NAMES_32                                                                    \
    ", "                                                                             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    ", "                                                                             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LOOM_NAMES_128                                                                           \
    LOOM_NAMES_64                                                                                \
    ", "                                                                                         \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"             \
    ", "                                                                                         \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"             \
    ", "                                                                                         \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
    ", "                                                                                         \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

namespace loom::ptx {

LOOM_DEVICE void wgmma_m64n64k16_bf16(float (&c)[8][4], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LOOM_NAMES_32 "}, %32, %33, 1, 1, 1, 0, 0;"
                 : LOOM_ACC_32(0)
                 : "l"(a), "l"(b));
}

LOOM_DEVICE void wgmma_m64n64k16_f16(float (&c)[8][4], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" LOOM_NAMES_32 "}, %32, %33, 1, 1, 1, 0, 0;"
                 : LOOM_ACC_32(0)
                 : "l"(a), "l"(b));
}

LOOM_DEVICE void wgmma_m64n128k16_bf16(float (&c)[16][4], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" LOOM_NAMES_64 "}, %64, %65, 1, 1, 1, 0, 0;"
                 : LOOM_ACC_64(0)
                 : "l"(a), "l"(b));
}

LOOM_DEVICE void wgmma_m64n128k16_f16(float (&c)[16][4], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" LOOM_NAMES_64 "}, %64, %65, 1, 1, 1, 0, 0;"
                 : LOOM_ACC_64(0)
                 : "l"(a), "l"(b));
}

LOOM_DEVICE void wgmma_m64n256k16_bf16(float (&c)[32][4], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" LOOM_NAMES_128
                 "}, %128, %129, 1, 1, 1, 0, 0;"
                 : LOOM_ACC_128(0)
                 : "l"(a), "l"(b));
}

LOOM_DEVICE void wgmma_m64n256k16_f16(float (&c)[32][4], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" LOOM_NAMES_128 "}, %128, %129, 1, 1, 1, 0, 0;"
                 : LOOM_ACC_128(0)
                 : "l"(a), "l"(b));
}

LOOM_DEVICE void wgmma_fence_sync() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

LOOM_DEVICE void wgmma_commit_group() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int N>
LOOM_DEVICE void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/// No instruction: the compiler takes the registers to be written here.
LOOM_DEVICE void settle(float (&c)[4]) {
    asm volatile("" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])::"memory");
}

template <int N>
LOOM_DEVICE void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N>
LOOM_DEVICE void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

}  // namespace loom::ptx

#undef LOOM_ACC_4
#undef LOOM_ACC_16
#undef LOOM_ACC_32
#undef LOOM_ACC_64
#undef LOOM_ACC_128
#undef LOOM_NAMES_32
#undef LOOM_NAMES_64
#undef LOOM_NAMES_128
