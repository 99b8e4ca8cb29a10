#pragma once
#include "allocation/slurm_command.hpp"
#include "base/deadline.hpp"

#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A folder that a job writes to, and what it is for: "runs", "checkpoint.checkpoint_dir".
struct QuotaFolder {
    std::string path, purpose;
};

/// The command that asks for this user's quota on a file system of that type (statfs(2)'s f_type):
/// of NFS and Lustre, whose servers alone know. Empty: the kernel knows, or nobody. Pure.
std::vector<std::string> quota_question(long type, const std::string& path, unsigned uid);

/// Whether the user's quotas have room, where a job's folders are (the nearest one that is there).
/// The commands run beside whatever else is done. Root has no quotas.
///
/// Owner: who asks. Threads: its owner's. Blocks: the constructor as statfs(2) does, warnings()
/// until its deadline.
class QuotaInquiry {
public:
    explicit QuotaInquiry(const std::vector<QuotaFolder>& folders);
    /// A sentence for each limit of which kQuotaWarnsAt percent are used, and for each command that
    /// is there and has not answered. Once.
    std::vector<std::string> warnings(const Deadline& deadline);

private:
    struct Asked {
        std::string name;  ///< "/scratch/amy/runs (monitoring.log_path)"
        std::string program;
        std::unique_ptr<SlurmCommand> command;
    };
    std::vector<std::string> warnings_;
    std::vector<Asked> asked_;
};

}  // namespace autolaunch::launcher
