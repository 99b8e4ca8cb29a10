#pragma once
#include "allocation/allocation.hpp"
#include "report/run_files.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a person's program wants of a running job.
struct JobCall {
    std::string job;          ///< find_head()
    std::string secret_file;  ///< of a given key; empty: the job's own, or AUTOLAUNCH_JOB_KEY
};

/// `autolaunch drain`: until the node is left, or it is clear that it will not be. An exit code of
/// docs/exit-codes.md. Throws Error where the head is not found.
int drain_node_of_job(const JobCall& call, const std::string& node,
                      const EnvironmentMap& environment);
/// `autolaunch drain --take-back`: a node that was left out may be of the job again, of one that
/// runs or of one that waits to be requeued. The same.
int take_back_node_of_job(const JobCall& call, const std::string& node,
                          const EnvironmentMap& environment);
/// `autolaunch attach`: shows the job's console until it ends (its exit code) or SIGINT comes (0).
int attach_to_job(const JobCall& call, const EnvironmentMap& environment);

class Conversation;

/// The run directory of a running job's head, for `autolaunch top`: as RunFolder, asked of the
/// head. One connection; a new one where it was lost. All throw ExitError where nobody answers.
///
/// Owner: one thread. Blocks: until the head answers, at most 15 s and 30 s.
class JobFiles {
public:
    JobFiles(JobCall call, EnvironmentMap environment);
    ~JobFiles();
    std::vector<RunFile> list();
    RunFilePart read(const std::string& name, std::uint64_t offset, std::size_t most);

private:
    RunFilePart ask(const std::string& argument);

    JobCall call_;
    EnvironmentMap environment_;
    std::unique_ptr<Conversation> head_;
};

/// Why the job in that run directory does not run any more although nothing says that it has ended:
/// nobody answers at its head's door on this machine. Empty: it answers, or it cannot be told here.
std::string doubt_of_job(const std::string& run_dir);

}  // namespace autolaunch::launcher
