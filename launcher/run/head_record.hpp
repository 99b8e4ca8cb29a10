#pragma once
#include "plan/launch_plan.hpp"
#include "rendezvous/join.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Where the head of a running job is found: RUN_DIR/head.json, mode 0600. No secret is in it.
struct HeadRecord {
    std::string run_id;
    std::string hostname;            ///< the head's machine, as it calls itself
    std::string door;                ///< a Unix socket there
    std::string identity;            ///< the job's; empty with one node
    std::vector<std::string> hosts;  ///< names and addresses of the head
    std::vector<std::uint16_t> ports;
    std::string shared_directory;  ///< where the key file is, where the key comes from one
    std::string secret_file;       ///< rendezvous.secret_file
    std::chrono::milliseconds lost_after{};  ///< the head's: who says nothing for so long is lost
};

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
