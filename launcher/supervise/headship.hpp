#pragma once
#include "control/head_hub.hpp"
#include "control/local_link.hpp"
#include "quorum/quorum.hpp"
#include "supervise/console_watchers.hpp"
#include "supervise/job_supervisor.hpp"
#include "supervise/node_supervisor.hpp"
#include "supervise/supervise.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// This agent's being head, or not: makes and ends the JobSupervisor, as the job begins and as the
/// agents agree on who is head, and tells the node's part of it.
///
/// Owner: supervise(). Threads: the main one. Blocks: leave(), some seconds at most.
class Headship {
public:
    /// All must outlive it; `job.joined` is what it changes.
    Headship(asio::io_context& io, const PreparedJob& job, NodeSupervisor& node,
             StopFacts& stop_facts, JobInput& input, StageOut* stage_out);
    Headship(const Headship&) = delete;
    Headship& operator=(const Headship&) = delete;
    ~Headship();

    /// Before the node runs.
    void start();
    /// When it has left.
    void leave();
    /// While this agent is head.
    std::optional<JobFacts> job_facts() const {
        return head_ ? std::optional(head_->facts()) : std::nullopt;
    }

private:
    void open_quorum();
    Quorum::Handlers handlers();
    void make_supervisor();
    void lead(const GenerationRecord& newest, std::chrono::milliseconds fence);
    void learn_nodes(const GenerationRecord& newest);
    void take_follower(int node, const PeerDoor::Visitor& visitor);
    void follow(int head, const std::shared_ptr<ControlConnection>& connection);
    void stand_down(std::string_view why);
    void strand();
    void drop_supervisor(const std::string& outcome);
    const std::string& name_of(int node) const;

    asio::io_context& io_;
    const PreparedJob& job_;
    NodeSupervisor& node_;
    StopFacts& stop_facts_;
    JobInput& input_;
    StageOut* const stage_out_;  ///< null: the job has nothing of that kind
    ConsoleWatchers watchers_;
    std::optional<Quorum> quorum_;
    HeadHub* hub_ = nullptr;  ///< of another head's job that this agent has taken over
    std::optional<JobSupervisor> head_;
    std::optional<LocalDoor> door_;
    std::map<int, PeerDoor::Visitor> early_followers_;  ///< before this agent leads
};

}  // namespace autolaunch::launcher
