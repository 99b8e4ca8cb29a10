#pragma once
#include "control/control_message.hpp"
#include "control/head.hpp"
#include "flight_view/flight_inquiry.hpp"
#include "progress/standstill.hpp"
#include "report/event.hpp"

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
/// Kills nothing.
///
/// Owner: JobSupervisor. Threads: the agent's one. Blocks: on the file system, where it writes.
class StandstillInquiry {
public:
    using Report = std::function<void(Happening)>;

    /// All must outlive it.
    StandstillInquiry(asio::io_context& io, Head& head, FlightInquiry& flight, Report report);

    void begin_generation(int generation, int node_count);
    void overdue(int node, const control::StepsOverdue& overdue);
    void again(int node, const control::StepsAgain& again);
    void heard(int node, control::ActivityRead&& read);
    void node_lost(int node);
    /// The generation is being ended, or has.
    void stop();

private:
    using Clock = std::chrono::steady_clock;

    void ask();
    void all_have_answered();
    void judge(std::vector<flight::RecordedRank>&& ranks);

    Head& head_;
    FlightInquiry& flight_;
    const Report report_;
    asio::steady_timer timer_;
    int generation_ = 0;
    std::set<int> nodes_;          ///< that are left
    std::set<int> missing_;        ///< that have not answered yet
    std::set<int> overdue_nodes_;  ///< whose ranks owe a step
    int request_ = 0;              ///< the newest
    bool is_asking_ = false, is_named_ = false;
    StepWatch::Overdue overdue_;  ///< of the rank that is silent longest
    Clock::time_point since_{};   ///< when that rank got on last
    int silent_nodes_ = 0;
    std::vector<RankActivity> activities_;
};

}  // namespace autolaunch::launcher
