#include "supervise/generation_tally.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

GenerationTally::GenerationTally(int generation, int node_count, Moment begun)
    : generation_(generation),
      begun_(begun),
      last_end_(begun),
      nodes_(static_cast<std::size_t>(node_count)),
      open_(nodes_.size()) {}

void GenerationTally::never_started() {
    for (Node& node : nodes_)
        node.ended = true;
    open_ = 0;
}

void GenerationTally::leave_out(int node) {
    Node& known = nodes_[static_cast<std::size_t>(node)];
    known.ended = known.every_rank_exited_zero = true;
    ++running_;
    --open_;
}

// What is not the node's own time of the answer's was spent on the way there and back.
void GenerationTally::running(int node, const control::GenerationRunning& running, Moment heard) {
    ++running_;
    ranks_bound_ += running.ranks_bound;
    numa_nodes_ += running.numa_nodes;
    gpus_ += running.gpus;
    const auto round_trip = std::chrono::duration_cast<std::chrono::microseconds>(heard - begun_) -
                            std::chrono::microseconds(running.startup_us);
    nodes_[static_cast<std::size_t>(node)].link =
        std::clamp(round_trip, std::chrono::microseconds(0), kUnknownLink);
}

void GenerationTally::failed(int node, control::RankFailed failure, Moment heard) {
    const Moment at = heard - std::chrono::microseconds(failure.age_us);
    const auto link = nodes_[static_cast<std::size_t>(node)].link;
    const bool is_first =
        failures_.empty() || (at < failures_.front().at && !failure.end.asked_to_stop);
    failures_.insert(is_first ? failures_.begin() : failures_.end(),
                     Failed{std::move(failure), at, link});
}

void GenerationTally::ended(int node, control::RanksEnded report, Moment heard) {
    Node& known = nodes_[static_cast<std::size_t>(node)];
    if (known.ended)
        return;
    known.ended = true;
    --open_;
    known.every_rank_exited_zero = report.every_rank_exited_zero;
    for (auto& failure : report.failures)
        failed(node, std::move(failure), heard);
    known.ends = std::move(report.ends);
    last_end_ = std::max(last_end_, heard - std::chrono::microseconds(report.age_us));
    if (report.checkpoint_step)
        checkpoint_step_ =
            std::max(*report.checkpoint_step, checkpoint_step_.value_or(*report.checkpoint_step));
}

void GenerationTally::lost(int node) {
    if (static_cast<std::size_t>(node) >= nodes_.size())
        return;  // it has come since the generation began
    Node& known = nodes_[static_cast<std::size_t>(node)];
    if (known.ended)
        return;
    known.ended = true;
    --open_;
}

bool GenerationTally::every_rank_exited_zero() const {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const Node& node) { return node.every_rank_exited_zero; });
}

std::vector<RankExited> GenerationTally::ends_but(std::optional<int> rank) const {
    std::vector<RankExited> ends;
    for (const Node& node : nodes_)
        for (const RankExited& end : node.ends)
            if (end.rank != rank)
                ends.push_back(end);
    return ends;
}

}  // namespace autolaunch::launcher
