"""Words that generated code cannot have as names of its variables: C++'s, and those of the device primitives."""

from __future__ import annotations

_LANGUAGE = """
BUFSIZ CHAR_BIT EOF HUGE_VAL INFINITY LONG_BIT MAXFLOAT NAME_MAX NAN NULL NZERO PATH_MAX RAND_MAX SNAN WORD_BIT
alignas alignof alloca and and_eq asm assert atomic auto bitand bitor blockDim blockIdx bool break case catch char
class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
default delete do double dynamic_cast else enum errno explicit export extern false float for friend goto gridDim if
inline int int16_t int32_t int64_t int8_t issubnormal long math_errhandling mutable namespace new noexcept not
not_eq nullptr offsetof operator or or_eq private protected ptrdiff_t public register reinterpret_cast requires
return short signed size_t sizeof static static_assert static_cast std stderr stdin stdout struct switch template
this threadIdx thread_local throw true try typedef typeid typename uint16_t uint32_t uint64_t uint8_t uintptr_t
union unsigned using virtual void volatile warpSize wchar_t while xor xor_eq
"""
"""Keywords, integer types, what CUDA declares in every kernel, and macros of the standard headers."""

_PRIMITIVES = """
BarrierRing LOOM_ACC_128 LOOM_ACC_16 LOOM_ACC_32 LOOM_ACC_4 LOOM_ACC_64 LOOM_DEVICE LOOM_HERE LOOM_KERNEL
LOOM_NAMES_128 LOOM_NAMES_32 LOOM_NAMES_64 LOOM_ONLY_HERE LOOM_ONLY_PASS LOOM_PASS LOOM_TENSOR_MAP LOOM_UNROLL
PanelTile SharedAddr SharedTile TensorMap abs_f32 bar_sync bf16 bit_cast block_index claim_registers cp_async_16
cp_async_4 cp_async_bulk_commit_group cp_async_bulk_tensor_2d_load cp_async_bulk_tensor_2d_store
cp_async_bulk_wait_group_read cp_async_ca_4 cp_async_ca_4_zfill cp_async_cg_16 cp_async_cg_16_zfill cp_async_commit
cp_async_commit_group cp_async_wait cp_async_wait_group cvt_f32_f16 cvt_rn_bf16_f32 cvt_rn_bf16x2_f32 cvt_rn_f16_f32
cvt_rn_f16x2_f32 cvt_rna_tf32_f32 div_rn div_rn_f32 ex2_approx_ftz_f32 exp2_approx exp_approx f16 f32x2 f32x4
fence_mbarrier_init fence_proxy_async fence_proxy_async_shared fma_rn fma_rn_f32 from_bits hi_bf16 hi_f16 host
invert_unit_lower_16 is_box is_same lane_index layout_tag ld_global ld_global_b16 ld_global_b32 ld_global_b64
ld_global_b8 ld_global_v4_b32 ld_shared ld_shared_b16 ld_shared_b32 ld_shared_b64 ld_shared_b8 ld_shared_v4_b32
ldmatrix_x2 ldmatrix_x2_b16 ldmatrix_x2_trans ldmatrix_x2_trans_b16 ldmatrix_x4 ldmatrix_x4_b16 ldmatrix_x4_trans
ldmatrix_x4_trans_b16 lg2_approx lg2_approx_f32 lo_bf16 lo_f16 log_approx loom max_f32 mbarrier_arrive
mbarrier_arrive_expect_tx mbarrier_expect_bytes mbarrier_init mbarrier_init_fence mbarrier_try_wait_parity
mbarrier_wait min_f32 mma_m16n8k16_bf16 mma_m16n8k16_f16 mma_m16n8k8_tf32 mov_b32_f32 mov_f32_b32 operand_layout
pack_bf16 pack_f16 release_registers rsqrt_approx rsqrt_approx_f32 setmaxnreg_dec setmaxnreg_inc settle
shared_memory shuffle shuffle_up shuffle_xor sqrt_rn sqrt_rn_f32 st_global st_global_b16 st_global_b32 st_global_b64
st_global_b8 st_global_v4_b32 st_shared st_shared_b16 st_shared_b32 st_shared_b64 st_shared_b8 st_shared_v4_b32
stmatrix_x2 stmatrix_x2_b16 stmatrix_x2_trans stmatrix_x2_trans_b16 stmatrix_x4 stmatrix_x4_b16 stmatrix_x4_trans
stmatrix_x4_trans_b16 swizzle_period swizzle_shift sync_block sync_named sync_warp thread_index tma_load tma_store
tma_store_commit tma_store_wait to_bf16 to_bits to_f16 to_f32 to_tf32 u32x2 u32x4 warp_index wgmma_commit
wgmma_commit_group wgmma_fence wgmma_fence_sync wgmma_m64k16 wgmma_m64n128k16_bf16 wgmma_m64n128k16_f16
wgmma_m64n256k16_bf16 wgmma_m64n256k16_f16 wgmma_m64n64k16_bf16 wgmma_m64n64k16_f16 wgmma_operand wgmma_wait
wgmma_wait_group
"""
"""What `loomgen/include/loom` declares."""

CXX_WORDS = frozenset(f"{_LANGUAGE} {_PRIMITIVES}".split())


def code_name(text: str) -> str:
    """What generated code calls a name of a stage; the language has no names that end in an underscore."""
    return f"{text}_" if text in CXX_WORDS else text
