// Every cell of the three tables of supervise, written out a second time, as words, and what is
// decided beside them.

#include "causes/stop_cause.hpp"
#include "exit_codes/exit_codes.hpp"
#include "generation/rank_table.hpp"
#include "post_mortem/evidence_message.hpp"
#include "restart_policy/decision.hpp"
#include "supervise/exit_decision.hpp"
#include "supervise/generation_tally.hpp"
#include "supervise/job_table.hpp"
#include "supervise/node_reports.hpp"
#include "supervise/node_table.hpp"
#include "supervise/node_warnings.hpp"
#include "supervise/stop_grace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <initializer_list>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace supervise_tables_test {

using namespace autolaunch::launcher;

namespace {

const std::vector<std::string> kRankStateNames{
    "planned", "running", "cooperative", "finishing", "saving", "interrupted",
    "leaving", "left",    "stopping",    "killed",    "ended"};
const std::vector<std::string> kRankActionNames{"-",     "message", "stop_signal",
                                                "leave", "term",    "kill"};
const std::vector<std::string> kJobStateNames{"starting", "running", "stopping", "restarting",
                                              "failing",  "waiting", "finished"};
const std::vector<std::string> kNodeStateNames{"idle",    "starting", "running",  "doubting",
                                               "failing", "ending",   "orphaned", "departing",
                                               "doomed",  "awaiting", "left"};
const std::vector<std::string> kNodeActionNames{
    "-",      "start", "running", "doubt", "glance", "failure",     "ask",  "term", "ask_leave",
    "orphan", "kill",  "clear",   "await", "ended",  "ended_await", "name", "leave"};
const std::vector<std::string> kJobActionNames{"-",    "ask",   "term",   "save",   "kill",
                                               "wait", "start", "finish", "give_up"};

const std::vector<std::string> kRankEventNames{
    "started", "start_failed", "cooperative", "user_stop", "interrupt", "heard", "no_answer",
    "insist",  "peer_failed",  "leave",       "has_left",  "rejoined",  "kill",  "exited"};
const std::vector<std::string> kJobEventNames{
    "started",    "rank_failed", "failed_for_good", "stop_asked", "stop_again",  "keeper_gone",
    "grace_over", "all_ended",   "wait_over",       "node_lost",  "node_missed", "renew",
    "hung",       "no_restart",  "after_all"};
const std::vector<std::string> kNodeEventNames{
    "start",     "all_started", "start_failed", "rank_failed", "in_doubt",   "doubt_over",
    "signalled", "by_user",     "stop_failed",  "leave",       "kill",       "finish",
    "head_lost", "keeper_gone", "ranks_ended",  "cleared",     "grace_over", "hung"};

std::vector<std::string> words(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> result;
    for (std::string word; stream >> word;)
        result.push_back(word);
    return result;
}

template <typename Enum>
Enum value_of(const std::vector<std::string>& names, const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    REQUIRE_MESSAGE(found != names.end(), name);
    return static_cast<Enum>(found - names.begin());
}

// "next" or "next/action"; "." stays and does nothing.
template <typename State, typename Action>
Transition<State, Action> expected(const std::string& cell, State state,
                                   const std::vector<std::string>& states,
                                   const std::vector<std::string>& actions) {
    if (cell == ".")
        return {state, Action::none};
    const auto slash = cell.find('/');
    const auto next = value_of<State>(states, cell.substr(0, slash));
    return {next, slash == std::string::npos ? Action::none
                                             : value_of<Action>(actions, cell.substr(slash + 1))};
}

// "state event:cell …": every event that is not named stays and does nothing.
template <typename State, typename Event, typename Action>
void check_row(const std::string& row, const std::vector<std::string>& states,
               const std::vector<std::string>& events, const std::vector<std::string>& actions) {
    const auto named = words(row);
    const auto state = value_of<State>(states, named[0]);
    std::vector<std::string> cells(events.size(), ".");
    for (std::size_t word = 1; word < named.size(); ++word) {
        const auto colon = named[word].find(':');
        const auto event = value_of<Event>(events, named[word].substr(0, colon));
        cells[static_cast<std::size_t>(event)] = named[word].substr(colon + 1);
    }
    for (std::size_t event = 0; event < events.size(); ++event) {
        INFO(named[0], " x ", events[event]);
        CHECK(transition(state, static_cast<Event>(event)) ==
              expected<State, Action>(cells[event], state, states, actions));
    }
}

}  // namespace

TEST_CASE("the rank table, cell by cell") {
    const std::vector<std::string> rows{
        "planned started:running start_failed:ended user_stop:ended interrupt:ended "
        "peer_failed:ended kill:ended",
        "running cooperative:cooperative user_stop:stopping/term "
        "interrupt:interrupted/stop_signal peer_failed:stopping/term leave:leaving/leave "
        "kill:killed/kill exited:ended",
        "cooperative user_stop:finishing/message interrupt:finishing/message "
        "peer_failed:stopping/term leave:leaving/leave kill:killed/kill exited:ended",
        "finishing heard:saving no_answer:interrupted/stop_signal peer_failed:stopping/term "
        "kill:killed/kill exited:ended",
        "saving peer_failed:stopping/term kill:killed/kill exited:ended",
        "interrupted insist:stopping/term peer_failed:stopping/term kill:killed/kill exited:ended",
        "leaving has_left:left insist:stopping/term peer_failed:stopping/term kill:killed/kill "
        "exited:ended",
        "left rejoined:running exited:ended",
        "stopping kill:killed/kill exited:ended",
        "killed exited:ended",
        "ended"};
    REQUIRE(kRankEventNames.size() == kRankEvents);
    REQUIRE(rows.size() == kRankStates);
    for (const auto& row : rows)
        check_row<RankState, RankEvent, RankAction>(row, kRankStateNames, kRankEventNames,
                                                    kRankActionNames);
}

TEST_CASE(
    "in 100,000 orders of events no signal reaches a rank that waits for the next generation") {
    std::mt19937 random(1);
    std::uniform_int_distribution<int> any(0, kRankEvents - 1);
    int left = 0;
    for (int order = 0; order < 100'000; ++order) {
        RankState state = RankState::planned;
        for (int moment = 0; moment < 12 && state != RankState::ended; ++moment) {
            const auto event = static_cast<RankEvent>(any(random));
            const RankTransition next = transition(state, event);
            if (state == RankState::left) {
                ++left;
                REQUIRE(next.action == RankAction::none);
            }
            // Only who was asked to leave has left, and only who has left comes back.
            REQUIRE((next.next != RankState::left || state == RankState::left ||
                     state == RankState::leaving));
            REQUIRE(
                (event != RankEvent::rejoined || next.next == state || state == RankState::left));
            state = next.next;
        }
        REQUIRE((state == RankState::planned ||
                 transition(state, RankEvent::exited).next == RankState::ended));
    }
    CHECK(left > 100);
}

TEST_CASE("the job table, cell by cell") {
    const std::vector<std::string> rows{
        "starting started:running rank_failed:restarting/term failed_for_good:failing/term "
        "stop_asked:stopping/ask stop_again:stopping/kill keeper_gone:stopping/kill "
        "all_ended:finished/finish node_lost:failing/term "
        "node_missed:restarting/term",
        "running rank_failed:restarting/term failed_for_good:failing/term "
        "stop_asked:stopping/ask stop_again:stopping/kill keeper_gone:stopping/kill "
        "all_ended:finished/finish node_lost:failing/term "
        "node_missed:restarting/term renew:restarting/save",
        "stopping stop_again:stopping/kill keeper_gone:stopping/kill grace_over:stopping/kill "
        "all_ended:finished/finish hung:finished/give_up",
        "restarting failed_for_good:failing stop_asked:stopping stop_again:stopping/kill "
        "keeper_gone:stopping/kill grace_over:restarting/kill all_ended:waiting/wait "
        "node_lost:failing hung:finished/give_up no_restart:failing",
        "failing after_all:restarting stop_again:failing/kill keeper_gone:failing/kill "
        "grace_over:failing/kill "
        "all_ended:finished/finish hung:finished/give_up",
        "waiting stop_asked:finished/finish stop_again:finished/finish "
        "keeper_gone:finished/finish wait_over:starting/start node_lost:finished/finish",
        "finished"};
    REQUIRE(kJobEventNames.size() == kJobEvents);
    REQUIRE(rows.size() == kJobStates);
    for (const auto& row : rows)
        check_row<JobState, JobEvent, JobAction>(row, kJobStateNames, kJobEventNames,
                                                 kJobActionNames);
}

TEST_CASE("the node table, cell by cell") {
    const std::vector<std::string> rows{
        "idle start:starting/start finish:left/leave head_lost:left/leave "
        "keeper_gone:awaiting/await",
        "starting all_started:running/running start_failed:failing rank_failed:doubting/glance "
        "in_doubt:doubting/doubt by_user:running/ask stop_failed:running/term "
        "leave:running/ask_leave kill:running/kill "
        "finish:left/leave head_lost:orphaned/orphan keeper_gone:doomed/kill",
        "running start_failed:failing rank_failed:doubting/glance in_doubt:doubting/doubt "
        "by_user:running/ask "
        "stop_failed:running/term leave:running/ask_leave kill:running/kill finish:left/leave "
        "head_lost:orphaned/orphan "
        "keeper_gone:doomed/kill ranks_ended:ending/clear hung:running/name",
        "doubting in_doubt:doubting/doubt doubt_over:failing/failure signalled:running "
        "by_user:running/ask stop_failed:doubting/term leave:doubting/ask_leave kill:doubting/kill "
        "finish:left/leave "
        "head_lost:orphaned/orphan keeper_gone:doomed/kill",
        "failing by_user:failing/ask stop_failed:failing/term leave:failing/ask_leave "
        "kill:failing/kill "
        "finish:left/leave head_lost:orphaned/orphan keeper_gone:doomed/kill "
        "ranks_ended:ending/clear hung:failing/name",
        "ending finish:left/leave head_lost:departing keeper_gone:awaiting cleared:idle/ended",
        "orphaned keeper_gone:orphaned/kill ranks_ended:departing/clear "
        "grace_over:orphaned/kill hung:left/leave",
        "departing cleared:left/leave",
        "doomed finish:left/leave head_lost:orphaned/kill ranks_ended:awaiting/clear "
        "hung:left/leave",
        "awaiting start:awaiting/ended finish:left/leave head_lost:left/leave "
        "cleared:awaiting/ended_await hung:left/leave",
        "left"};
    REQUIRE(kNodeEventNames.size() == kNodeEvents);
    REQUIRE(rows.size() == kNodeStates);
    for (const auto& row : rows)
        check_row<NodeState, NodeEvent, NodeAction>(row, kNodeStateNames, kNodeEventNames,
                                                    kNodeActionNames);
}

namespace {

// What the last of these events does.
NodeAction last_of(NodeState state, std::initializer_list<NodeEvent> events) {
    NodeAction action = NodeAction::none;
    for (const NodeEvent event : events) {
        const NodeTransition next = transition(state, event);
        state = next.next;
        action = next.action;
    }
    return action;
}

}  // namespace

TEST_CASE("an agent that nobody waits for leaves by a deadline, however it came to that") {
    using E = NodeEvent;
    CHECK(last_of(NodeState::idle, {E::keeper_gone}) == NodeAction::await_release);
    for (const auto state : {NodeState::running, NodeState::failing, NodeState::doubting})
        CHECK(last_of(state, {E::keeper_gone, E::ranks_ended, E::cleared}) ==
              NodeAction::tell_and_await_release);
    CHECK(last_of(NodeState::ending, {E::keeper_gone, E::cleared}) ==
          NodeAction::tell_and_await_release);
    CHECK(last_of(NodeState::running, {E::keeper_gone, E::ranks_ended, E::cleared, E::hung}) ==
          NodeAction::leave);
}

namespace {

enum class Lamp { off, on, broken };
enum class Touch { press, drop };
enum class Answer { none, click };

using LampTable = TransitionTable<Lamp, 3, Touch, 2, Answer>;

constexpr LampTable kLamp({{Lamp::off, Touch::press, Answer::click, Lamp::on},
                           {Lamp::on, Touch::press, Answer::click, Lamp::off},
                           {Lamp::on, Touch::drop, Answer::none, Lamp::broken}});

}  // namespace

TEST_CASE("a table of transitions says what changes, and its checks see what is wrong with it") {
    CHECK(kLamp(Lamp::on, Touch::drop) == Transition<Lamp, Answer>{Lamp::broken, Answer::none});
    CHECK(kLamp(Lamp::off, Touch::drop) == Transition<Lamp, Answer>{Lamp::off, Answer::none});
    CHECK(kLamp.lists_each_pair_once());
    CHECK(kLamp.lists_changes_only());
    CHECK(kLamp.reaches_every_state_from(Lamp::off));
    CHECK_FALSE(kLamp.reaches_every_state_from(Lamp::broken));
    CHECK_FALSE(LampTable({{Lamp::off, Touch::press, Answer::click, Lamp::on},
                           {Lamp::off, Touch::press, Answer::none, Lamp::broken}})
                    .lists_each_pair_once());
    CHECK_FALSE(
        LampTable({{Lamp::off, Touch::press, Answer::none, Lamp::off}}).lists_changes_only());
}

TEST_CASE("a node has ranks in the states that their end changes, or that hold it back") {
    for (int number = 0; number < kNodeStates; ++number) {
        const auto state = static_cast<NodeState>(number);
        INFO(kNodeStateNames[static_cast<std::size_t>(number)]);
        const bool ends = transition(state, NodeEvent::ranks_ended).next != state;
        const bool holds = state == NodeState::starting || state == NodeState::doubting;
        CHECK(has_ranks(state) == (ends || holds));
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

ExitDecision exit_of(const EndRecord& record) {
    Situation situation;
    situation.record = record;
    return decide_exit(&record, decide({}, {}, situation).action);
}

EndRecord stopped(int signal, bool all_well, bool checkpoint, std::optional<Cause> told = {}) {
    return judge_stop(
        {.signal = signal, .told = told, .all_ended_well = all_well, .has_checkpoint = checkpoint});
}

}  // namespace

TEST_CASE("in 100,000 orders of events the head starts nothing that nobody wants, and ends once") {
    std::mt19937 random(2);
    std::uniform_int_distribution<int> any(0, kJobEvents - 1);
    int generations = 0, finished = 0;
    for (int order = 0; order < 100'000; ++order) {
        JobState state = JobState::starting;
        bool has_ranks = true, stopped = false, failed_for_good = false;
        for (int moment = 0; moment < 24; ++moment) {
            const auto event = static_cast<JobEvent>(any(random));
            const JobTransition next = transition(state, event);
            const bool ends = next.action == JobAction::finish || next.action == JobAction::give_up;
            REQUIRE(ends == (next.next == JobState::finished && state != JobState::finished));
            REQUIRE((state != JobState::finished ||
                     (next.next == state && next.action == JobAction::none)));
            has_ranks = has_ranks && event != JobEvent::all_ended;
            if (next.action == JobAction::start_generation) {
                REQUIRE_FALSE((has_ranks || stopped || failed_for_good));
                has_ranks = true;
                ++generations;
            }
            // While ranks are there, only who gives up on those that hang ends the job.
            REQUIRE((next.action != JobAction::finish || !has_ranks));
            stopped = stopped || next.next == JobState::stopping ||
                      (event == JobEvent::keeper_gone && next.next != state);
            failed_for_good = next.next == JobState::failing;
            state = next.next;
        }
        for (const JobEvent event : {JobEvent::all_ended, JobEvent::stop_asked})
            state = transition(state, event).next;
        REQUIRE(state == JobState::finished);
        ++finished;
    }
    CHECK(generations > 100);
    CHECK(finished == 100'000);
}

TEST_CASE("in 100,000 orders of events a node starts nothing without its head, and leaves") {
    std::mt19937 random(3);
    std::uniform_int_distribution<int> any(0, kNodeEvents - 1);
    const auto is_alone = [](NodeState state) {
        return state == NodeState::orphaned || state == NodeState::departing ||
               state == NodeState::doomed || state == NodeState::awaiting_release ||
               state == NodeState::left;
    };
    const auto reaches_ranks = [](NodeAction action) {
        return action == NodeAction::ask_ranks_to_stop || action == NodeAction::terminate_ranks ||
               action == NodeAction::ask_ranks_to_leave || action == NodeAction::orphan_ranks ||
               action == NodeAction::kill_ranks;
    };
    int generations = 0, left = 0;
    for (int order = 0; order < 100'000; ++order) {
        NodeState state = NodeState::idle;
        int failures = 0, ends = 1;
        for (int moment = 0; moment < 24; ++moment) {
            const auto event = static_cast<NodeEvent>(any(random));
            const NodeTransition next = transition(state, event);
            REQUIRE((!is_alone(state) || is_alone(next.next)));
            REQUIRE((!reaches_ranks(next.action) || has_ranks(state)));
            REQUIRE((state != NodeState::left ||
                     (next.next == state && next.action == NodeAction::none)));
            if (next.action == NodeAction::start_ranks) {
                REQUIRE((state == NodeState::idle && ends == 1));
                failures = ends = 0;
                ++generations;
            }
            failures += next.action == NodeAction::report_failure ? 1 : 0;
            REQUIRE(failures <= 1);
            if (next.action == NodeAction::tell_ended && state != NodeState::awaiting_release)
                REQUIRE(++ends == 1);
            state = next.next;
        }
        // However it came to that: its keeper goes, all end, and its deadlines pass.
        for (const NodeEvent event : {NodeEvent::doubt_over, NodeEvent::keeper_gone,
                                      NodeEvent::ranks_ended, NodeEvent::cleared, NodeEvent::hung})
            state = transition(state, event).next;
        REQUIRE(state == NodeState::left);
        ++left;
    }
    CHECK(generations > 1000);
    CHECK(left == 100'000);
}

TEST_CASE("the exit code and the outcome are the record's, of whatever cause") {
    CHECK(decide_exit(nullptr, RestartAction::stop).code == 0);
    CHECK(decide_exit(nullptr, RestartAction::stop).outcome == "succeeded");
    EndRecord failure;
    failure.cause = Cause::crash;
    failure.exit_code = 139;
    CHECK(exit_of(failure).code == 139);
    CHECK(exit_of(failure).outcome == "failed");
    CHECK(decide_exit(&failure, RestartAction::requeue).code == exit_code::kRequeue);
    CHECK(decide_exit(&failure, RestartAction::requeue).outcome == "failed, to be requeued");
    CHECK(exit_of(judge_lost_node("node2", "silent", false)).code == exit_code::kNoHost);
    CHECK(exit_of(judge_lost_node("node2", "silent", false)).outcome == "failed: node2 was lost");
    // Other nodes can take it up.
    CHECK(exit_of(judge_lost_node("node2", "silent", true)).code == exit_code::kRequeue);
    CHECK(exit_of(judge_agent_killed("")).code == 137);
    CHECK(judge_agent_killed("").node.empty());
    CHECK(judge_agent_killed("node2").node == "node2");
    CHECK(judge_agent_killed("node2").what == "autolaunch itself was killed on node2");
    const EndRecord start = judge_start({.exit_code = 127, .node = {}, .what = "x", .hint = {}});
    CHECK(exit_of(start).code == 127);
    CHECK(exit_of(start).outcome == "failed to start");
}

TEST_CASE("what hangs in the kernel is neither restarted nor requeued, whatever ended it") {
    for (const EndRecord& record :
         {judge_lost_node("node2", "silent", true), stopped(SIGTERM, true, true)}) {
        const EndRecord hung = with_processes_left(record);
        CHECK(hung.cause == record.cause);
        CHECK(exit_of(hung).code == exit_code::kSystem);
        CHECK(exit_of(hung).outcome == "failed: processes that hang in the kernel are left");
    }
}

TEST_CASE(
    "a stopped job asks to be requeued only when it can go on, and when a scheduler stopped it") {
    CHECK(exit_of(stopped(SIGTERM, true, true)).code == exit_code::kRequeue);
    CHECK(exit_of(stopped(SIGUSR1, true, true)).code == exit_code::kRequeue);
    CHECK(exit_of(stopped(SIGTERM, true, true, Cause::preempted)).code == exit_code::kRequeue);
    CHECK(exit_of(stopped(SIGTERM, true, true, Cause::cancelled)).code == 143);
    CHECK(exit_of(stopped(SIGTERM, true, false)).code == 143);
    CHECK(exit_of(stopped(SIGTERM, false, true)).code == 143);
    CHECK(exit_of(stopped(SIGINT, true, true)).code == 130);
    CHECK(exit_of(stopped(SIGHUP, true, true)).code == 129);
    CHECK(exit_of(stopped(SIGTERM, false, false)).outcome == "stopped by SIGTERM");
    RestartSpec never;
    never.on[Cause::cancelled].action = RestartAction::stop;
    Situation situation;
    situation.record = stopped(SIGTERM, true, true);
    CHECK(decide(never, {}, situation).action == RestartAction::stop);
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

namespace {

using Moment = GenerationTally::Moment;

constexpr Moment at(int ms) { return Moment(std::chrono::milliseconds(ms)); }

control::RankFailed failure_of(int rank, std::uint64_t age_ms) {
    control::RankFailed failed;
    failed.end.rank = rank;
    failed.end.exit_code = 1;
    failed.age_us = age_ms * 1000;
    return failed;
}

control::RanksEnded end_of(std::vector<int> ranks, std::uint64_t age_ms = 0, bool all_zero = true) {
    control::RanksEnded ended;
    ended.every_rank_exited_zero = all_zero;
    ended.age_us = age_ms * 1000;
    for (const int rank : ranks) {
        RankExited end;
        end.rank = rank;
        ended.ends.push_back(end);
    }
    return ended;
}

}  // namespace

TEST_CASE("the earliest failure counts, not the one that was heard of first") {
    GenerationTally tally(0, 3, at(0));
    tally.failed(2, failure_of(9, 1), at(100));  // at 99
    CHECK(tally.first_failure()->what.end.rank == 9);
    tally.failed(0, failure_of(2, 0), at(101));
    CHECK(tally.first_failure()->what.end.rank == 9);
    tally.failed(1, failure_of(17, 40), at(130));  // at 90
    CHECK(tally.first_failure()->what.end.rank == 17);
    CHECK(tally.first_failure()->at == at(90));
    tally.failed(1, failure_of(18, 40), at(130));  // the same moment: the first heard of stays
    CHECK(tally.first_failure()->what.end.rank == 17);
    auto stopped = failure_of(3, 60);  // earlier, and by what it says alone
    stopped.end.asked_to_stop = true;
    tally.failed(0, stopped, at(130));
    CHECK(tally.first_failure()->what.end.rank == 17);
    CHECK(tally.failures().size() == 5);
}

TEST_CASE("how late a node's word may come is what its start took beyond its own time") {
    GenerationTally tally(3, 2, at(0));
    tally.running(1, {3, 5000, 8, 2, 8}, at(7));
    tally.failed(1, failure_of(9, 0), at(100));
    tally.failed(0, failure_of(1, 0), at(101));
    CHECK(tally.failures()[0].link == std::chrono::milliseconds(2));
    CHECK(tally.failures()[1].link ==
          GenerationTally::kUnknownLink);  // it has never said that it runs
}

TEST_CASE("a generation runs when all nodes do, and is over when all have ended or are lost") {
    GenerationTally tally(3, 3, at(0));
    tally.running(0, {3, 5000, 8, 2, 8}, at(10));
    tally.running(1, {3, 6000, 7, 1, 4}, at(10));
    CHECK_FALSE(tally.all_running());
    tally.running(2, {3, 5000, 8, 2, 0}, at(10));
    CHECK(tally.all_running());
    CHECK(tally.ranks_bound() == 23);
    CHECK(tally.numa_nodes() == 5);
    CHECK(tally.gpus() == 12);
    tally.ended(1, end_of({2, 3}, 5), at(100));
    tally.ended(1, end_of({2, 3}), at(120));  // once is enough
    CHECK_FALSE(tally.all_ended());
    tally.lost(2);
    tally.lost(2);
    tally.lost(1);
    CHECK_FALSE(tally.all_ended());
    tally.ended(0, end_of({1, 0}, 20), at(110));
    CHECK(tally.all_ended());
    CHECK(tally.last_end() == at(95));
    CHECK_FALSE(tally.every_rank_exited_zero());  // nobody knows of node 2
    std::vector<int> ranks;
    for (const auto& end : tally.ends_but(3))
        ranks.push_back(end.rank);
    CHECK(ranks == std::vector{1, 0, 2});
}

TEST_CASE("a generation that was never started is over, and the newest checkpoint counts") {
    GenerationTally unborn(0, 2, at(0));
    unborn.never_started();
    CHECK(unborn.all_ended());
    CHECK_FALSE(unborn.every_rank_exited_zero());
    GenerationTally tally(0, 2, at(0));
    auto first = end_of({}), second = end_of({});
    first.checkpoint_step = 40;
    second.checkpoint_step = 30;
    tally.ended(0, first, at(1));
    tally.ended(1, second, at(2));
    CHECK(tally.checkpoint_step() == 40);
    CHECK(tally.every_rank_exited_zero());
}

TEST_CASE("equal warnings of nodes are one line, and what was said is not said again") {
    NodeWarnings warnings({"no GPUs"});
    for (const char* node : {"n1", "n2", "n3", "n4", "n5"}) {
        warnings.add(node, "no GPUs");
        warnings.add(node, "few cores");
    }
    warnings.add("n2", "few cores");
    warnings.add("n2", "no swap");
    CHECK(warnings.take() ==
          std::vector<std::string>{"n1, n2, n3 and 2 more: few cores", "n2: no swap"});
    CHECK(warnings.take().empty());
}

TEST_CASE("what flight recorders say goes to the head in parts, and where there is nothing, too") {
    for (const std::size_t ranks : {0U, 1U, 64U, 65U, 128U, 130U}) {
        std::vector<autolaunch::flight::RecordedRank> recorded(ranks);
        for (std::size_t rank = 0; rank < ranks; ++rank)
            recorded[rank].rank = static_cast<int>(rank);
        const auto reports = flight_reports(recorded);
        CHECK(reports.size() == std::max<std::size_t>(1, (ranks + 63) / 64));
        int next = 0;
        for (const auto& report : reports) {
            CHECK(report.more == (&report != &reports.back()));
            CHECK(report.ranks.size() <= control::kFlightRanks);
            for (const auto& rank : report.ranks)
                CHECK(rank.rank == next++);
        }
        CHECK(next == static_cast<int>(ranks));
    }
}

TEST_CASE("what a rank said fits its message, and comes back") {
    FailureEvidence evidence;
    for (int line = 0; line < 20; ++line)
        evidence.last_lines.push_back(std::string(3000, 'x') + std::to_string(line));
    evidence.last_lines.back() = "the last";
    evidence.error_message = "ValueError: bad\nsecond line";
    evidence.callstack = {"  File \"train.py\"", "ValueError: bad"};
    control::RankFailed failed;
    put_evidence(evidence, failed);
    CHECK(failed.stderr_tail.size() <= control::kEvidenceLimit);
    CHECK(failed.stdout_tail.empty());
    FailureEvidence back = evidence_of(failed);
    CHECK(back.last_lines.size() > 10);
    CHECK(back.last_lines.back() == "the last");
    CHECK_FALSE(back.from_stdout);
    CHECK(back.error_message == "ValueError: bad");
    CHECK(back.callstack == evidence.callstack);
    CHECK_FALSE(back.may_miss_words);
    evidence.may_miss_words = true;
    put_evidence(evidence, failed);
    CHECK(evidence_of(failed).may_miss_words);
    failed = {};
    put_evidence({.last_lines = {"bye"}, .from_stdout = true, .error_message = {}, .callstack = {}},
                 failed);
    back = evidence_of(failed);
    CHECK(back.from_stdout);
    CHECK(back.last_lines == std::vector<std::string>{"bye"});
    CHECK(evidence_of({}).last_lines.empty());
}

TEST_CASE("that a stop has less time than the spec gives is said") {
    using namespace std::chrono_literals;
    LaunchPlan plan;
    plan.kill_wait = 5s;
    CHECK(
        shortened_notice(plan, 4s) ==
        "restart.grace_period is 15 s, but SIGKILL comes 5.0 s (restart.kill_wait) after SIGTERM: "
        "the ranks have 4.0 s");
    plan.slurm_job_id = "7";
    CHECK(shortened_notice(plan, 4s).find("Slurm sends SIGKILL 5.0 s (KillWait) after SIGTERM") !=
          std::string::npos);
}

}  // namespace supervise_tables_test
