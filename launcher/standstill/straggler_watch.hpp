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
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The head's part in noticing ranks for which the others wait in every step: looks at all flight
/// recorders once a window, and asks what such a rank lacks. Ends nothing.
///
/// Owner: JobSupervisor. Threads: the agent's one. Blocks: never.
class StragglerWatch {
public:
    using Report = std::function<void(Happening)>;
    /// A rank that has been slow for long, and a sentence of it. Told in each window in which it
    /// is.
    using Lasts = std::function<void(int rank, const std::string& what)>;

    /// All must outlive it. `lasts` is asked where the spec wants stragglers replaced.
    StragglerWatch(asio::io_context& io, const LaunchPlan& plan, Head& head, FlightInquiry& flight,
                   Report report, Lasts lasts);

    void begin_generation(int generation);
    /// Answers to its own questions, whose numbers are below 0.
    void heard(const control::ActivityRead& read);
    void stop();

private:
    void wait();
    void tell_waits(const std::vector<flight::RecordedRank>& ranks) const;
    void look(const std::vector<flight::RecordedRank>& ranks);
    void say();
    std::string describe(const Straggler& straggler) const;

    const LaunchPlan& plan_;
    Head& head_;
    FlightInquiry& flight_;
    const Report report_;
    const Lasts lasts_;
    asio::steady_timer timer_, answer_timer_;
    const std::chrono::milliseconds window_;
    StragglerBook book_;
    int generation_ = 0, request_ = 0;
    bool is_on_ = false;
    std::vector<Straggler> found_;  ///< of which it is asked what they lack
    std::optional<Straggler> lasting_;
    std::vector<RankActivity> activities_;
};

}  // namespace autolaunch::launcher
