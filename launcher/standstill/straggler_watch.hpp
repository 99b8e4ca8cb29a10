#pragma once
#include "control/control_message.hpp"
#include "control/head.hpp"
#include "flight_view/flight_inquiry.hpp"
#include "flight_view/stragglers.hpp"
#include "plan/launch_plan.hpp"
#include "report/event.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <vector>

namespace autolaunch::launcher {

/// The head's part in noticing ranks for which the others wait in every step: looks at all flight
/// recorders once a window, and asks what such a rank lacks. Kills nothing.
///
/// Owner: JobSupervisor. Threads: the agent's one. Blocks: never.
class StragglerWatch {
public:
    using Report = std::function<void(Happening)>;

    /// All must outlive it.
    StragglerWatch(asio::io_context& io, const LaunchPlan& plan, Head& head, FlightInquiry& flight,
                   Report report);

    void begin_generation(int generation);
    /// Answers to its own questions, whose numbers are below 0.
    void heard(const control::ActivityRead& read);
    void stop();

private:
    void wait();
    void look(const std::vector<flight::RecordedRank>& ranks);
    void say();

    const LaunchPlan& plan_;
    Head& head_;
    FlightInquiry& flight_;
    const Report report_;
    asio::steady_timer timer_, answer_timer_;
    const std::chrono::milliseconds window_;
    StragglerBook book_;
    int generation_ = 0, request_ = 0;
    bool is_on_ = false;
    std::vector<Straggler> found_;  ///< of which it is asked what they lack
    std::vector<RankActivity> activities_;
};

}  // namespace autolaunch::launcher
