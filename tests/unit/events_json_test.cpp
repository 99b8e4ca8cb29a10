#include "report/event_log.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace events_json_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

template <class What>
Event event(const What& what) {
    return {std::chrono::system_clock::time_point(1'700'000'000'042ms), 2, what};
}

template <class What>
json parsed(const What& what) {
    const std::string line = to_json_line(event(what));
    CHECK(line.find('\n') == std::string::npos);
    return json::parse(line);
}

}  // namespace

TEST_CASE("a line begins with time, generation and event, and has no unknown fields") {
    StepReported step;
    step.rank = 3;
    step.step = 10;
    step.loss = 2.5;
    CHECK(
        to_json_line(event(step)) ==
        R"({"time":"2023-11-14T22:13:20.042Z","generation":2,"event":"step","rank":3,"step":10,"loss":2.5})");
}

TEST_CASE("events hold no secrets, at whatever depth") {
    GenerationFailed failure;
    failure.hostname = "hunter2";
    failure.others.resize(1);
    failure.stderr_path = "/runs/hf_SECRET123/x";
    const std::vector<std::string> known = {"hunter2"};
    const std::string line = to_json_line(event(failure), known);
    CHECK(line.find("hunter2") == std::string::npos);
    CHECK(line.find("SECRET123") == std::string::npos);
    const json raised = parsed(WarningRaised{"HF_TOKEN=\"abc\" is \"set\""});
    CHECK(raised["text"] == "HF_TOKEN=\"***\" is \"set\"");
}

TEST_CASE("a loss that is not a number is null: JSON has no NaN") {
    StepReported step;
    step.loss = std::numeric_limits<double>::quiet_NaN();
    CHECK(parsed(step)["loss"].is_null());
}

TEST_CASE("a rank's end has a code or a signal") {
    RankExited exited;
    exited.rank = 5;
    exited.exit_code = 3;
    exited.ran = 1500ms;
    json line = parsed(exited);
    CHECK(line["event"] == "rank_exited");
    CHECK(line["exit_code"] == 3);
    CHECK(line["ran_seconds"] == 1.5);
    CHECK_FALSE(line.contains("signal"));
    CHECK_FALSE(line.contains("core_dumped"));

    exited.exit_code.reset();
    exited.signal = 11;
    exited.core_dumped = true;
    line = parsed(exited);
    CHECK(line["signal"] == 11);
    CHECK(line["core_dumped"] == true);
    CHECK_FALSE(line.contains("exit_code"));
}

TEST_CASE("a failed generation has its first failure and the others in order") {
    GenerationFailed failed;
    failed.first.rank = 13;
    failed.first.signal = 11;
    failed.others.resize(2);
    failed.others[0].rank = 21;
    failed.others[0].exit_code = 1;
    failed.others[1].rank = 4;
    failed.others[1].signal = 15;
    failed.others[1].asked_to_stop = true;
    failed.restart_number = 1;
    failed.checkpoint_step = 1200;
    const json line = parsed(failed);
    CHECK(line["first"]["rank"] == 13);
    CHECK(line["others"][0]["rank"] == 21);
    CHECK(line["others"][1]["asked_to_stop"] == true);
    CHECK(line["restart_number"] == 1);
    CHECK(line["checkpoint_step"] == 1200);
    CHECK_FALSE(line.contains("oom_kills"));
    CHECK_FALSE(line.contains("gpu"));
}

TEST_CASE("a time limit is a time as every other, and what is left of it") {
    const auto ends_at = std::chrono::system_clock::time_point(1'700'003'600'000ms);
    const json line = parsed(TimeLimitKnown{.ends_at = ends_at, .left = 3600s});
    CHECK(line["event"] == "time_limit_known");
    CHECK(line["ends_at"] == "2023-11-14T23:13:20.000Z");
    CHECK(line["seconds_left"] == 3600);
}

TEST_CASE("every event has its own name") {
    CHECK(parsed(JobStarted{})["event"] == "job_started");
    CHECK(parsed(GenerationStarted{})["event"] == "generation_started");
    CHECK(parsed(RankStarted{})["event"] == "rank_started");
    CHECK(parsed(SpareReady{})["event"] == "spare_ready");
    RankStarted was_spare;
    was_spare.spare = true;
    CHECK(parsed(was_spare)["spare"] == true);
    CHECK_FALSE(parsed(RankStarted{}).contains("spare"));
    CHECK(parsed(CheckpointPublished{})["event"] == "checkpoint");
    CHECK(parsed(CheckpointLoaded{})["event"] == "checkpoint_loaded");
    CHECK(parsed(CheckpointDeleted{})["event"] == "checkpoint_deleted");
    CheckpointDrained drained;
    drained.bytes = 5;
    CHECK(parsed(drained)["event"] == "checkpoint_drained");
    CHECK(parsed(drained)["bytes"] == 5);
    CHECK(parsed(MessageReported{})["event"] == "message");
    CHECK(parsed(StopRequested{"SIGTERM"})["reason"] == "SIGTERM");
    CHECK_FALSE(parsed(StopRequested{"SIGTERM"}).contains("grace_seconds"));
    CHECK(parsed(StopRequested{.reason = "SIGTERM", .grace = 4s})["grace_seconds"] == 4.0);
    const json why = parsed(StopExplained{"preempted", "PreemptTime is set", 36s, 15s});
    CHECK(why["event"] == "stop_explained");
    CHECK(why["origin"] == "preempted");
    CHECK(why["seconds_left"] == 36);
    CHECK(why["grace_seconds"] == 15.0);
    const json budget = parsed(StopBudgetKnown{41s, 12, false, "a save takes 41 s"});
    CHECK(budget["event"] == "stop_budget");
    CHECK(budget["save_seconds"] == 41.0);
    CHECK(budget["fits"] == false);
    CHECK_FALSE(
        parsed(StopBudgetKnown{{}, 0, false, "20 s are for copies"}).contains("save_seconds"));
    CHECK_FALSE(parsed(CheckpointPublished{}).contains("save_seconds"));
    CheckpointPublished saved;
    saved.save_seconds = 2.5;
    CHECK(parsed(saved)["save_seconds"] == 2.5);
    CHECK(parsed(RankSignalled{4, 15})["event"] == "rank_signalled");
    CHECK(parsed(NodeLost{.node = "node2", .ranks = {8, 9}, .why = "w"})["ranks"] ==
          std::vector{8, 9});
    JobHung hung;
    hung.found.headline = "no step";
    hung.found.ranks = {2};
    CHECK(parsed(hung)["event"] == "job_hung");
    CHECK(parsed(hung)["what"] == "no step");
    CHECK(parsed(hung)["ranks"] == std::vector{2});
    CHECK_FALSE(parsed(hung).contains("restart_number"));
    CHECK(parsed(StragglersSeen{{3}, {"rank 3 is busy"}})["ranks"] == std::vector{3});
    CHECK(parsed(WaitsMeasured{{0, 3}, {0.5, 0.03125}})["shares"] == std::vector{0.5, 0.031});
    CHECK(parsed(HeadLost{"node1", "w"})["node"] == "node1");
    CHECK(parsed(SpawnFailed{1, "what", "hint"})["hint"] == "hint");
    CHECK(parsed(WarningRaised{"w"})["event"] == "warning");
    CHECK(parsed(GpuPlacementKnown{7, 1, {}})["as_planned"] == 7);
    CHECK_FALSE(parsed(GpuPlacementKnown{7, 1, {}}).contains("cannot_tell"));
    CHECK(parsed(GpuPlacementKnown{0, 0, "why"})["cannot_tell"] == "why");
    CHECK_FALSE(parsed(GpuPlacementKnown{0, 0, "why"}).contains("elsewhere"));
    CHECK(parsed(FlightShown{"SIGUSR2", {"a"}, "p"})["lines"] == std::vector<std::string>{"a"});
    CHECK(parsed(FlightShown{"SIGUSR2", {"a"}, "p"})["event"] == "flight");
    CHECK_FALSE(parsed(GenerationFailed{}).contains("flight_path"));
    CHECK(parsed(JobEnded{})["event"] == "job_ended");
}

TEST_CASE("text of ranks cannot break a line") {
    CHECK(parsed(MessageReported{0, "a\nb\"\x1b[2J"})["text"] == "a\nb\"\x1b[2J");
    CHECK(parsed(MessageReported{0, "latin1 \xfc"})["text"] == "latin1 \xef\xbf\xbd");
}

TEST_CASE("the end of a rank has torchelastic's keys where it is known whose it is") {
    RankExited end;
    end.rank = 5;
    end.pid = 812;
    end.signal = 9;
    Event event{{}, 2, end};
    const auto plain = nlohmann::json::parse(to_json_line(event));
    CHECK_FALSE(plain.contains("global_rank"));
    const WorkerContext workers{
        .run_id = "4711", .hostname = "n1", .group_rank = 1, .roles = {{5, "trainer"}}};
    auto line = nlohmann::json::parse(to_json_line(event, {}, &workers));
    CHECK(line["run_id"] == "4711");
    CHECK(line["global_rank"] == 5);
    CHECK(line["group_rank"] == 1);
    CHECK(line["worker_id"] == "812");
    CHECK(line["role"] == "trainer");
    CHECK(line["hostname"] == "n1");
    CHECK(line["state"] == "FAILED");
    CHECK(line["raw_error"] == "killed by SIGKILL");
    CHECK(line["agent_restarts"] == 2);
    CHECK(line["rdzv_backend"] == "autolaunch");
    CHECK(line["total_run_time"].is_number_integer());
    CHECK(line["duration_ms"] == 0);
    end = {};
    end.rank = 6;
    end.exit_code = 0;
    event.what = end;
    line = nlohmann::json::parse(to_json_line(event, {}, &workers));
    CHECK(line["state"] == "SUCCEEDED");
    CHECK(line["role"] == "default");
    CHECK_FALSE(line.contains("raw_error"));
}

}  // namespace events_json_test
