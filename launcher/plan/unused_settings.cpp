#include "plan/unused_settings.hpp"

namespace autolaunch::launcher {

namespace {

struct Setting {
    const char* key;
    bool (*given)(const JobSpec& spec);
};

constexpr Setting kUnused[] = {
    {"resource_management.memory_per_gpu",
     [](const JobSpec& s) { return s.resources.memory_per_gpu_bytes && !s.model_size.parameters; }},
    {"monitoring.slurm_integration",
     [](const JobSpec& s) { return s.monitoring.slurm_integration; }},
    {"monitoring.resource_tracking",
     [](const JobSpec& s) { return s.monitoring.resource_tracking; }},
};

}  // namespace

std::vector<std::string> unused_settings(const JobSpec& spec) {
    std::vector<std::string> keys;
    for (const Setting& setting : kUnused)
        if (setting.given(spec))
            keys.emplace_back(setting.key);
    return keys;
}

}  // namespace autolaunch::launcher
