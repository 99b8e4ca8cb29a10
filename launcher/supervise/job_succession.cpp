#include "supervise/job_supervisor.hpp"

#include "causes/root_cause.hpp"
#include "report/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <system_error>
#include <utility>

// What the job's agents agree on before a generation begins, and a job that had another head.

namespace autolaunch::launcher {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What a node that was lost has beyond the time in which it must find out by itself.
constexpr milliseconds kFenceTime{1000};
// How often a machine is asked whether an agent that says nothing is there.
constexpr milliseconds kLookTime{200};
// For the other agents to know that the job is over, before they are told to leave.
constexpr milliseconds kEndTime{1000};

}  // namespace

GenerationRecord JobSupervisor::next_record() const {
    GenerationRecord next;
    next.generation = generation_number_;
    for (int at = 0; at < members_.size(); ++at) {
        const auto place = static_cast<std::size_t>(at);
        const Membership::Node& node = members_.node(at);
        next.nodes.push_back(
            {node.name, node.ranks, place < doors_.size() ? doors_[place] : std::string()});
        const Membership::Standing standing = members_.standing(at);
        if (standing == Membership::Standing::lost || standing == Membership::Standing::drained)
            next.gone.push_back(at);
    }
    next.ranks_per_node = roster_.ranks_per_node();
    next.order = order_;
    next.history = restart_book_.history();
    next.unfit.assign(members_.unfit().begin(), members_.unfit().end());
    next.checkpoint_step = checkpoint_step_;
    next.input_spent = input_spent_ || (input_taken_ && input_taken_());
    next.restarts = restarts_;
    next.began_ms = std::chrono::duration_cast<milliseconds>(job_began_.time_since_epoch()).count();
    return next;
}

// Also those that wait as spares, and those that are left out: their agents are there, and one that
// heard of no head would end, and could not be taken back.
std::vector<int> JobSupervisor::voters() const {
    std::vector<int> nodes;
    for (int node = 0; node < members_.size(); ++node)
        if (members_.is_fit(node) || members_.standing(node) == Membership::Standing::unfit)
            nodes.push_back(node);
    return nodes;
}

// A head that finds no majority for it stands down, which is told elsewhere.
void JobSupervisor::propose_generation() {
    proposing_ = true;
    quorum_->propose(next_record(), voters());
}

void JobSupervisor::begins(const GenerationRecord& record) {
    if (!proposing_ || record.generation != generation_number_)
        return;
    proposing_ = false;
    begin_generation();
    for (auto& heard : std::exchange(until_begun_, {}))
        heard();
}

// Those that say when the job began, and how it went until now.
void JobSupervisor::take_over(const GenerationRecord& newest, milliseconds fence) {
    const auto now = steady_clock::now();
    started_at_ = now;
    if (newest.began_ms > 0) {
        job_began_ = std::chrono::system_clock::time_point(milliseconds(newest.began_ms));
        started_at_ -= std::chrono::system_clock::now() - job_began_;
    }
    begun_generation_ = newest.generation;
    restart_book_.adopt(newest.history);
    restarts_ = newest.restarts;
    checkpoint_step_ = newest.checkpoint_step;
    input_spent_ = newest.input_spent;
    std::vector<int> gone = newest.gone;
    for (std::size_t at = 0; at < roster_.nodes.size(); ++at) {
        const int node = static_cast<int>(at);
        doors_.resize(roster_.nodes.size());
        if (at < newest.nodes.size())
            doors_[at] = newest.nodes[at].door;
        if (newest.now.find(node) == nullptr)
            gone.push_back(node);  // also one that had come, and was in no record yet
        else if (node != roster_.self)
            missing_.insert(node);
        if (newest.now.find(node) != nullptr)
            had_ranks_.insert(node);
    }
    const std::vector<int> order =
        newest.order.empty() && newest.generation < 0 ? roster_.in_rank_order() : newest.order;
    members_.restore(order, gone, {newest.unfit.begin(), newest.unfit.end()});
    order_ = order;
    if (newest.generation >= 0)
        generation_number_ = newest.generation;
    for (std::size_t at = 0; at < newest.ranks_per_node.size() && at < roster_.nodes.size(); ++at) {
        RosterNode& node = roster_.nodes[at];
        const int ranks = node.ranks + node.held_back;
        node.ranks = newest.ranks_per_node[at];
        node.held_back = node.ranks == 0 ? ranks : 0;
    }
    tally_.emplace(generation_number_, static_cast<int>(roster_.nodes.size()), now);
    flight_.begin_generation(generation_number_, static_cast<int>(roster_.nodes.size()),
                             roster_.world_size());
    standstill_.begin_generation(generation_number_, static_cast<int>(roster_.nodes.size()));
    for (int node = 0; node < members_.size(); ++node) {
        if (members_.takes_part(node))
            continue;
        flight_.node_lost(node);
        standstill_.node_lost(node);
        tally_->leave_out(node);
    }
    state_ = JobState::running;
    missing_until_ = now + fence;
    failed_at_ = now;
    report(HeadChanged{.node = name_of(roster_.self),
                       .from = name_of(newest.now.casting),
                       .term = quorum_->term()});
    open_door();
    on_follower(roster_.self);
    look_for_missing();
}

// Its answer is RanksEnded, once that is so.
void JobSupervisor::on_follower(int node) {
    missing_.erase(node);
    head_.command_to(node, control::KillRanks{generation_number_});
}

// Those that do not come are lost: at once where the machine says that the agent is gone, else when
// their ranks cannot be there any more.
void JobSupervisor::look_for_missing() {
    if (missing_.empty() || state_ == JobState::finished)
        return;
    if (steady_clock::now() >= missing_until_) {
        for (const int node : std::set<int>(missing_))
            on_node_lost(node, name_of(node) + " has not been heard since the head was lost");
        return;
    }
    for (const int node : missing_)
        quorum_->ask_if_gone(node, [this, alive = std::weak_ptr(alive_), node](bool gone) {
            if (alive.expired() || !gone || !missing_.contains(node))
                return;
            doors_[static_cast<std::size_t>(node)].clear();
            on_node_lost(node, name_of(node) + "'s agent has ended, says its machine");
        });
    succession_timer_.expires_after(
        std::min(kLookTime, elapsed_between(steady_clock::now(), missing_until_)));
    succession_timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            look_for_missing();
    });
}

// A closed connection is the agent's end, or its own doing: then it ends its ranks at once. One
// that fell silent has its lease.
milliseconds JobSupervisor::fence_of(int node) {
    if (quorum_ == nullptr)
        return kFenceTime;
    const milliseconds left = quorum_->dismiss(node);
    return head_.fell_silent(node) ? std::max(left, kFenceTime) : kFenceTime;
}

// Where that finds no majority in its time, there is none that could follow us.
void JobSupervisor::end_by_record() {
    GenerationRecord last = next_record();
    last.generation = generation_number_ + 1;
    last.exit_code = finish_->exit_code;
    quorum_->propose(std::move(last), voters());
    succession_timer_.expires_after(kEndTime);
    succession_timer_.async_wait([this](const std::error_code& error) {
        if (!error && quorum_->is_backed())  // else it is not ours to say
            end_is_recorded();
    });
}

void JobSupervisor::end_is_recorded() {
    if (const auto finish = std::exchange(finish_, std::nullopt)) {
        succession_timer_.cancel();
        head_.command(*finish);
    }
}

}  // namespace autolaunch::launcher
