#include "supervise/stay_out.hpp"

#include "base/deadline.hpp"

#include <chrono>
#include <functional>

namespace autolaunch::launcher {

namespace {

constexpr auto kStayOutLeaveTimeout = std::chrono::seconds(5);
constexpr auto kStayOutTimeout = std::chrono::seconds(30);

void run_until(asio::io_context& io, Deadline deadline, const std::function<bool()>& over) {
    io.restart();
    while (!over() && !deadline.passed())
        io.run_one_until(deadline.at());
}

void answer(Member& member, const control::StartGeneration& start, int rank,
            const Absence& absence) {
    member.report(control::StartFailed{.generation = start.generation,
                                       .rank = rank,
                                       .exit_code = absence.exit_code,
                                       .restart_helps = false,
                                       .what = absence.what,
                                       .hint = absence.hint});
    member.report(control::RanksEnded{.generation = start.generation,
                                      .every_rank_exited_zero = false,
                                      .ends = {},
                                      .checkpoint_step = {},
                                      .age_us = 0});
}

}  // namespace

void stay_out(asio::io_context& io, Joined& joined, const Absence& absence) {
    if (joined.head) {
        joined.head->command(
            control::Finish{.exit_code = absence.exit_code, .outcome = "failed to start"});
        return run_until(io, Deadline::after(kStayOutLeaveTimeout),
                         [&] { return joined.head->all_left(); });
    }
    if (joined.roster.nodes[static_cast<std::size_t>(joined.roster.self)].ranks == 0)
        return;  // a spare less is no failure of the job
    bool over = false;
    const int rank = joined.roster.first_rank(joined.roster.self);
    joined.member->set_handlers({.on_command =
                                     [&](const control::Command& command) {
                                         if (const auto* start =
                                                 std::get_if<control::StartGeneration>(&command))
                                             answer(*joined.member, *start, rank, absence);
                                         if (std::holds_alternative<control::Finish>(command))
                                             over = true;
                                     },
                                 .on_head_lost = [&](const std::string&) { over = true; }});
    run_until(io, Deadline::after(kStayOutTimeout), [&] { return over; });
    joined.member->set_handlers({});
}

}  // namespace autolaunch::launcher
