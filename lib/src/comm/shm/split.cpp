// split on the shm backend: the parent tells its ranks who goes where, and where the new groups'
// memory is.
#include "comm/shm/shm_backend.hpp"
#include "comm/split_plan.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

namespace autolaunch {
namespace {

struct Member {
    std::int32_t color;
    std::int32_t key;
    std::int32_t pid;
};

/// Where a new group's memory is, or why there is none.
struct Offer {
    char address[120];
    std::int32_t failed;
};

void write_text(Offer& offer, const std::string& text, bool failed) {
    std::memset(&offer, 0, sizeof offer);
    std::memcpy(offer.address, text.data(), std::min(text.size(), sizeof(offer.address) - 1));
    offer.failed = failed ? 1 : 0;
}

}  // namespace

std::shared_ptr<CommunicatorBackend> ShmBackend::split(int color, int key) {
    const auto ranks = static_cast<std::size_t>(size_);
    const Member own{color, key, static_cast<std::int32_t>(::getpid())};
    std::vector<Member> members(ranks);
    exchange(shm::Kind::split, &own, members.data(), sizeof own);

    std::vector<ColorAndKey> wishes;
    for (const Member& member : members)
        wishes.push_back({member.color, member.key});
    const SplitPlan plan = plan_split(wishes, rank_);
    std::vector<int> pids;
    for (const int rank : plan.parent_ranks)
        pids.push_back(members[static_cast<std::size_t>(rank)].pid);

    // A leader that fails says so in its offer: leaving the exchange would leave the others
    // waiting.
    Offer offer{};
    std::optional<shm::Segment> segment;
    if (color >= 0 && plan.rank == 0) {
        try {
            segment.emplace(shm::Segment::create(static_cast<int>(pids.size()), pids));
            write_text(offer, segment->address(), false);
        } catch (const Error& error) {
            write_text(offer, error.what(), true);
        }
    }
    std::vector<Offer> offers(ranks);
    exchange(shm::Kind::split, &offer, offers.data(), sizeof offer);
    if (color < 0)
        return nullptr;

    const Offer& chosen = offers[static_cast<std::size_t>(plan.parent_ranks.front())];
    if (chosen.failed != 0) {
        throw Error(ErrorCode::system,
                    std::string("split: the new group's first rank failed: ") + chosen.address);
    }
    const int new_size = static_cast<int>(pids.size());
    if (!segment)
        segment.emplace(shm::Segment::attach(chosen.address, new_size));
    return std::make_shared<ShmBackend>(std::move(*segment), plan.rank, new_size, timeout_, guard_);
}

}  // namespace autolaunch
