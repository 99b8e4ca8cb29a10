#pragma once
#include "remains/exit_certificate.hpp"

#include "base/deadline.hpp"

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// "autolaunch-1000-Ab3xYz" of "AUTOLAUNCH_SOCKET=/dev/shm/autolaunch-1000-Ab3xYz/session-0" among
/// the variables of a process, each ended by a zero: the folder of its job. Empty: it has none.
/// Pure.
std::string folder_in_environment(std::string_view environment);

/// This user's processes by the folder of the job that they were started in: what a rank started
/// inherits the rank's variables, whatever it is called and whoever adopted it.
std::map<std::string, std::vector<pid_t>> processes_by_folder(const std::set<std::string>& folders);

/// Why a process stays that this one descends from: no fault of the node.
inline constexpr char kRunsBelow[] = "this command runs below it";

/// Ends with SIGKILL the processes of these folders, which nobody holds, until none is left or the
/// deadline passes. Each is looked at again once nothing can take its number. Not this process, nor
/// one that it descends from. What was ended, and what was not, by folder.
struct EndedProcesses {
    std::map<std::string, std::vector<Remnant>> ended, left;
};
EndedProcesses end_processes_of(const std::set<std::string>& folders, Deadline deadline);

}  // namespace autolaunch::launcher
