#include "control/member_inbox.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <iterator>

namespace autolaunch::launcher {

namespace {

/// Removes the entries of generations before `generation`; they come first in a map that is ordered
/// by it.
template <class Map>
void erase_before(Map& map, int generation) {
    const auto first_kept = std::find_if(
        map.begin(), map.end(), [&](const auto& entry) { return entry.first.first >= generation; });
    map.erase(map.begin(), first_kept);
}

}  // namespace

void MemberInbox::expect_fence(int generation, const std::string& name,
                               Member::FenceHandler on_done) {
    if (generation < generation_)
        return;
    if (!fences_.emplace(FenceKey(generation, name), Expected{std::move(on_done), {}}).second)
        throw Error(ErrorCode::invalid_argument, "fence \"" + name + "\" is waited for already",
                    "a name may be used once a generation");
}

void MemberInbox::deliver(control::FenceDone&& done) {
    const auto found = fences_.find({done.generation, done.name});
    if (found == fences_.end())
        return;  // of an earlier generation
    auto& blobs = found->second.blobs;
    std::move(done.blobs.begin(), done.blobs.end(), std::back_inserter(blobs));
    if (done.more)
        return;
    Expected expected = std::move(found->second);
    fences_.erase(found);
    if (expected.on_done)
        expected.on_done(std::move(expected.blobs));
}

void MemberInbox::listen(control::RelayChannel channel, int generation,
                         Member::RelayHandler handler) {
    if (generation < generation_)
        return;
    const RelayKey key(generation, static_cast<std::uint8_t>(channel));
    listeners_[key] = handler;
    const auto early = early_.find(key);
    if (early == early_.end())
        return;
    const std::vector<control::Relay> kept = std::move(early->second);
    early_.erase(early);
    for (const auto& relay : kept) {
        early_bytes_ -= relay.bytes.size();
        if (handler)
            handler(relay.source, relay.bytes);
    }
}

void MemberInbox::deliver(control::Relay&& relay) {
    if (relay.generation < generation_)
        return;
    const auto found = listeners_.find({relay.generation, relay.channel});
    if (found == listeners_.end())
        return keep_early(std::move(relay));
    const Member::RelayHandler handler = found->second;  // which may replace itself
    if (handler)
        handler(relay.source, relay.bytes);
}

void MemberInbox::keep_early(control::Relay&& relay) {
    if (early_bytes_ + relay.bytes.size() > kEarlyLimitBytes)
        return;
    early_bytes_ += relay.bytes.size();
    early_[{relay.generation, relay.channel}].push_back(std::move(relay));
}

void MemberInbox::begin_generation(int generation) {
    if (generation <= generation_)
        return;
    generation_ = generation;
    erase_before(fences_, generation);
    erase_before(listeners_, generation);
    erase_before(early_, generation);
    early_bytes_ = 0;
    for (const auto& [key, relays] : early_)
        for (const auto& relay : relays)
            early_bytes_ += relay.bytes.size();
}

}  // namespace autolaunch::launcher
