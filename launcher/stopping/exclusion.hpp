#pragma once
#include "stopping/slurm_job_record.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Nodes that a requeued job is not to get again.
struct Exclusion {
    std::string list;            ///< for ExcNodeList, what is there already included; empty: none
    std::set<std::string> kept;  ///< that Slurm is not told of
    std::vector<std::string> lines;  ///< for the screen: who is excluded, who not, and why
};

/// Which of the `unfit` (by name, with the reason) Slurm is to be told: not so many that it could
/// never start the job (it would wait for ever, with BadConstraints), and none that the user asked
/// for by name. `partition` is what `scontrol show partition -o` prints. Pure.
Exclusion choose_exclusion(const std::map<std::string, std::string>& unfit,
                           const SlurmJobRecord& record, std::string_view partition);

/// A job that is requeued while Slurm has not noticed that one of its nodes is gone waits for that
/// node's word, and is then held for good (Slurm 22.05: Priority=0, Reason=BadConstraints), unless
/// it is not to get the node again. So it gives such nodes back first. What it keeps of its nodes,
/// a host list; empty: none of the `gone` is one of them. The batch script's node always stays: if
/// it is gone itself, Slurm requeues the job, and if only the agent there is, the script goes on.
/// Nodes that are only not wanted any more are none that are gone. Pure.
std::string nodes_to_keep(const SlurmJobRecord& record, const std::set<std::string>& gone);
/// `scontrol update JobId=JOB NodeList=LIST`, without the files in the current folder that scontrol
/// would leave for the job's script.
std::vector<std::string> shrink_command(const std::string& job_id, const std::string& list);

/// `scontrol update JobId=NAME ExcNodeList=LIST`, which Slurm takes while the job waits, not while
/// it runs.
std::vector<std::string> exclusion_command(const std::string& name, const std::string& list);

}  // namespace autolaunch::launcher
