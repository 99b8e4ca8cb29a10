#include "supervise/headship.hpp"

#include "exit_codes/exit_codes.hpp"
#include "supervise/job_announcement.hpp"
#include "supervise/restart_book.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

Headship::Headship(asio::io_context& io, const PreparedJob& job, NodeSupervisor& node,
                   StopFacts& stop_facts, JobInput& input, StageOut* stage_out)
    : io_(io),
      job_(job),
      node_(node),
      stop_facts_(stop_facts),
      input_(input),
      stage_out_(stage_out),
      watchers_(io) {}

Headship::~Headship() { job_.output.console.set_tap({}); }

const std::string& Headship::name_of(int node) const {
    return job_.joined.roster.nodes.at(static_cast<std::size_t>(node)).name;
}

void Headship::start() {
    if (job_.joined.peers)
        open_quorum();
    if (!job_.joined.head)
        return;
    make_supervisor();
    head_->start(job_.origin);
}

void Headship::open_quorum() {
    Peers& peers = *job_.joined.peers;
    const Roster& roster = job_.joined.roster;
    quorum_.emplace(io_, peers,
                    Quorum::Options{.node = roster.self,
                                    .lost_after = job_.plan.spec.rendezvous.lost_after,
                                    .folder = job_.plan.run_dir},
                    handlers());
    node_.set_quorum(*quorum_);
    if (job_.joined.late)
        return quorum_->start_late();
    std::vector<RecordedNode> nodes;
    for (std::size_t at = 0; at < roster.nodes.size(); ++at)
        nodes.push_back({roster.nodes[at].name, roster.nodes[at].ranks + roster.nodes[at].held_back,
                         peers.doors.at(at)});
    quorum_->start(std::move(nodes));
}

Quorum::Handlers Headship::handlers() {
    return {
        .begin =
            [this](const RecordPointer& record) {
                if (head_)
                    head_->begins(*record);
                node_.may_begin(record->generation);
            },
        .end_ranks = [this](std::string_view why) { node_.end_ranks(why); },
        .hold_ranks = [this] { node_.hold_ranks(); },
        .go_on = [this] { node_.let_ranks_go_on(); },
        .lead = [this](const RecordPointer& newest,
                       std::chrono::milliseconds fence) { lead(*newest, fence); },
        .stand_down = [this](std::string_view why) { stand_down(why); },
        .leave =
            [this](const RecordPointer& last) {
                head_ ? head_->end_is_recorded() : node_.leave_with(*last->exit_code);
            },
        .give_up =
            [this](std::string_view why, bool is_stranded) {
                if (is_stranded)
                    strand();
                node_.give_up(std::string(why));
            },
        .take_follower = [this](int node,
                                const PeerDoor::Visitor& visitor) { take_follower(node, visitor); },
        .follow =
            [this](int head, const std::shared_ptr<ControlConnection>& connection) {
                follow(head, connection);
            },
        .came_to =
            [this](int head) {
                job_.joined.member->set_head(head);
                node_.has_head(name_of(head));
            }};
}

void Headship::make_supervisor() {
    head_.emplace(io_, job_.plan, job_.coordinator, job_.joined, job_.output.reporter, stop_facts_,
                  watchers_, job_.run_dir.first_generation(), quorum_ ? &*quorum_ : nullptr);
    head_->set_input_taken([this] { return input_.has_any(); });
    head_->set_stage_out(stage_out_);
    if (job_.sweep != nullptr && !job_.sweep->of.empty()) {
        head_->watch_element(*job_.sweep);
        node_.set_on_step([this](const StepReported& step) {
            if (head_)
                head_->on_step(step);
        });
    }
    job_.output.console.set_tap(
        [this](int to, std::string_view text) { watchers_.show(to, text); });
    if (quorum_)
        job_.output.reporter.set_gate([this] { return quorum_->is_backed(); });
    if (!job_.door_path.empty())
        door_.emplace(io_, job_.door_path,
                      [this](const control::Ask& ask, const std::shared_ptr<Caller>& caller) {
                          head_->on_ask(ask, caller);
                      });
}

// Nodes that have come while this one had no head, and others of the same number.
void Headship::learn_nodes(const GenerationRecord& newest) {
    Roster& roster = job_.joined.roster;
    for (std::size_t at = 0; at < newest.nodes.size(); ++at) {
        const RecordedNode& known = newest.nodes[at];
        if (at >= roster.nodes.size())
            roster.nodes.push_back({known.name, 0, known.ranks});
        else
            roster.nodes[at].name = known.name;
    }
}

void Headship::lead(const GenerationRecord& newest, std::chrono::milliseconds fence) {
    Joined& joined = job_.joined;
    learn_nodes(newest);
    auto hub = std::make_unique<HeadHub>(io_, joined.roster,
                                         HeadHub::Connections(joined.roster.nodes.size()));
    hub_ = hub.get();
    hub_->take_own_member(*joined.member);
    joined.head = std::move(hub);
    joined.summary.head_address = joined.summary.local_address;
    job_.coordinator.move_head_here(joined.summary.local_address);
    joined.door.reset();
    if (joined.open_door)
        joined.open_door(joined);
    job_.run_dir.become_head();
    job_.output.reporter.become_head(announce_job(job_.plan, joined), job_.run_dir.events_path(),
                                     newest.generation);
    input_.lose_source();
    make_supervisor();
    node_.has_head(name_of(joined.roster.self));
    try {
        if (job_.keep_head)
            job_.keep_head();
    } catch (const Error& error) {
        job_.output.console.write_message(std::string("drain and attach find nobody: ") +
                                          error.what());
    }
    head_->take_over(newest, fence);
    for (auto& [node, visitor] : std::exchange(early_followers_, {}))
        take_follower(node, visitor);
}

// One that was given up meanwhile is not taken back: its connection closes.
void Headship::take_follower(int node, const PeerDoor::Visitor& visitor) {
    if (!head_) {
        early_followers_[node] = visitor;
        return;
    }
    if (hub_ != nullptr && head_->awaits(node) && hub_->take_back(node, visitor))
        head_->on_follower(node);
}

void Headship::follow(int head, const std::shared_ptr<ControlConnection>& connection) {
    early_followers_.clear();
    const std::string name = name_of(head);
    NodeMember& member = *job_.joined.member;
    member.follow(head, link_to_head(member, "the head, " + name + ",", connection));
    input_.lose_source();
    node_.has_head(name);
}

void Headship::stand_down(std::string_view why) {
    if (!head_)
        return;
    job_.output.console.write_message(
        job_.output.console.style().red(fmt::format("✗ {} is not the job's head any more: {}",
                                                    name_of(job_.joined.roster.self), why)) +
        "\n    its ranks are ended, and it writes nothing more of what the head writes");
    drop_supervisor("this head is not heard any more, and another one may be");
    job_.joined.member->leave_head();
    job_.run_dir.become_member();
    job_.output.reporter.become_member(job_.run_dir.events_path());
}

void Headship::strand() {
    const RecordPointer newest = quorum_->newest();
    if (job_.stranded == nullptr || !newest)
        return;
    const int self = job_.joined.roster.self;
    Stranded stranded;
    stranded.term = quorum_->followed().number;
    stranded.led = quorum_->followed().node == self;
    const JobSpec& spec = job_.plan.spec;
    stranded.settles_in = spec.rendezvous.lost_after + spec.restart.grace_period;
    stranded.log = job_.run_dir.log_of_head();
    stranded.has_saved = newest->checkpoint_step || newest->history.checkpoint_step ||
                         has_saved(job_.plan.run_dir, job_.plan.run_id);
    const RecordPointer begun = quorum_->begun();
    const auto place = static_cast<std::size_t>(self);
    if (begun) {
        stranded.generation = begun->generation;
        stranded.had_ranks =
            place < begun->ranks_per_node.size() && begun->ranks_per_node[place] > 0;
    }
    for (std::size_t at = 0; at < newest->nodes.size(); ++at) {
        const int node = static_cast<int>(at);
        if (node == self)
            stranded.place = stranded.others.size();
        else if (newest->now.find(node) != nullptr || newest->last.find(node) != nullptr)
            stranded.others.push_back({newest->nodes[at].name, newest->nodes[at].door});
    }
    job_.stranded->emplace(std::move(stranded));
}

void Headship::drop_supervisor(const std::string& outcome) {
    job_.output.console.set_tap({});
    watchers_.finish(exit_code::kNoHost, outcome);
    door_.reset();
    job_.joined.door.reset();
    head_.reset();
    stop_facts_.on_save = {};
    stop_facts_.on_checkpoint = {};
    hub_ = nullptr;
    job_.joined.head.reset();
}

void Headship::leave() {
    door_.reset();
    if (quorum_)
        quorum_->stop();
    if (head_)
        head_->leave();
    job_.output.console.set_tap({});
    job_.output.reporter.set_gate({});
}

}  // namespace autolaunch::launcher
