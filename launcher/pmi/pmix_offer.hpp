#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A PMIx server that is not there yet, and what is known of it.
struct PmixOffer {
    std::string name_space;
    int rank = 0, node_rank = 0;
    std::uint16_t port = 0;  ///< on the loopback; somebody listens already
    std::string directory;   ///< everything of PMIx will be in it
    std::string node_name;
    std::string version;  ///< of the PMIx library
};

/// What the server's library will say that this rank's environment must have: "NAME=value". Only
/// what a rank needs to find it; the rank gets all else in answers. Pure.
std::vector<std::string> foresee_pmix_environment(const PmixOffer& offer);

/// Why a rank that was told `foreseen` will not be understood by a server that says `actual`;
/// empty: it will be. Pure.
std::string find_pmix_surprise(const std::vector<std::string>& foreseen,
                               const std::vector<std::string>& actual);

/// The PMIx that autolaunch-pmixd was built with; empty: it was not.
std::string built_pmix_version();

/// autolaunch-pmixd is there, and what it will say can be foreseen.
bool can_offer_pmix(const std::vector<std::string>& environment);

}  // namespace autolaunch::launcher
