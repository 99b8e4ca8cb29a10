#pragma once
#include "stopping/slurm_job_record.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Nodes that a requeued job is not to get again.
struct Exclusion {
    std::string list;  ///< for ExcNodeList, what is there already included; empty: none
    std::vector<std::string> lines;  ///< for the screen: who is excluded, who not, and why
};

/// Which of the `unfit` (by name, with the reason) Slurm is to be told: not so many that it could
/// never start the job (it would wait for ever, with BadConstraints), and none that the user asked
/// for by name. `partition` is what `scontrol show partition -o` prints. Pure.
Exclusion choose_exclusion(const std::map<std::string, std::string>& unfit,
                           const SlurmJobRecord& record, std::string_view partition);

/// `scontrol update JobId=NAME ExcNodeList=LIST`, which Slurm takes while the job waits, not while
/// it runs.
std::vector<std::string> exclusion_command(const std::string& name, const std::string& list);

}  // namespace autolaunch::launcher
