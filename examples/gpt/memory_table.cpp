#include "memory_table.hpp"

#include <cstdint>
#include <cstdio>
#include <fstream>

namespace gpt {
namespace {

std::string line(const char* item, std::size_t planned, std::size_t allocated) {
    if (planned == 0 && allocated == 0)
        return {};
    char text[96];
    std::snprintf(text, sizeof text, "  %-12s %10s planned %10s allocated\n", item,
                  in_bytes(planned).c_str(), in_bytes(allocated).c_str());
    return text;
}

}  // namespace

std::string in_bytes(std::size_t bytes) {
    double value = static_cast<double>(bytes) / 1e3;
    const char* unit = "kB";
    for (const char* larger : {"MB", "GB"}) {
        if (value < 1000)
            break;
        value /= 1000;
        unit = larger;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %s", value, unit);
    return text;
}

std::string memory_table(const autolaunch::fsdp::MemoryPlan& planned,
                         const autolaunch::fsdp::ModelMemory& allocated,
                         const ActivationMemory& activations,
                         autolaunch::fsdp::ShardingStrategy strategy) {
    const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    const std::int64_t gradients = planned.gradients + planned.reduce_slots +
                                   planned.unsynced_gradients + planned.gradient_trees +
                                   planned.gradient_exchange;
    return "memory of a rank\n" +
           line("parameters", bytes(planned.parameters), allocated.parameters) +
           line("masters", bytes(planned.masters), allocated.masters) +
           line("gather slots", bytes(planned.gather_slots), allocated.gathered) +
           line("gradients", bytes(gradients), allocated.gradients + allocated.whole_gradients) +
           line("optimizer", bytes(planned.optimizer), allocated.optimizer) +
           line("activations", activations.planned, activations.allocated) +
           line("in all", bytes(planned.total()) + activations.planned,
                allocated.total() + activations.allocated) +
           line("on the host", bytes(planned.on_host), allocated.on_host) + "  mostly       " +
           autolaunch::fsdp::what_dominates(planned, strategy) + "\n" + "  resident     " +
           in_bytes(resident_bytes()) + " (Pss), with the program, its text and communicators\n";
}

std::size_t resident_bytes() {
    std::ifstream file("/proc/self/smaps_rollup");
    std::string word;
    std::size_t kibibytes = 0;
    while (file >> word)
        if (word == "Pss:" && file >> kibibytes)
            return kibibytes * 1024;
    return 0;
}

}  // namespace gpt
