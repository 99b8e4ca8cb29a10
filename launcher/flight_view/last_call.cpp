#include "flight_view/last_call.hpp"

#include "flight/flight_reader.hpp"
#include "flight/flight_ring.hpp"

#include <algorithm>
#include <cstdint>

namespace autolaunch::launcher {

namespace {

using flight::RecordedCall;
using flight::State;

struct Candidate {
    const RecordedCall* call = nullptr;
    const flight::RecordedGroup* group = nullptr;
    std::int64_t ago_us = 0;
};

bool is_over(const RecordedCall& call) {
    const auto state = static_cast<State>(call.state);
    return state == State::finished || state == State::failed;
}

// Since it began, of one that is not over; else since it was.
std::int64_t ago(const RecordedCall& call) {
    if (is_over(call) && call.finished_us >= 0)
        return call.finished_us;
    return call.started_us >= 0 ? call.started_us : call.enqueued_us;
}

// One that it was in counts before one that was over.
bool is_later(const Candidate& one, const Candidate& other) {
    if (other.call == nullptr || is_over(*one.call) != is_over(*other.call))
        return other.call == nullptr || !is_over(*one.call);
    return one.ago_us < other.ago_us;
}

}  // namespace

std::string last_call(const flight::RecordedRank& rank, std::chrono::microseconds since_end) {
    Candidate last;
    for (const auto& group : rank.groups)
        for (const auto& call : group.calls)
            if (const Candidate candidate{&call, &group, ago(call)};
                candidate.ago_us >= 0 && is_later(candidate, last))
                last = candidate;
    if (last.call == nullptr)
        return {};
    const std::int64_t before_end = std::max<std::int64_t>(last.ago_us - since_end.count(), 0);
    const std::string name =
        (last.group->name == "world" ? "" : last.group->name + ": ") +
        flight::name_call(static_cast<flight::Kind>(last.call->kind), last.call->sequence,
                          last.call->bytes, last.call->label);
    const std::string time = flight::name_time(before_end * 1000);
    return is_over(*last.call) ? "behind " + name + ", which was over " + time + " before"
                               : "inside " + name + " since " + time;
}

}  // namespace autolaunch::launcher
