#pragma once
#include "control/control_message.hpp"
#include "control/head.hpp"
#include "flight_view/flight_inquiry.hpp"
#include "progress/standstill.hpp"
#include "report/event.hpp"
#include "restart_policy/hang_limit.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <vector>

namespace autolaunch::launcher {

/// The head's part in noticing that the job stands still: when a node says that a step is overdue,
/// asks all what their ranks do and where their flight recorders are, and says it once it is sure.
/// Says when the generation is to be ended for it, and not before the threads of those who hold it
/// up are written down, or 10 s have passed over that. Kills nothing.
///
/// Owner: JobSupervisor. Threads: the agent's one. Blocks: on the file system, where it writes.
class StandstillInquiry {
public:
    using Report = std::function<void(Happening)>;
    using End = std::function<void(const StandstillNoticed&)>;

    /// All must outlive it. No limit: the generation is never ended.
    StandstillInquiry(asio::io_context& io, Head& head, FlightInquiry& flight,
                      std::optional<HangLimit> limit, Report report, End end);

    void begin_generation(int generation, int node_count);
    void overdue(int node, const control::StepsOverdue& overdue);
    void again(int node, const control::StepsAgain& again);
    void heard(int node, control::ActivityRead&& read);
    void heard(const control::StacksWritten& written);
    void node_lost(int node);
    /// The generation is being ended, or has.
    void stop();

private:
    using Clock = std::chrono::steady_clock;

    void ask(bool with_stacks);
    void all_have_answered();
    void judge(std::vector<flight::RecordedRank>&& ranks);
    StandstillNoticed describe(const Standstill& found, const FlightPicture& picture);
    void want_stacks(const std::vector<int>& ranks);
    void end_when_written(StandstillNoticed&& found);
    void end();

    Head& head_;
    FlightInquiry& flight_;
    const std::optional<HangLimit> limit_;
    const Report report_;
    const End end_;
    asio::steady_timer timer_, stacks_timer_;
    int generation_ = 0;
    std::set<int> nodes_;          ///< that are left
    std::set<int> missing_;        ///< that have not answered yet
    std::set<int> overdue_nodes_;  ///< whose ranks owe a step
    int request_ = 0;              ///< the newest
    bool is_asking_ = false, is_named_ = false, with_stacks_ = false;
    StepWatch::Overdue overdue_;  ///< of the rank that is silent longest
    Clock::time_point since_{};   ///< when that rank got on last
    int silent_nodes_ = 0;
    std::vector<RankActivity> activities_;
    std::optional<std::chrono::milliseconds> quiet_;  ///< the least of all nodes
    StandstillNoticed named_;                         ///< the newest
    bool stacks_wanted_ = false;
    std::set<int> stacks_missing_;             ///< ranks whose threads are being written down
    std::optional<StandstillNoticed> ending_;  ///< that ends the generation, when they are
};

}  // namespace autolaunch::launcher
