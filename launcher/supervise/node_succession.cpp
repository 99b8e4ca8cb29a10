#include "exit_codes/exit_codes.hpp"
#include "supervise/node_supervisor.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

// A node of a job whose head can be followed by another one.

namespace autolaunch::launcher {

namespace {

// The head says Finish, and more with it, soon after the job's end was recorded.
constexpr auto kFinishTime = std::chrono::seconds(3);

}  // namespace

// The head's word and the record come by two ways.
bool NodeSupervisor::awaits_record(const control::StartGeneration& start) {
    if (quorum_ == nullptr || quorum_->has_begun(start.generation))
        return false;
    awaiting_record_ = start;
    return true;
}

void NodeSupervisor::may_begin(int generation) {
    if (!awaiting_record_ || awaiting_record_->generation != generation)
        return;
    obey(control::Command(*std::exchange(awaiting_record_, std::nullopt)));
}

// Another generation may begin without this node.
void NodeSupervisor::end_ranks(std::string_view why) {
    const auto awaited = std::exchange(awaiting_record_, std::nullopt);
    held_ = false;
    if (has_ranks(state_))
        report(WarningRaised{"this node's ranks are killed: " + std::string(why) +
                             (why_headless_.empty() ? "" : " (" + why_headless_ + ")")});
    if ((awaited || has_ranks(state_)) && !is_on_head())
        node_.member.report(control::RanksGivenUp{awaited ? awaited->generation : start_.generation,
                                                  std::string(why)});
    dispatch(NodeEvent::kill);
    if (generation_)
        generation_->close_store();
}

void NodeSupervisor::hold_ranks() {
    if (!generation_ || !has_ranks(state_))
        return;
    held_ = true;
    generation_->hold();
    report(WarningRaised{
        "this node's agent stood still (a suspended job, a machine that slept): its ranks are held "
        "until most nodes have answered"});
}

void NodeSupervisor::let_ranks_go_on() { go_on(start_.generation); }

// Another one: what was said to the one before it may not have heard.
void NodeSupervisor::has_head(const std::string& name) {
    head_name_ = name;
    why_headless_.clear();
    if (told_signal_ != 0)
        node_.member.report(control::StopAsked{told_signal_});
}

void NodeSupervisor::leave_with(int exit_code) {
    leave_timer_.expires_after(kFinishTime);
    leave_timer_.async_wait([this, exit_code](const std::error_code& error) {
        if (error || state_ == NodeState::left)
            return;
        exit_code_ = exit_code;
        dispatch(NodeEvent::finish);
    });
}

void NodeSupervisor::give_up(const std::string& why) {
    exit_code_ = exit_code::kNoHost;
    record(HeadLost{head_name_, why + (why_headless_.empty() ? "" : ": " + why_headless_)});
    dispatch(NodeEvent::head_lost);
    if (generation_)
        generation_->close_store();
}

// For the keeper. The others count from when this node has heard of a head that counts, and not
// from this agent's newest breath. Ranks that save because the head is lost have their time.
std::chrono::milliseconds NodeSupervisor::ranks_may_live() const {
    const auto limit = plan_.spec.rendezvous.lost_after;
    const bool may_save = state_ == NodeState::orphaned && quorum_ == nullptr;
    if (!has_ranks(state_) || may_save)
        return limit;
    if (quorum_ != nullptr && quorum_->is_member())
        return quorum_->ranks_may_live();
    return std::max(limit - node_.member.head_is_silent_for(), std::chrono::milliseconds(0));
}

}  // namespace autolaunch::launcher
