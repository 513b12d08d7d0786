#include "launch.hpp"

#include <cstdio>
#include <cstring>
#include <vector>

#include "loom/tma.cuh"

#include "machine.hpp"

namespace loom::emulator {

namespace {

static_assert(sizeof(LoomLine::calls) / sizeof(int64_t) == kPrimitives, "LoomLine has room for every primitive");

std::vector<Tensor> tensors_of(const LoomLaunch& launch) {
    std::vector<Tensor> tensors;
    for (int i = 0; i < launch.n_tensors; ++i) {
        const LoomTensor& t = launch.tensors[i];
        tensors.push_back(Tensor{t.name, t.contents, t.bytes, static_cast<Access>(t.access)});
    }
    return tensors;
}

std::vector<BoxMap> maps_of(const LoomLaunch& launch) {
    std::vector<BoxMap> maps;
    for (int i = 0; i < launch.n_maps; ++i) {
        const LoomMap& m = launch.maps[i];
        maps.push_back(BoxMap{m.tensor, m.element_bytes, m.rows, m.cols, m.box_rows, m.box_cols, m.swizzle});
    }
    return maps;
}

/// What the kernel gets for each map: its number, where a device has the encoded map.
std::vector<TensorMap> numbered_maps(int32_t n_maps) {
    std::vector<TensorMap> maps(static_cast<size_t>(n_maps));
    for (int32_t i = 0; i < n_maps; ++i)
        std::memcpy(maps[i].opaque, &i, sizeof i);
    return maps;
}

void report_fault(const Fault& from, LoomFault& to) {
    to.kind = static_cast<int32_t>(from.kind);
    to.thread = from.thread;
    to.block = from.block;
    to.line = from.line;
    std::snprintf(to.message, sizeof to.message, "%s", from.message.c_str());
}

bool is_used(const LineStatistics& line) {
    int64_t all = line.accesses;
    for (int64_t calls : line.calls)
        all += calls;
    return all > 0;
}

LoomLine* report_lines(const Statistics& statistics, int64_t& n_lines) {
    std::vector<LoomLine> used;
    for (size_t i = 0; i < statistics.lines().size(); ++i) {
        const LineStatistics& from = statistics.lines()[i];
        if (!is_used(from)) continue;
        LoomLine to{static_cast<int32_t>(i), from.accesses, from.conflicts, {}};
        std::copy(from.calls.begin(), from.calls.end(), to.calls);
        used.push_back(to);
    }
    n_lines = static_cast<int64_t>(used.size());
    auto* lines = new LoomLine[used.size()];
    std::copy(used.begin(), used.end(), lines);
    return lines;
}

}  // namespace

}  // namespace loom::emulator

LoomLine* loom_launch(const LoomLaunch* launch, LoomFault* fault, int64_t* unwritten, int64_t* n_lines) {
    using namespace loom::emulator;
    std::vector<int64_t> values(launch->parameters, launch->parameters + launch->n_parameters);
    std::vector<const void*> arguments;
    for (const int64_t& value : values)
        arguments.push_back(&value);
    const Options options{launch->seed, static_cast<Completion>(launch->completion), launch->disabled_line};
    Machine machine(launch->invoke, arguments, tensors_of(*launch), maps_of(*launch), launch->block,
                    static_cast<uint32_t>(launch->shared_bytes), options);
    for (int i = 0; i < launch->n_tensors; ++i) {
        const int32_t parameter = launch->tensors[i].parameter;
        if (parameter >= 0) values[parameter] = reinterpret_cast<int64_t>(machine.global().address(i));
    }
    const std::vector<loom::TensorMap> maps = numbered_maps(launch->n_maps);
    for (int i = 0; i < launch->n_maps; ++i)
        values[launch->maps[i].parameter] = reinterpret_cast<int64_t>(&maps[i]);
    set_machine(&machine);
    const bool ended_well = machine.run(launch->grid);
    set_machine(nullptr);
    report_fault(machine.fault(), *fault);
    for (int i = 0; i < launch->n_tensors; ++i)
        unwritten[i] = machine.global().unwritten(i);
    if (ended_well) machine.global().copy_back();
    return report_lines(machine.statistics(), *n_lines);
}

void loom_free(LoomLine* lines) {
    delete[] lines;
}

const char* loom_primitive(int32_t primitive) {
    using namespace loom::emulator;
    return primitive < kPrimitives ? name_of(static_cast<Primitive>(primitive)) : nullptr;
}
