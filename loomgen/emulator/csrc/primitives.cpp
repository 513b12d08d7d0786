// The host bodies' side of the emulator: memory, copies, barriers.

#include "loom/host/runtime.hpp"
#include "machine.hpp"
#include "text.hpp"

namespace loom::host {

using emulator::Copy;
using emulator::FaultKind;
using emulator::machine;
using emulator::Machine;
using emulator::Primitive;
using emulator::Site;

int thread_index() {
    return machine().thread();
}

int64_t block_index() {
    return machine().block();
}

void outside_tile(int row, int col, int rows, int cols, int line) {
    emulator::raise(FaultKind::kOutOfBounds, Site{machine().thread(), line},
                    emulator::text("element (%d, %d) of a tile of %d x %d", row, col, rows, cols));
}

void load_global(const void* source, void* value, int bytes, int line) {
    Machine& m = machine();
    m.count(Primitive::kLoadGlobal, line);
    m.global().load(source, value, bytes, Site{m.thread(), line});
}

void store_global(void* target, const void* value, int bytes, int line) {
    Machine& m = machine();
    m.count(Primitive::kStoreGlobal, line);
    m.global().store(target, value, bytes, Site{m.thread(), line});
}

void load_shared(Place source, void* value, int bytes, int line) {
    Machine& m = machine();
    m.count(Primitive::kLoadShared, line);
    m.record_banks(source.bytes, bytes, line);
    m.shared().load(source, value, bytes, Site{m.thread(), line});
}

void store_shared(Place target, const void* value, int bytes, int line) {
    Machine& m = machine();
    m.count(Primitive::kStoreShared, line);
    m.record_banks(target.bytes, bytes, line);
    m.shared().store(target, value, bytes, Site{m.thread(), line});
}

void copy_async(Place target, const void* source, int bytes, bool valid, int line) {
    Machine& m = machine();
    m.count(bytes == 16 ? Primitive::kCopyAsync16 : Primitive::kCopyAsync4, line);
    m.copy_async(Copy{target, valid ? source : nullptr, bytes, false}, line);
}

void copy_commit(int line) {
    machine().copy_commit(line);
}

void copy_wait(int pending_groups, int line) {
    machine().copy_wait(pending_groups, line);
}

void sync_warp(int line) {
    machine().sync_warp(line);
}

void sync_block(int line) {
    machine().sync_block(line);
}

void sync_named(int id, int threads, int line) {
    machine().sync_named(id, threads, line);
}

}  // namespace loom::host
