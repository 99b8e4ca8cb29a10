#pragma once
#include "nccl_env/nccl_env.hpp"

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// Adds what one file says to `conf`, as NCCL 2.28 reads it (src/misc/param.cc): NAME=value, a line
/// that begins with # is a comment, blanks and quotes are part of the name or value, and the first
/// to name a variable wins. Warns of what NCCL would silently take otherwise than it was meant.
/// Pure.
void parse_nccl_conf(std::string_view text, const std::string& file, NcclConf& conf);

struct NcclConfPlaces {
    std::string home;         ///< as NCCL finds it: the database of users', not $HOME; empty: none
    std::string working_dir;  ///< of the ranks: NCCL_CONF_FILE may be relative
    std::string system_file = "/etc/nccl.conf";
};

/// Reads the files in NCCL's order: NCCL_CONF_FILE, or ~/.nccl.conf where that is not set, then
/// /etc/nccl.conf. A file that is missing says nothing, like NCCL, but for NCCL_CONF_FILE, of which
/// it warns. Reads at most 1 MiB of each.
NcclConf read_nccl_conf(const EnvironmentMap& found, const NcclConfPlaces& places);

}  // namespace autolaunch::launcher
