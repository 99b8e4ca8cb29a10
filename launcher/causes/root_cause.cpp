#include "causes/root_cause.hpp"

#include "base/text.hpp"
#include "causes/final_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

namespace autolaunch::launcher {

namespace {

// A rank that gave up waiting knows nothing of why.
bool waited(const EndRecord& record) {
    return record.follows || record.cause == Cause::collective_timeout;
}

// Whether `a` counts before `b`: own failures before those of ranks that waited, those of ranks
// that nobody had asked to stop before the words of the others, then the earlier one.
bool counts_before(const Failure& a, const Failure& b) {
    const auto order = [](const Failure& failure) {
        return waited(failure.record) ? 2 + static_cast<int>(failure.record.follows) : 0;
    };
    if (order(a) != order(b))
        return order(a) < order(b);
    if (a.asked_to_stop != b.asked_to_stop)
        return !a.asked_to_stop;
    return a.latest < b.latest;
}

// By a program's own deadline, which no library's text tells: of ranks, not of a server.
bool gave_up_on_ranks(const EndRecord& record) {
    const auto says = [&](std::initializer_list<std::string_view> words) {
        return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
            return record.what.find(word) != record.what.npos;
        });
    };
    return record.cause == Cause::program_error && says({"imeout", "imed out"}) &&
           says({"rank", "arrier", "peer", "ollective", "reduce"});
}

std::string describe(const EndRecord& record) {
    return fmt::format("rank {}{} ({})", record.rank,
                       record.node.empty() ? "" : " on " + record.node, name_of(record.cause));
}

// Failures of another kind that may have come first as well: clocks of two nodes agree as far as
// a message takes from one to the other.
void add_doubts(const std::vector<Failure>& failures, const Failure& root, EndRecord& record) {
    for (const Failure& other : failures) {
        if (&other == &root || waited(other.record) || other.asked_to_stop ||
            other.record.node == root.record.node ||
            error_signature(other.record) == error_signature(root.record))
            continue;
        if (other.earliest < root.latest && root.earliest < other.latest)
            record.evidence.push_back(
                fmt::format("{} failed at the same time, as far as clocks tell: which was first is "
                            "not known",
                            describe(other.record)));
    }
}

// Who is to blame where all that is known is that others waited; the record is then of that rank.
struct Blame {
    Cause cause;
    Certainty certainty;
    int rank;
    std::string node, absent;
};

std::string name_of(const Bystander& rank) {
    return fmt::format("rank {}{}", rank.rank, rank.node.empty() ? "" : " (" + rank.node + ")");
}

// Of all others but few it is known that they gave up, and they were given the time for it.
std::optional<Blame> blame_survivor(const Waiting& waiting, int gave_up) {
    const auto& left = waiting.survivors;
    if (left.empty() || static_cast<int>(left.size()) >= gave_up ||
        static_cast<int>(left.size()) + gave_up < waiting.world_size)
        return std::nullopt;
    std::string who = name_of(left.front());
    for (std::size_t other = 1; other < left.size(); ++other)
        who += " or " + name_of(left[other]);
    return Blame{
        Cause::collective_timeout, left.size() == 1 ? Certainty::likely : Certainty::possible,
        left.front().rank, left.front().node,
        fmt::format("{} did not come to a collective, which {} others gave up", who, gave_up)};
}

std::optional<Blame> blame(const Waiting& waiting, const EndRecord& record) {
    if (!waiting.culprit.empty() && !waiting.missing.empty())
        return Blame{Cause::collective_timeout, Certainty::certain, waiting.missing.front(), "",
                     waiting.culprit};
    if (!waiting.finishers.empty()) {
        const Bystander& first =
            *std::min_element(waiting.finishers.begin(), waiting.finishers.end(),
                              [](const Bystander& a, const Bystander& b) { return a.ran < b.ran; });
        return Blame{Cause::program_error, Certainty::likely, first.rank, first.node,
                     name_of(first) + " exited with code 0 while other ranks went on"};
    }
    if (record.cause == Cause::collective_timeout)
        if (auto survivor = blame_survivor(waiting, 1 + record.alike + record.followers))
            return survivor;
    if (record.cause == Cause::collective_timeout && waiting.world_size == 2 && record.rank >= 0)
        return Blame{record.cause, record.certainty, 1 - record.rank, "",
                     fmt::format("rank {} did not come to a collective", 1 - record.rank)};
    return std::nullopt;
}

void blame_absent(const Waiting& waiting, RootCause& found) {
    EndRecord& record = found.record;
    if (const auto absent = blame(waiting, record)) {
        record.evidence = {absent->absent, fmt::format("rank {}: {}", record.rank, record.what)};
        record.what = absent->absent;
        record.cause = absent->cause;
        record.certainty = absent->certainty;
        record.rank = absent->rank;
        record.node = absent->node;
        record.follows = false;
        record.step.reset();
        found.absent = absent->absent;
    } else if (record.cause == Cause::collective_timeout) {
        record.evidence.emplace_back(
            "which rank did not come is not known: its program's communicators are not recorded");
    } else {
        record.evidence.emplace_back("no other rank failed by itself");
    }
}

}  // namespace

RootCause find_root_cause(const std::vector<Failure>& failures, const Waiting& waiting) {
    const auto root = std::min_element(failures.begin(), failures.end(), counts_before);
    RootCause found;
    found.index = static_cast<std::size_t>(root - failures.begin());
    found.record = root->record;
    for (const Failure& other : failures) {
        const int ranks = 1 + other.record.alike;
        if (&other == &*root)
            continue;
        if (!other.record.follows && error_signature(other.record) == error_signature(root->record))
            found.record.alike += ranks;
        else if (waited(other.record))
            found.record.followers += ranks;
    }
    if (waited(root->record) || (!waiting.finishers.empty() && gave_up_on_ranks(root->record)))
        blame_absent(waiting, found);
    else
        add_doubts(failures, *root, found.record);
    return found;
}

std::optional<EndRecord> judge_stopped(const RankEnd& rank) {
    constexpr std::array<std::string_view, 6> kOfTheStop = {
        "SIGTERM", "signal 15", "KeyboardInterrupt", "SystemExit", "Terminated", "SignalException"};
    const FinalError error = find_final_error(rank.words);
    if (error.line.empty())
        return std::nullopt;
    for (const auto& line : error.lines)
        for (const std::string_view text : kOfTheStop)
            if (line.find(text) != line.npos)
                return std::nullopt;
    RankEnd before = rank;  // as it would have ended by itself
    before.end.signal.reset();
    before.end.exit_code = 1;
    before.oom_kills.reset();
    before.mpi_fault.clear();
    EndRecord record = judge(before);
    if (waited(record))
        return std::nullopt;
    return record;
}

}  // namespace autolaunch::launcher
