#include "loom/loom.cuh"

using namespace loom;

/// y[i] = f(a[i], b[i], c[i]); f by its number
LOOM_KERNEL(32, 1) arithmetic(const float* a, const float* b, const float* c, uint32_t* y, int n, int f) {
    for (int i = lane_index(); i < n; i += 32) {
        const float p = ld_global(a + i);
        const float q = ld_global(b + i);
        const float r = ld_global(c + i);
        float value = 0.0f;
        if (f == 0) value = exp2_approx(p);
        if (f == 1) value = exp_approx(p);
        if (f == 2) value = log_approx(p);
        if (f == 3) value = rsqrt_approx(p);
        if (f == 4) value = sqrt_rn(p);
        if (f == 5) value = fma_rn(p, q, r);
        if (f == 6) value = div_rn(p, q);
        if (f == 7) value = min_f32(p, q);
        if (f == 8) value = max_f32(p, q);
        if (f == 9) value = abs_f32(p);
        if (f == 10) value = to_f32(to_bf16(p));
        if (f == 11) value = to_f32(to_f16(p));
        if (f == 12) value = from_bits(to_tf32(p));
        if (f == 13) value = lo_bf16(pack_bf16(p, q)) - hi_bf16(pack_bf16(p, q));
        if (f == 14) value = lo_f16(pack_f16(p, q)) - hi_f16(pack_f16(p, q));
        if (f == 15) value = p * q + r;
        st_global(y + i, to_bits(value));
    }
}
