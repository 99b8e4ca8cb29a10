#pragma once
#include "base/unique_fd.hpp"

#include <autolaunch/error.hpp>

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A descriptor besides the standard three that the child gets.
struct InheritedFd {
    int fd = -1;  ///< the caller's
    int as = 3;   ///< its number in the child; at least 3
};

/// What to start, as plain data; spawn knows no plan.
struct ChildSpec {
    std::vector<std::string> argv;  ///< argv[0] without a '/' is looked up in the child's own PATH
    std::vector<std::string> environment;  ///< "NAME=value", complete: nothing is inherited
    std::string workdir;                   ///< empty: the caller's
    std::vector<int> cpus;                 ///< empty: the caller's affinity mask
    std::vector<int> memory_nodes;         ///< preferred NUMA nodes; empty: the caller's policy
    std::optional<rlim_t> file_limit;      ///< soft limit on open files; nothing: the caller's
    int stdin_fd = -1;                     ///< becomes 0, 1, 2 of the child; -1: the caller's
    int stdout_fd = -1;
    int stderr_fd = -1;
    std::optional<InheritedFd> inherited_fd = {};  ///< e.g. what PMI_FD names
    bool deaf = false;  ///< a helper of ours: it starts with ignore_requests(), and we end it
    bool ignores_hangup = false;  ///< it starts with SIGHUP ignored, as under nohup
};

/// The steps of the child before its program runs, in their order.
enum class SpawnStage {
    none,
    clone,
    process_group,
    parent_death,
    standard_streams,
    inherited_fd,
    workdir,
    exec,
    stand_in,  ///< the task that was to start it is gone or does not answer
};

/// A started child: it leads a process group of its own (pgid == pid) and dies with the thread that
/// started it.
struct Child {
    pid_t pid = -1;
    UniqueFd pidfd;
    int affinity_error = 0;       ///< errno of binding the CPUs; 0: bound, or nothing to bind
    int memory_policy_error = 0;  ///< errno of setting the memory policy
};

/// How a child ended: one of the two is there.
struct ChildEnd {
    std::optional<int> exit_code;
    std::optional<int> signal;
    bool core_dumped = false;
    /// Of its process group, when it exited with 0: what still ran, and has SIGKILL.
    std::vector<std::string> left_running = {};
};

/// The program could not be started. what() names it, the step and the reason; hint() what to try.
class SpawnError : public Error {
public:
    SpawnError(SpawnStage stage, int error_number, const std::string& what, std::string hint)
        : Error(ErrorCode::system, what, std::move(hint)),
          stage_(stage),
          error_number_(error_number) {}

    SpawnStage stage() const noexcept { return stage_; }
    int error_number() const noexcept { return error_number_; }

private:
    SpawnStage stage_;
    int error_number_;
};

/// Starts the child; returns once its program runs. It gets default signal dispositions, an empty
/// signal mask and no descriptor but 0, 1, 2 and `inherited_fd`. Throws SpawnError. CPUs or memory
/// nodes that the kernel refuses (a container may forbid it) do not fail the start: the error is in
/// the result.
///
/// Threads: the main thread only, since the parent-death signal follows the starting thread.
/// Blocks: until exec, which is as long as the kernel needs to open the program.
Child spawn_child(const ChildSpec& spec);

/// Reaps the child if it has ended, after it has sent SIGKILL to the rest of its process group.
/// Waits for nothing.
std::optional<ChildEnd> reap_child(pid_t pid, int pidfd);

/// Raises this process's soft limit on open files to the hard one: the agent needs about four for
/// each rank, and 1024 is a common limit. Returns the soft limit from before, for
/// ChildSpec::file_limit, since programs that use select(2) rely on a low one; nothing when it
/// could not be read.
std::optional<rlim_t> raise_file_limit();

}  // namespace autolaunch::launcher
