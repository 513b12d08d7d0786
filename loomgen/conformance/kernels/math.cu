#include "loom/loom.cuh"

// One function of math.cuh a kernel, element by element: 256 threads, 16 elements a thread, 4096 a block.

using namespace loom;

/// y[i] = function(x[i], ...)
template <typename Function, typename Y, typename... X>
LOOM_DEVICE void each(Function function, Y* y, const X*... x) {
    for (int step = 0; step < 16; ++step) {
        const int64_t i = (block_index() * 16 + step) * 256 + thread_index();
        st_global(y + i, function(ld_global(x + i)...));
    }
}

LOOM_KERNEL(256, 1) math_exp2_approx(const float* x, float* y) {
    each([](float v) { return exp2_approx(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_exp_approx(const float* x, float* y) {
    each([](float v) { return exp_approx(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_lg2_approx(const float* x, float* y) {
    each([](float v) { return lg2_approx(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_log_approx(const float* x, float* y) {
    each([](float v) { return log_approx(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_rsqrt_approx(const float* x, float* y) {
    each([](float v) { return rsqrt_approx(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_sqrt_rn(const float* x, float* y) {
    each([](float v) { return sqrt_rn(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_abs_f32(const float* x, float* y) {
    each([](float v) { return abs_f32(v); }, y, x);
}

LOOM_KERNEL(256, 1) math_div_rn(const float* a, const float* b, float* y) {
    each([](float p, float q) { return div_rn(p, q); }, y, a, b);
}
LOOM_KERNEL(256, 1) math_min_f32(const float* a, const float* b, float* y) {
    each([](float p, float q) { return min_f32(p, q); }, y, a, b);
}
LOOM_KERNEL(256, 1) math_max_f32(const float* a, const float* b, float* y) {
    each([](float p, float q) { return max_f32(p, q); }, y, a, b);
}
LOOM_KERNEL(256, 1) math_fma_rn(const float* a, const float* b, const float* c, float* y) {
    each([](float p, float q, float r) { return fma_rn(p, q, r); }, y, a, b, c);
}

// What the kernels write with operators: each rounds by itself.
LOOM_KERNEL(256, 1) math_add(const float* a, const float* b, float* y) {
    each([](float p, float q) { return p + q; }, y, a, b);
}
LOOM_KERNEL(256, 1) math_subtract(const float* a, const float* b, float* y) {
    each([](float p, float q) { return p - q; }, y, a, b);
}
LOOM_KERNEL(256, 1) math_multiply(const float* a, const float* b, float* y) {
    each([](float p, float q) { return p * q; }, y, a, b);
}
LOOM_KERNEL(256, 1) math_multiply_add(const float* a, const float* b, const float* c, float* y) {
    each([](float p, float q, float r) { return p * q + r; }, y, a, b, c);
}

LOOM_KERNEL(256, 1) math_to_bits(const float* x, uint32_t* y) {
    each([](float v) { return to_bits(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_from_bits(const uint32_t* x, float* y) {
    each([](uint32_t v) { return from_bits(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_to_bf16(const float* x, bf16* y) {
    each([](float v) { return to_bf16(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_to_f16(const float* x, f16* y) {
    each([](float v) { return to_f16(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_to_tf32(const float* x, uint32_t* y) {
    each([](float v) { return to_tf32(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_bf16_to_f32(const bf16* x, float* y) {
    each([](bf16 v) { return to_f32(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_f16_to_f32(const f16* x, float* y) {
    each([](f16 v) { return to_f32(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_pack_bf16(const float* lo, const float* hi, uint32_t* y) {
    each([](float p, float q) { return pack_bf16(p, q); }, y, lo, hi);
}
LOOM_KERNEL(256, 1) math_pack_f16(const float* lo, const float* hi, uint32_t* y) {
    each([](float p, float q) { return pack_f16(p, q); }, y, lo, hi);
}
LOOM_KERNEL(256, 1) math_lo_bf16(const uint32_t* x, float* y) {
    each([](uint32_t v) { return lo_bf16(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_hi_bf16(const uint32_t* x, float* y) {
    each([](uint32_t v) { return hi_bf16(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_lo_f16(const uint32_t* x, float* y) {
    each([](uint32_t v) { return lo_f16(v); }, y, x);
}
LOOM_KERNEL(256, 1) math_hi_f16(const uint32_t* x, float* y) {
    each([](uint32_t v) { return hi_f16(v); }, y, x);
}

LOOM_KERNEL(256, 1) types_bit_cast(const f32x2* x, uint64_t* y) {
    each([](f32x2 v) { return bit_cast<uint64_t>(v); }, y, x);
}
