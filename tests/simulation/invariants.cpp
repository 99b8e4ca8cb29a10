#include "simulation/invariants.hpp"

#include "restart_policy/node_fitness.hpp"

#include <algorithm>
#include <cstdlib>

namespace simulation {

using namespace autolaunch::launcher;

namespace {

std::string generation_text(const GenerationRecord& record) {
    return "generation " + std::to_string(record.generation);
}

}  // namespace

void Invariants::was_accepted(const RecordPointer& record, const Voter& by) {
    accepted_[record].add(by);
}

void Invariants::was_published(int generation, std::int64_t step, std::uint64_t order) {
    published_.push_back({generation, step, order});
}

void Invariants::was_noted(int generation) { noted_.insert(generation); }

// Published when a later generation had looked for it, and said so, it counts for nobody.
bool Invariants::is_late(const PublishedAt& checkpoint) const {
    return std::any_of(noted_.begin(), noted_.end(), [&](int generation) {
        return generation > checkpoint.generation && looked_.at(generation) < checkpoint.order;
    });
}

// The newest of those that are not late, by the order of what happened alone.
void Invariants::was_loaded(int generation, std::optional<std::int64_t> step, std::uint64_t order) {
    looked_.try_emplace(generation, order);
    std::optional<std::int64_t> newest;
    bool is_there = !step;
    for (const PublishedAt& one : published_) {
        if (is_late(one))
            continue;
        is_there = is_there || one.step == step;
        newest = std::max(newest, std::optional(one.step));
    }
    const std::string who = "generation " + std::to_string(generation);
    if (!is_there)
        throw Violation(who + " starts from what a fenced writer has written: step " +
                        std::to_string(*step));
    if (step != newest)
        throw Violation(who + " does not start from step " + std::to_string(*newest) +
                        ", which was published in time");
}

void Invariants::begins(const RecordPointer& record, const Voter& at, bool is_head,
                        std::int64_t now) {
    if (exit_code_ && record->generation >= last_generation_)
        throw Violation(generation_text(*record) + " begins after the job's end");
    const auto number = static_cast<std::size_t>(record->generation);
    if (begun_.size() <= number)
        begun_.resize(number + 1);
    Begun& begun = begun_[number];
    if (!begun.record) {
        check_new(record);
        begun.record = record;
        begun.at = now;
        if (record->history.ends.size() > history_.ends.size())
            history_ = record->history;
    }
    if (begun.record != record && *begun.record != *record)
        throw Violation("two records of " + generation_text(*record) + " begin");
    if (!is_head)
        return;
    if (begun.head && *begun.head != at)
        throw Violation("two heads begin " + generation_text(*record));
    begun.head = at;
}

void Invariants::check_new(const RecordPointer& pointer) const {
    const GenerationRecord& record = *pointer;
    const auto accepted = accepted_.find(pointer);
    const Votes none;
    const Votes& votes = accepted == accepted_.end() ? none : accepted->second;
    // The witness is the third vote of who has it.
    const auto is_decided = [&](const Electorate& electorate) {
        const auto witnessed = witnessed_.find(electorate.formed);
        return is_majority(electorate, votes,
                           witnessed != witnessed_.end() && votes.contains(witnessed->second.node));
    };
    if (!is_decided(record.last) || !is_decided(record.now))
        throw Violation(generation_text(record) + " begins without its majorities");
    check_history(record);
}

void Invariants::check_history(const GenerationRecord& record) const {
    const auto& ends = record.history.ends;
    if (ends.size() != static_cast<std::size_t>(record.generation))
        throw Violation(generation_text(record) + " begins with the ends of " +
                        std::to_string(ends.size()) + " generations: one is lost");
    for (std::size_t i = 0; i < std::min(ends.size(), history_.ends.size()); ++i)
        if (!(ends[i] == history_.ends[i]))
            throw Violation("how generation " + std::to_string(i) +
                            " has ended is another thing in " + generation_text(record));
    const auto counted =
        std::count_if(ends.begin(), ends.end(), [](const PastEnd& end) { return end.counted; });
    if (counted > max_restarts_)
        throw Violation(generation_text(record) + " overdraws the restart budget: " +
                        std::to_string(counted) + " of " + std::to_string(max_restarts_));
    int taking_part = 0;
    for (const int ranks : record.ranks_per_node)
        taking_part += ranks > 0 ? 1 : 0;
    for (const auto& [name, why] : unfit_nodes(record.history)) {
        const auto node = static_cast<std::size_t>(std::atoi(name.c_str() + 4));
        if (node < record.ranks_per_node.size() && record.ranks_per_node[node] > 0 &&
            std::find(record.kept.begin(), record.kept.end(), static_cast<int>(node)) ==
                record.kept.end())
            throw Violation(generation_text(record) + " takes " + name +
                            ", which was excluded: " + why);
    }
}

// Nobody goes on with it, and it is not over. Who does not know the newest generation may have it
// requeued where all others are proved to be gone: one of them had begun it, and told no log of it.
void Invariants::was_requeued(const GenerationRecord& newest, Others others) const {
    if (exit_code_)
        throw Violation("the job is requeued, and has ended with " + std::to_string(*exit_code_));
    if (others.may_go_on || (others.live && newest_generation() > newest.generation))
        throw Violation("the job is requeued by one that knows of generation " +
                        std::to_string(newest.generation) +
                        ", and others may go on with generation " +
                        std::to_string(newest_generation()));
}

void Invariants::leaves(const GenerationRecord& record) {
    if (!exit_code_)
        last_generation_ = record.generation;
    if (exit_code_ && (*exit_code_ != *record.exit_code || last_generation_ != record.generation))
        throw Violation("the job ends with " + std::to_string(*exit_code_) + " and with " +
                        std::to_string(*record.exit_code));
    if (newest_generation() > record.generation)
        throw Violation("the job ends, and has begun " + generation_text(record) + " before");
    exit_code_ = record.exit_code;
}

}  // namespace simulation
