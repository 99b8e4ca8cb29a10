#pragma once
#include "control/head_record_text.hpp"
#include "plan/launch_plan.hpp"
#include "rendezvous/join.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The head's socket for this machine's programs, in its folder of sockets.
std::string door_of(const std::filesystem::path& sockets);
std::string head_record(const Joined& joined, const JobSpec& spec, const LaunchPlan& plan,
                        const std::filesystem::path& sockets);
/// `job` is a run directory, the name of one in runs/, or the id of a run there. Throws
/// ExitError(66) where there is none, Error{corrupt} for a file that is none of ours.
struct FoundHead {
    HeadRecord record;
    std::string run_dir;
};
FoundHead find_head(const std::string& job);

/// Where the job of that identity has its head, by the newest head.json that is seen here: in the
/// job's run directory, or one of those beside which it would be. Empty: there is none.
std::vector<HostName> hosts_of_head(const JobSpec& spec, const std::string& identity);

}  // namespace autolaunch::launcher
