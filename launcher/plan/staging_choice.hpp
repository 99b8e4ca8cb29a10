#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What ranks find on their node's own disk, and where it comes from (docs/guides/data.md).
struct StagedItem {
    std::string name, variable;
    std::string from;         ///< absolute, or an address, which may have a secret in its query
    std::string shown;        ///< the same without that
    std::string verify;       ///< as in the spec
    std::string unpack = {};  ///< "tar", "zip"; empty: it stays as it is
    bool streams = false;     ///< ranks start before all of it is there
    std::string found = {};   ///< what `plan` saw of it, in words; empty: nobody has looked
};

/// A folder that ranks write to there, and where it goes.
struct OutItem {
    std::string name, variable;
    std::string to;  ///< absolute, or "s3://bucket/prefix/"
    bool on_success = false, by_node = false, may_overwrite = false;
    std::string found = {};  ///< what `plan` saw of the target, in words; empty: nobody has looked
};

/// What the site keeps there for the jobs of all users.
struct SharedChoice {
    std::string folder;  ///< as the administrator's file has it; empty: there is none
    std::string owner;   ///< whose it is: what another user could have written is not used
    std::string reason;  ///< for these
    bool fills = false;  ///< this job is its owner's, and brings data there
};

struct StagingChoice {
    std::string scratch;  ///< absolute
    std::string reason;   ///< for that one
    std::vector<StagedItem> items;
    std::vector<OutItem> out = {};
    std::chrono::milliseconds out_time{0};  ///< that a stop keeps for it; 0: none
    SharedChoice shared = {};
};

}  // namespace autolaunch::launcher
