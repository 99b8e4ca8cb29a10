#include "nccl_env/nccl_env.hpp"

#include "nccl_env/footguns.hpp"

namespace autolaunch::launcher {

NcclEnvironment decide_nccl_environment(const NcclInputs& inputs) {
    NcclEnvironment decided;
    if (inputs.topology.gpus.empty()) return decided;
    for (const auto& [name, value] : inputs.found)
        if (name.starts_with("NCCL_")) decided.kept.push_back({name, value, "you set it"});
    if (!inputs.found.contains("NCCL_DEBUG"))
        decided.set.push_back({"NCCL_DEBUG", "WARN", "errors of NCCL are printed, at no cost"});
    decided.warnings = find_nccl_footguns(inputs.topology, inputs.found);
    return decided;
}

}  // namespace autolaunch::launcher
