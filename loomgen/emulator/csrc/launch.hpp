#pragma once
// The C interface to the driver; loomgen/emulator/abi.py mirrors it.

#include <cstdint>

extern "C" {

struct LoomTensor {
    const char* name;
    void* contents;
    int64_t bytes;
    int32_t access;     // emulator::Access
    int32_t parameter;  // the number of the kernel's parameter that points to it; -1: none does
};

/// A tensor map: tensor `tensor` as `rows` x `cols` elements, and the boxes that it is copied by.
struct LoomMap {
    int32_t tensor;
    int32_t parameter;  // the number of the kernel's parameter that is the map
    int64_t rows;
    int64_t cols;
    int32_t element_bytes;
    int32_t box_rows;
    int32_t box_cols;
    int32_t swizzle;
};

/// Provided for each kernel beside it: calls the kernel with its parameters.
using LoomInvoke = void (*)(const void* const* parameters);

struct LoomLaunch {
    LoomInvoke invoke;
    const LoomTensor* tensors;
    int32_t n_tensors;
    int32_t n_maps;
    const LoomMap* maps;
    int32_t n_parameters;
    const int64_t* parameters;  // the bits of scalar parameters, from the lowest byte; 0 for pointers and maps
    int64_t grid;
    int32_t block;
    int32_t shared_bytes;
    uint64_t seed;
    int32_t completion;     // emulator::Completion
    int32_t disabled_line;  // -1: none
};

struct LoomFault {
    int32_t kind;  // emulator::FaultKind; 0: the launch ended well
    int32_t thread;
    int64_t block;
    int32_t line;
    char message[1024];
};

struct LoomLine {
    int32_t line;
    int64_t accesses;
    int64_t conflicts;
    int64_t calls[31];  // by emulator::Primitive
};

/// Runs the kernel. `unwritten` gets a count of bytes for each tensor. Returns the lines with a count, to be freed by
/// loom_free, and their number in `n_lines`.
LoomLine* loom_launch(const LoomLaunch* launch, LoomFault* fault, int64_t* unwritten, int64_t* n_lines);
void loom_free(LoomLine* lines);
/// The name of a primitive; null past the last.
const char* loom_primitive(int32_t primitive);
}
