#pragma once
#include "base/unique_fd.hpp"
#include "control/job_identity.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

struct HeadClaim {
    bool is_head = false;
    UniqueFd held;  ///< while the nodes join: others of this machine see that there is a head
};

/// Whether the node that calls is the head, where all nodes have the same line and none a number:
/// the one on whose machine `meeting_place` is, a name or an address. Of several agents on that
/// machine it is the first. `is_host`: a person says so, or that it is not. Blocks: until the name
/// is resolved, 10 s at most; one that is not in that time is another machine's.
HeadClaim claim_head(const std::string& meeting_place, std::optional<bool> is_host,
                     const std::string& hostname, const JobIdentity& identity);

}  // namespace autolaunch::launcher
