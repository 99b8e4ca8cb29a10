#pragma once
#include "control/control_message.hpp"
#include "control/member.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// What a node waits for: the ends of its fences, and what is relayed to it. Another node may be a
/// generation ahead, or may speak before our side listens, so what comes early is kept until
/// somebody asks for it, and what comes for an earlier generation is dropped.
///
/// Owner: a Member. Threads: its one. Blocks: never. Handlers are called from within the calls that
/// deliver.
class MemberInbox {
public:
    /// Kept for who does not listen yet; what comes beyond it is dropped.
    static constexpr std::size_t kEarlyLimitBytes = std::size_t{64} << 20;

    /// Throws Error{invalid_argument} when the name is already waited for.
    void expect_fence(int generation, const std::string& name, Member::FenceHandler on_done);
    void deliver(control::FenceDone&& done);

    /// Replaces the earlier handler; null: nobody, and what comes is dropped. Kept relays are
    /// handed to it at once.
    void listen(control::RelayChannel channel, int generation, Member::RelayHandler handler);
    void deliver(control::Relay&& relay);

    void begin_generation(int generation);

private:
    using FenceKey = std::pair<int, std::string>;   // generation, name
    using RelayKey = std::pair<int, std::uint8_t>;  // generation, channel
    struct Expected {
        Member::FenceHandler on_done;
        std::vector<std::pair<int, std::string>> blobs;  // of the parts so far
    };
    void keep_early(control::Relay&& relay);

    int generation_ = 0;
    std::map<FenceKey, Expected> fences_;
    std::map<RelayKey, Member::RelayHandler> listeners_;
    std::map<RelayKey, std::vector<control::Relay>> early_;
    std::size_t early_bytes_ = 0;
};

}  // namespace autolaunch::launcher
