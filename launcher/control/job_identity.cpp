#include "control/job_identity.hpp"

#include "base/hash.hpp"

#include <algorithm>

namespace autolaunch::launcher {
namespace {

// Below Linux's ephemeral ports (32768), above the services that administrators number by hand.
constexpr std::uint16_t kFirstPort = 20'000;
constexpr std::uint64_t kPortCount = 12'768;
constexpr std::size_t kCandidates = 16;

std::string name_of(const Allocation& allocation, int port, const std::string& run_id) {
    std::string name = allocation.source + '/';
    if (!allocation.job_id.empty()) {
        name += allocation.job_id;
    } else {
        const std::string first =
            allocation.node_names.empty() ? std::string() : allocation.node_names.front();
        const std::string& head = allocation.head_address.empty() ? first : allocation.head_address;
        name += head + ':' + std::to_string(port);
    }
    if (!run_id.empty())
        name += '/' + run_id;
    if (allocation.restart_count > 0)
        name += "/restart-" + std::to_string(allocation.restart_count);
    return name;
}

}  // namespace

JobIdentity job_identity(const Allocation& allocation, const RendezvousSpec& spec,
                         const std::string& run_id) {
    JobIdentity identity{name_of(allocation, spec.port, run_id), {}};
    for (std::uint64_t i = 0; identity.ports.size() < kCandidates; ++i) {
        const std::string text = identity.name + '#' + std::to_string(i);
        const auto port =
            static_cast<std::uint16_t>(kFirstPort + hash64(text.data(), text.size()) % kPortCount);
        const bool taken =
            std::find(identity.ports.begin(), identity.ports.end(), port) != identity.ports.end();
        // The user's own port is where the ranks meet.
        if (!taken && port != spec.port)
            identity.ports.push_back(port);
    }
    return identity;
}

}  // namespace autolaunch::launcher
