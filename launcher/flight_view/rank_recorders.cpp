#include "flight_view/rank_recorders.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kNewest = 32,
                      kNewestOfMany = 8;  // calls of a group, and where a rank has many groups
constexpr std::size_t kManyGroups = 4;
constexpr std::size_t kOldestOpen = 8;

std::int64_t microseconds(std::int64_t ns) { return ns < 0 ? -1 : ns / 1000; }

bool is_over(const flight::ReadCall& call) {
    return call.state == flight::State::finished || call.state == flight::State::failed;
}

flight::RecordedCall to_control(const flight::ReadCall& call) {
    return {.sequence = call.sequence,
            .kind = static_cast<std::uint8_t>(call.kind),
            .op = call.op,
            .type = call.type,
            .state = static_cast<std::uint8_t>(call.state),
            .on_device = call.on_device,
            .root = call.root,
            .bytes = call.bytes,
            .enqueued_us = microseconds(call.enqueued_ago),
            .started_us = microseconds(call.started_ago),
            .finished_us = microseconds(call.finished_ago),
            .label = call.label};
}

flight::RecordedGroup to_control(const flight::ReadGroup& group, std::size_t newest) {
    flight::RecordedGroup recorded{.id = group.id,
                                   .name = group.name,
                                   .backend = group.backend,
                                   .size = group.size,
                                   .place = group.rank,
                                   .in_use = group.in_use,
                                   .collectives = group.collectives,
                                   .lost = group.lost,
                                   .torn = group.torn,
                                   .calls = {}};
    const std::size_t first_newest = group.calls.size() - std::min(newest, group.calls.size());
    std::size_t open = 0;
    for (std::size_t i = 0; i < group.calls.size(); ++i)
        if (i >= first_newest || (!is_over(group.calls[i]) && open++ < kOldestOpen))
            recorded.calls.push_back(to_control(group.calls[i]));
    return recorded;
}

}  // namespace

flight::RecordedRank summarize(int rank, bool ended, const flight::Contents& contents) {
    flight::RecordedRank recorded{.rank = rank, .ended = ended, .no_groups = {}, .groups = {}};
    const std::size_t newest = contents.groups.size() > kManyGroups ? kNewestOfMany : kNewest;
    for (const auto& group : contents.groups)
        recorded.groups.push_back(to_control(group, newest));
    if (recorded.groups.empty())
        recorded.no_groups =
            contents.bad_groups > 0 ? "its flight recorder is damaged" : "it has no communicator";
    return recorded;
}

void RankRecorders::take(int rank, const std::shared_ptr<UniqueFd>& file) {
    if (file && flight::is_recorder(file->get()))
        files_[rank] = file;
}

flight::RecordedRank RankRecorders::read(int rank, bool ended) const {
    const auto found = files_.find(rank);
    if (found == files_.end())
        return {.rank = rank,
                .ended = ended,
                .no_groups = "it has no communicator of autolaunch",
                .groups = {}};
    const auto contents = flight::read_contents(flight::file_source(found->second->get()));
    if (!contents)
        return {.rank = rank,
                .ended = ended,
                .no_groups = "its flight recorder is of another version",
                .groups = {}};
    return summarize(rank, ended, *contents);
}

}  // namespace autolaunch::launcher
