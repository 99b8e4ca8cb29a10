#pragma once
#include "control/member.hpp"
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
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The job's data on this node's own disk: brought there once, before its first ranks start, by a
/// process beside the agent; held until the job's end, over all its generations.
///
/// Owner: the agent; outlives the generations. Threads: its one, the main one. Blocks: while that
/// process is started and ended, and while the local disk opens some folders.
class StageIn {
public:
    StageIn(asio::io_context& io, const LaunchPlan& plan);
    StageIn(const StageIn&) = delete;
    StageIn& operator=(const StageIn&) = delete;
    ~StageIn();

    /// Who is told of what happens, from within the loop.
    void set_report(std::function<void(Happening)> report) { report_ = std::move(report); }
    /// True once all is there; `then` is called after a false. Throws ExitError where something is
    /// not to be had.
    bool is_settled(std::function<void()> then);
    /// Adds where it is to what a rank is started with; what the user has set himself stays.
    void give(std::vector<std::string>& environment) const;
    /// Its helper's process, to be left alone; -1: none.
    pid_t pid() const { return stager_ ? stager_->pid() : -1; }
    int started() const { return started_; }

private:
    enum class State { idle, waiting, settled };

    void begin();
    void hear(const std::string& line);
    void take(const StagedData& data);
    void show(const StagingProgress& progress);
    void fail(StagingFailure failure);
    void settle();

    asio::io_context& io_;
    const LaunchPlan& plan_;
    std::function<void(Happening)> report_ = [](Happening) {};
    State state_ = State::idle;
    int started_ = 0;
    std::optional<MoverProcess> stager_;  ///< while it works
    std::optional<StagingFailure> failure_;
    std::map<std::string, HeldTree> held_;  ///< by name
    std::function<void()> then_;
    std::chrono::steady_clock::time_point shown_at_;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher
