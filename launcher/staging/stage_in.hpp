#pragma once
#include "base/locked_folder.hpp"
#include "control/member.hpp"
#include "exit_codes/exit_error.hpp"
#include "hand_over/hand_over.hpp"
#include "hand_over/mover_process.hpp"
#include "plan/launch_plan.hpp"
#include "report/event.hpp"
#include "stage_cache/stage_cache.hpp"
#include "staging/stager_words.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The job's data on this node's own disk: brought there once, before its first ranks start, by a
/// process beside the agent; held until the job's end, over all its generations. Of several nodes
/// the first looks at the sources and reads what is missing anywhere, and the others have it from
/// there (HandOver); a node whose head is another one by then reads for itself.
///
/// Owner: the agent; outlives the generations. Threads: its one, the main one. Blocks: while that
/// process is started and ended, and while the local disk opens some folders.
class StageIn {
public:
    /// `address` is where other nodes reach this one.
    StageIn(asio::io_context& io, const LaunchPlan& plan, Member& member, std::string address);
    StageIn(const StageIn&) = delete;
    StageIn& operator=(const StageIn&) = delete;
    ~StageIn();

    /// Who is told of what happens, from within the loop.
    void set_report(std::function<void(Happening)> report) { report_ = std::move(report); }
    /// Who is told where something is not to be had after ranks were started without it; what waits
    /// for it fails then, too.
    void set_failure(std::function<void(const ExitError&)> on_failure) {
        on_failure_ = std::move(on_failure);
    }
    /// Ranks of this node run, and not all of their data is there.
    bool comes() const { return ranks_may_start_ && state_ == State::waiting; }
    /// True once ranks can be started: all is there that they wait for, and of the rest it is known
    /// what it will be; `then` is called after a false. Throws ExitError where something is not to
    /// be had.
    bool is_settled(int generation, std::function<void()> then);
    /// On the head, before ranks of that generation are started: other nodes may ask.
    void serve(int generation);
    /// Adds where it is to what a rank is started with; what the user has set himself stays.
    void give(std::vector<std::string>& environment) const;
    /// Its helpers' processes, to be left alone.
    std::vector<pid_t> pids() const;
    int started() const;

private:
    enum class State { idle, waiting, settled };

    StagerRole role() const;
    void listen(int generation);
    void begin();
    void hear(const std::string& line);
    void hear_node(int node, std::string_view text);
    void take_sources(const std::vector<SeenSource>& sources);
    void answer_all();
    void leave_head();
    HandOver& hand_over_of(int item);
    std::function<void(const HandOver::Copy&)> copies_of(int item);
    void want(const WantedFiles& wanted);
    void give_handed(int item);
    std::optional<HeldTree> hold(const StagedData& data, std::string& why) const;
    void take(const StagedData& data);
    void take(const StreamBegun& stream);
    void see_whether_all_began();
    void let_start();
    void make_streams_folder();
    void mark_all_used();
    void tell_waiting(const StagingFailure& failure) const;
    void show(const StagingProgress& progress);
    void fail(StagingFailure failure);
    void settle();

    asio::io_context& io_;
    const LaunchPlan& plan_;
    Member& member_;
    const std::string address_;
    int generation_ = -1;
    std::function<void(Happening)> report_ = [](Happening) {};
    State state_ = State::idle;
    int started_ = 0;
    bool has_folder_ = false;             ///< for what is handed on
    bool is_node_ = false;                ///< it has it from the head
    std::optional<MoverProcess> stager_;  ///< while it works, or keeps what is handed on
    std::map<int, HandOver> handed_;      ///< by item
    std::map<int, std::int64_t> bytes_;   ///< the same, where it is known
    asio::steady_timer head_answer_, mark_;
    // On the head.
    std::map<int, SeenSource> sources_;               ///< what other nodes are told, by item
    std::vector<int> asking_;                         ///< nodes that wait for that
    std::set<int> told_;                              ///< and those that hear of what changes
    std::map<int, WantedFiles> offered_;              ///< what can be handed on, by item
    std::vector<std::pair<int, std::string>> early_;  ///< from nodes that came before that
    std::optional<StagingFailure> failure_;
    std::map<std::string, HeldTree> held_;  ///< by name
    std::optional<LockedFolder> streams_;   ///< what ranks look into while data comes
    std::string streams_path_;
    std::map<std::string, std::string> coming_;  ///< of these the places there, by name
    bool ranks_may_start_ = false;
    std::function<void(const ExitError&)> on_failure_ = [](const ExitError&) {};
    std::function<void()> then_;
    std::chrono::steady_clock::time_point shown_at_;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher
