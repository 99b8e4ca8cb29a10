#pragma once
#include "base/deadline.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What is to be known of this node and its cluster before one can say whether a promise holds.
/// Nothing: it could not be read.
struct SiteFacts {
    std::optional<std::string> swaps;         ///< /proc/swaps
    std::optional<std::string> overcommit;    ///< /proc/sys/vm/overcommit_memory
    std::optional<std::string> panic_on_oom;  ///< /proc/sys/vm/panic_on_oom
    std::optional<std::string> krb5_conf;     ///< /etc/krb5.conf
    /// `scontrol show config`, keys to values; and why it is not known.
    std::optional<std::map<std::string, std::string>> slurm;
    std::string why_no_slurm = "Slurm was not asked: autolaunch plan asks";
    std::optional<std::size_t> recipients;  ///< of the job's checkpoints; nothing: no job is meant
    /// Whether a folder is there; nothing: it cannot be told.
    std::function<std::optional<bool>(const std::string& path)> has_folder;
};

/// Of the kernel and the disk: a few small files. Blocks as those do.
SiteFacts read_node_facts();
/// Asks slurmctld, once. Blocks until the deadline at most.
void ask_slurm(SiteFacts& facts, const Deadline& deadline);

/// "PreemptType             = preempt/none" and so on. Pure.
std::map<std::string, std::string> parse_slurm_config(std::string_view answer);

}  // namespace autolaunch::launcher
