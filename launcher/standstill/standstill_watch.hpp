#pragma once
#include "control/control_message.hpp"
#include "progress/step_watch.hpp"
#include "report/event.hpp"
#include "standstill/python_stacks.hpp"
#include "standstill/rank_stacks.hpp"
#include "standstill/signs_of_life.hpp"

#include <sys/types.h>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// A node's part in noticing that the job stands still: tells the head of a rank whose next step is
/// overdue, and what all its ranks do when the head asks.
///
/// Owner: NodeSupervisor. Threads: the agent's one. Blocks: never; reads /proc.
class StandstillWatch {
public:
    using Ranks = std::function<std::vector<std::pair<int, pid_t>>()>;  ///< that are there
    using Gpus = std::function<std::vector<GpuPace>()>;                 ///< of those ranks
    using Tell = std::function<void(control::Report&&)>;

    /// `told`: a limit by the user's word. `data_comes`: ranks may wait for what is brought to this
    /// node meanwhile, and whoever brings it is watched.
    StandstillWatch(
        asio::io_context& io, const std::filesystem::path& run_dir,
        std::optional<std::chrono::milliseconds> told, Ranks ranks, Gpus gpus, Tell tell,
        std::function<bool()> data_comes = [] { return false; });

    void begin_generation(int generation);
    void note(const Happening& happening);
    void phase(int rank, bool begins);
    /// Two looks, and then the answer. A newer request takes the place of one that is under way.
    void asked(const control::AskActivity& ask);
    /// The rank's Python can say where its threads are.
    void can_tell_stacks(int rank, pid_t pid, const session::PythonStacks& stacks) {
        python_.can_tell(rank, pid, stacks);
    }
    void write_stacks(const control::WriteStacks& wanted);
    /// Nothing is overdue any more: the ranks are being stopped, or have ended.
    void stop();

private:
    void look();
    void answer();
    void tell_of_strange_traffic();
    void add_python_place(RankActivity& activity) const;

    const std::optional<std::chrono::milliseconds> told_;
    Ranks ranks_;
    Gpus gpus_;
    Tell tell_;
    std::function<bool()> data_comes_;
    asio::steady_timer look_timer_, answer_timer_;
    const std::filesystem::path run_dir_;
    StepWatch pace_;
    SignsOfLife signs_;
    PythonStacks python_;
    RankStacks stacks_;
    int generation_ = 0;
    bool is_on_ = false, reports_steps_ = false, is_overdue_ = false, was_far_ = false;
    bool told_of_traffic_ = false;
    StepWatch::Moment told_at_{}, looked_at_{};
    control::AskActivity asked_;
    std::vector<std::pair<std::pair<int, pid_t>, ActivityLook>> first_looks_;
};

}  // namespace autolaunch::launcher
