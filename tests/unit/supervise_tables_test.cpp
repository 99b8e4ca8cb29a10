// Every cell of the two tables of supervise, written out a second time, as words.

#include "report/exit_codes.hpp"
#include "supervise/exit_decision.hpp"
#include "supervise/job_table.hpp"
#include "supervise/rank_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <sstream>
#include <string>
#include <vector>

using namespace autolaunch::launcher;

namespace {

const std::vector<std::string> kRankStateNames{"planned",  "running", "cooperative", "finishing",
                                               "stopping", "killed",  "ended"};
const std::vector<std::string> kRankActionNames{"-", "message", "term", "kill"};
const std::vector<std::string> kJobStateNames{"starting", "running", "stopping", "restarting",
                                              "failing",  "waiting", "finished"};
const std::vector<std::string> kJobActionNames{"-", "ask", "term", "kill", "wait", "start", "finish"};

std::vector<std::string> words(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> result;
    for (std::string word; stream >> word;) result.push_back(word);
    return result;
}

template <typename Enum>
Enum value_of(const std::vector<std::string>& names, const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    REQUIRE_MESSAGE(found != names.end(), name);
    return static_cast<Enum>(found - names.begin());
}

// "next" or "next/action"; "." stays and does nothing.
template <typename Transition, typename State, typename Action>
Transition expected(const std::string& cell, State state, const std::vector<std::string>& states,
                    const std::vector<std::string>& actions) {
    if (cell == ".") return {state, Action::none};
    const auto slash = cell.find('/');
    const auto next = value_of<State>(states, cell.substr(0, slash));
    return {next, slash == std::string::npos ? Action::none : value_of<Action>(actions, cell.substr(slash + 1))};
}

}  // namespace

TEST_CASE("the rank table, cell by cell") {
    //  state        started  start_failed cooperative  user_stop          peer_failed    kill         exited
    const std::array<std::string, kRankStates> rows{
        "planned      running  ended        .            ended              ended          ended        .",
        "running      .        .            cooperative  stopping/term      stopping/term  killed/kill  ended",
        "cooperative  .        .            .            finishing/message  stopping/term  killed/kill  ended",
        "finishing    .        .            .            .                  stopping/term  killed/kill  ended",
        "stopping     .        .            .            .                  .              killed/kill  ended",
        "killed       .        .            .            .                  .              .            ended",
        "ended        .        .            .            .                  .              .            ."};
    for (const auto& row : rows) {
        const auto cells = words(row);
        REQUIRE(cells.size() == 1 + kRankEvents);
        const auto state = value_of<RankState>(kRankStateNames, cells[0]);
        for (int event = 0; event < kRankEvents; ++event) {
            INFO(cells[0], " x event ", event);
            CHECK(transition(state, static_cast<RankEvent>(event)) ==
                  expected<RankTransition, RankState, RankAction>(cells[1 + event], state, kRankStateNames,
                                                                  kRankActionNames));
        }
    }
}

TEST_CASE("the job table, cell by cell") {
    //  state       started  failed           failed_for_good  stop          again          keeper_gone    grace_over
    //              all_ended  wait_over
    const std::array<std::string, kJobStates> rows{
        "starting   running  restarting/term  failing/term     stopping/ask  stopping/kill  stopping/kill  . "
        "           finished/finish  .",
        "running    .        restarting/term  failing/term     stopping/ask  stopping/kill  stopping/kill  . "
        "           finished/finish  .",
        "stopping   .        .                .                .             stopping/kill  stopping/kill  "
        "stopping/kill "
        "           finished/finish  .",
        "restarting .        .                failing          stopping      stopping/kill  stopping/kill  "
        "restarting/kill "
        "           waiting/wait     .",
        "failing    .        .                .                .             failing/kill   failing/kill   "
        "failing/kill "
        "           finished/finish  .",
        "waiting    .        .                .          finished/finish  finished/finish  finished/finish  . "
        "           .                starting/start",
        "finished   .        .                .                .             .              .              . "
        "           .                ."};
    for (const auto& row : rows) {
        const auto cells = words(row);
        REQUIRE(cells.size() == 1 + kJobEvents);
        const auto state = value_of<JobState>(kJobStateNames, cells[0]);
        for (int event = 0; event < kJobEvents; ++event) {
            INFO(cells[0], " x event ", event);
            CHECK(
                transition(state, static_cast<JobEvent>(event)) ==
                expected<JobTransition, JobState, JobAction>(cells[1 + event], state, kJobStateNames, kJobActionNames));
        }
    }
}

namespace {

RankExited exited_with(int code) {
    RankExited exited;
    exited.exit_code = code;
    return exited;
}

RankExited killed_by(int signal) {
    RankExited exited;
    exited.signal = signal;
    return exited;
}

JobOutcome stopped(int signal, bool all_zero, bool checkpoint) {
    JobOutcome outcome;
    outcome.stop_signal = signal;
    outcome.every_rank_exited_zero = all_zero;
    outcome.has_checkpoint = checkpoint;
    return outcome;
}

}  // namespace

TEST_CASE("the exit code is the first failing rank's") {
    CHECK(decide_exit({}).code == 0);
    CHECK(decide_exit({}).outcome == "succeeded");
    JobOutcome outcome;
    outcome.first_failure = exited_with(3);
    CHECK(decide_exit(outcome).code == 3);
    outcome.first_failure = killed_by(SIGSEGV);
    CHECK(decide_exit(outcome).code == 139);
    outcome.cannot_start_code = exit_code::kNotFound;
    CHECK(decide_exit(outcome).code == 127);
}

TEST_CASE("a stopped job asks to be requeued only when it can go on, and when a scheduler stopped it") {
    CHECK(decide_exit(stopped(SIGTERM, true, true)).code == exit_code::kRequeue);
    CHECK(decide_exit(stopped(SIGUSR1, true, true)).code == exit_code::kRequeue);
    CHECK(decide_exit(stopped(SIGTERM, true, false)).code == 143);
    CHECK(decide_exit(stopped(SIGTERM, false, true)).code == 143);
    CHECK(decide_exit(stopped(SIGINT, true, true)).code == 130);
    CHECK(decide_exit(stopped(SIGHUP, true, true)).code == 129);
    CHECK(decide_exit(stopped(SIGTERM, false, false)).outcome == "stopped by SIGTERM");
}

TEST_CASE("an end that we asked for is no failure") {
    CHECK_FALSE(is_failure(exited_with(0)));
    CHECK(is_failure(exited_with(1)));
    CHECK(is_failure(killed_by(SIGTERM)));
    RankExited asked = killed_by(SIGTERM);
    asked.asked_to_stop = true;
    CHECK_FALSE(is_failure(asked));
}

TEST_CASE("an end by a stop signal is known in both of its forms") {
    CHECK(looks_stopped_by(killed_by(SIGTERM), SIGTERM));
    CHECK(looks_stopped_by(exited_with(128 + SIGTERM), SIGTERM));
    CHECK_FALSE(looks_stopped_by(killed_by(SIGSEGV), SIGTERM));
    CHECK_FALSE(looks_stopped_by(exited_with(1), SIGTERM));
}
