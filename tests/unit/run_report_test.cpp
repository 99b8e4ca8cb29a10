// Reports of run directories: what events become, and what hostile words become on a page.
#include "remains/exit_certificate.hpp"
#include "remains/processes_of_jobs.hpp"
#include "report/event_log.hpp"
#include "report/parse_event.hpp"
#include "run_report/html_text.hpp"
#include "run_report/record_builder.hpp"
#include "run_report/report.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace run_report_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

const std::string kHostile = "<script>alert(1)</script>\"'><img src=x>\x1b[31m\x07\xff";

template <class What>
std::string line(std::int64_t ms, int generation, const What& what) {
    return to_json_line(
        {std::chrono::system_clock::time_point(1'700'000'000'000ms) + std::chrono::milliseconds(ms),
         generation, what});
}

JobStarted job_of(int world_size) {
    JobStarted job;
    job.job_name = "gpt";
    job.run_id = "4711";
    job.hostname = "node1";
    job.world_size = world_size;
    job.preparation = 100ms;
    return job;
}

/// A generation of ten steps and a checkpoint that fails, and one that goes on to the end.
RecordBuilder trained(const std::string& word) {
    RecordBuilder builder("/runs/4711", {"hunter2hunter2"});
    builder.line(line(100, 0, job_of(4)));
    for (int rank = 0; rank < 4; ++rank)
        builder.line(line(
            200, 0, RankStarted{.rank = rank, .local_rank = rank, .pid = 10 + rank, .gpu = rank}));
    builder.line(line(300, 0, GenerationStarted{.gpus = 4}));
    for (int step = 1; step <= 10; ++step)
        for (int rank = 0; rank < 4; ++rank)
            builder.line(line(1000 + 100 * step, 0,
                              StepReported{.rank = rank,
                                           .step = step,
                                           .total_steps = {},
                                           .tokens = 8,
                                           .loss = 2.5,
                                           .seconds = 0.1}));
    builder.line(line(
        2000, 0, CheckpointPublished{.rank = 0, .step = 10, .path = "/c", .stall_seconds = 0.1}));
    builder.line(line(
        2400, 0, StopRequested{.reason = "rank 3 failed", .failed = true, .detection = 100ms}));
    GenerationFailed failed;
    failed.first = {
        .rank = 3, .local_rank = 3, .pid = 13, .exit_code = {}, .signal = 11, .last_step = {}};
    failed.hostname = word;
    failed.restart_number = 1;
    failed.max_restarts = 3;
    failed.checkpoint_step = 10;
    builder.line(line(2500, 0, failed));
    builder.line(line(3000, 1, GenerationStarted{.generation = 1, .gpus = 4}));
    builder.line(line(
        3500, 1,
        StepReported{
            .rank = 0, .step = 11, .total_steps = {}, .tokens = {}, .loss = {}, .seconds = 0.2}));
    builder.line(line(3600, 1, WarningRaised{word}));
    builder.line(
        line(4000, 1, JobEnded{.exit_code = 0, .outcome = "succeeded", .restarts = 1, .ran = 4s}));
    return builder;
}

}  // namespace

TEST_CASE("what is written of an event is read again") {
    const std::string text = line(42, 3, job_of(8));
    const auto event = parse_event(json::parse(text));
    REQUIRE(event);
    CHECK(to_json_line(*event) == text);
    CHECK_FALSE(parse_event(json::parse(
        R"({"time":"2026-01-31T12:00:00.042Z","generation":0,"event":"of_next_year"})")));
    CHECK_THROWS(parse_event(json::parse(R"({"time":"now","generation":0,"event":"step"})")));
    CHECK_FALSE(parse_event_time("2026-02-30T12:00:00.042Z"));
    CHECK_FALSE(parse_event_time("9026-02-20T12:00:00.042Z"));
    CHECK_FALSE(parse_event_time("0026-02-20T12:00:00.042Z"));
    CHECK_FALSE(parse_event_time("2026-02-20T-2:00:00.042Z"));
    CHECK(parse_event_time("2261-12-31T23:59:59.999Z"));
}

TEST_CASE("a record has the parts of the time, the failure and the pace; the ledger agrees") {
    const RunRecord record = trained("node1").take();
    CHECK(record.gaps.empty());
    CHECK(record.outcome == "succeeded");
    REQUIRE(record.failures.size() == 1);
    CHECK(record.failures[0].who == "rank 3 (node1, pid 13)");
    CHECK(record.failures[0].how == "was killed by SIGSEGV");
    CHECK(record.failures[0].follows == "restart 1 of 3 from the checkpoint of step 10");
    REQUIRE(record.spans.size() == 7);
    CHECK(record.spans[2].kind == LedgerKind::steps);
    CHECK(record.spans[2].to == record.checkpoints[0].at);
    CHECK(record.spans[3].kind == LedgerKind::lost_work);
    CHECK(record.spans[3].to - record.spans[3].from == 400ms);  // till it was found
    CHECK(record.spans[4].kind == LedgerKind::recovery);
    CHECK(record.spans[6].kind == LedgerKind::steps);  // of the generation that came to its end
    CHECK(record.checkpoint_count == 1);
    CHECK(record.last_step == 11);
    REQUIRE(record.pace.size() == 9);  // of one rank, whoever else reports
    CHECK(record.pace[0].tokens_per_second == doctest::Approx(80));
    CHECK(total_ms(record.ledger) == record.ledger.wall_ms * 4);
    const json report = json::parse(report_json({record}));
    CHECK(report["runs"][0]["ledger"]["unit_ms"]["steps"] == record.ledger.of(LedgerKind::steps));
    CHECK(report["summary"]["completed_without_person"] == 1);
}

TEST_CASE("hostile words stay words: on the page, and secrets nowhere") {
    const RunRecord record = trained(kHostile + " hunter2hunter2 hf_SECRET123abcdefgh").take();
    const std::string page = report_html({record}, "1");
    CHECK(page.find("<script") == std::string::npos);
    CHECK(page.find("<img") == std::string::npos);
    CHECK(page.find('\x1b') == std::string::npos);
    CHECK(page.find('\x07') == std::string::npos);
    CHECK(page.find("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;") != std::string::npos);
    CHECK(page.find("http") == page.find("http-equiv"));  // nothing from elsewhere
    for (const std::string& text :
         {page, report_json({record}), report_text({record}, TextStyle{})}) {
        CHECK(text.find("hunter2") == std::string::npos);
        CHECK(text.find("SECRET123") == std::string::npos);
    }
    CHECK(html("\xe2\x80\xae<") == "\\u{202e}&lt;");
}

TEST_CASE("what cannot be understood is a gap that has a name") {
    RecordBuilder builder = trained("node1");
    builder.line(std::string(100'000, '['));
    builder.line(R"({"event":"step"})");
    builder.line(R"({"time":"2026-01-31T12:00:00.042Z","generation":0,"event":"of_next_year"})");
    builder.line(line(5000, 1, WarningRaised{"3 events are missing here: cannot write"}));
    builder.torn_line("events.jsonl", "{\"tim");
    builder.begin_node(1, "events.node-1.jsonl");
    builder.node_line(R"({"event":"rank_exited"})");
    builder.plan("plan.json", R"({"format":2})");
    builder.plan("plan.node-1.json", "no JSON");
    builder.certificate("exit.json", R"({"format":1})");
    const std::vector<std::string> gaps = builder.take().gaps;
    std::string all;
    for (const std::string& gap : gaps)
        all += gap + '\n';
    INFO(all);
    for (const char* part :
         {"2 lines cannot be understood", "\"of_next_year\" are not known", "3 events are missing",
          "ends within a line", "plan.json: its format 2", "plan.node-1.json is not",
          "exit.json is not", "events.node-1.jsonl has lines"})
        CHECK(all.find(part) != std::string::npos);
}

TEST_CASE("of data it is told whether all had come, and how long a rank waited for it") {
    RecordBuilder builder("/runs/1");
    builder.line(line(0, 0, job_of(2)));
    builder.line(line(
        10, 0, DataStaged{.name = "w", .path = "p", .bytes = 8, .files = 1, .was_here = true}));
    builder.line(
        line(20, 0, DataComes{.name = "tokens", .path = "p", .bytes = 3'000'000, .files = 2}));
    builder.line(line(20, 0, DataComes{.name = "late", .path = "p", .bytes = 1, .files = 1}));
    const auto waited = [&](int at, std::int64_t step, double seconds) {
        StepReported report;
        report.step = step;
        report.input_seconds = seconds;
        builder.line(line(at, 0, report));
    };
    waited(5'000, 1, 2);
    waited(9'000, 2, 1.5);
    builder.line(line(9'500, 0,
                      DataStaged{.name = "tokens",
                                 .path = "p",
                                 .bytes = 3'000'000,
                                 .files = 2,
                                 .took = std::chrono::seconds(9)}));
    waited(9'900, 3, 4);
    builder.line(line(12'000, 0,
                      DataStagedOut{.node = "node2",
                                    .name = "res",
                                    .to = "/shared/res",
                                    .bytes = 5,
                                    .files = 1,
                                    .took = std::chrono::seconds(2)}));
    builder.line(line(12'500, 0, JobEnded{.exit_code = 0, .outcome = "succeeded"}));
    const RunRecord record = builder.take();
    CHECK(record.gaps.empty());
    CHECK(record.data ==
          std::vector<std::string>{
              "w: 8 B in 1 file before ranks started, on the node already, under 1 ms",
              "tokens: 3.0 MB in 2 files came while ranks ran, all of it in 9.0 s; rank 0 waited "
              "3.5 s for input meanwhile",
              "res of node2: 5 B in 1 file copied to /shared/res in 2.0 s",
              "late: 1 B in 1 file had not all come while ranks ran; rank 0 waited 7.5 s for input "
              "meanwhile"});
    const std::string text = report_text({record}, {});
    CHECK(text.find("had not all come") != std::string::npos);
}

TEST_CASE("ranks of other nodes are known by the files of their nodes") {
    RecordBuilder builder = trained("node1");
    builder.begin_node(1, "events.node-1.jsonl");
    builder.node_line(line(300, 1, RankStarted{.rank = 9, .local_rank = 1, .pid = 812, .gpu = 1}));
    builder.node_line(line(400, 1,
                           StepReported{.rank = 9,
                                        .step = 900'000,
                                        .total_steps = {},
                                        .tokens = {},
                                        .loss = {},
                                        .seconds = {}}));
    RankExited end;
    end.rank = 9;
    end.signal = 11;
    builder.node_line(line(500, 1, end));
    builder.node_line(line(600, 1, HeadLost{"node1", "it has fallen silent"}));
    const RunRecord record = builder.take();
    const auto rank = std::find_if(record.ranks.begin(), record.ranks.end(),
                                   [](const RecordRank& known) { return known.rank == 9; });
    REQUIRE(rank != record.ranks.end());
    CHECK(rank->pid == 812);
    CHECK(rank->gpu == 1);
    CHECK(rank->node == "node 1");
    CHECK(rank->failed);
    CHECK(rank->end.find("SIGSEGV") != std::string::npos);
    CHECK(record.last_step < 900'000);
    REQUIRE_FALSE(record.warnings.empty());
    CHECK(record.warnings.back() == "node 1 lost the head, node1: it has fallen silent");
}

TEST_CASE("time in the queue comes before the first start, in the ledger and in the timeline") {
    RecordBuilder builder("/runs/1");
    builder.line(line(100'000, 0, job_of(2)));
    builder.line(line(100'200, 0, GenerationStarted{.generation = 0}));
    builder.line(line(100'300, 0, QueueTimeKnown{.waited = std::chrono::seconds(60)}));
    builder.line(line(100'300, 0, QueueTimeKnown{.waited = std::chrono::seconds(60)}));  // once
    builder.line(line(101'000, 0, JobEnded{.exit_code = 0, .outcome = "succeeded"}));
    const RunRecord record = builder.take();
    CHECK(record.ledger.of(LedgerKind::queue) == 2 * 60'000);
    CHECK(total_ms(record.ledger) == 2 * record.ledger.wall_ms);
    REQUIRE_FALSE(record.spans.empty());
    CHECK(record.spans.front().kind == LedgerKind::queue);
    CHECK(record.spans.front().from == record.started);
    CHECK(record.spans.front().to - record.spans.front().from == std::chrono::seconds(60));
}

TEST_CASE("why a generation ended is told by whoever knows causes") {
    RecordBuilder builder = trained("node1");
    builder.line(
        R"({"time":"2023-11-14T22:13:22.000Z","generation":0,"event":"generation_ended",)"
        R"("cause":"crash","certainty":"certain","what":"a null pointer","evidence":["SIGSEGV"]})");
    builder.line(
        R"({"time":"2023-11-14T22:13:23.000Z","generation":1,"event":"generation_ended","cause":"agent_killed","node":"node2"})");
    const RunRecord record = builder.take();
    REQUIRE(record.failures.size() == 2);
    CHECK(record.failures[1].cause == "agent_killed");
    CHECK(record.failures[1].who == "node2");
    CHECK(record.failures[0].cause == "crash");
    CHECK(record.failures[0].what == "a null pointer");
    CHECK(record.failures[0].evidence == std::vector<std::string>{"SIGSEGV"});
}

TEST_CASE("GPUs of a plan and what samples say of them are on the page, escaped") {
    RecordBuilder builder = trained("node1");
    builder.plan("plan.json", R"({"format":1,"hostname":"node1","nodes":{"names":["n1"],"rank":0},)"
                              R"("ranks":[{"rank":0,"gpu":{"bdf":"0000:17:00.0","model":"H100"}}],)"
                              R"("unused_gpus":["0000:18:00.0"]})");
    RunRecord record = builder.take();
    REQUIRE(record.planned_gpus.size() == 1);
    CHECK(record.planned_gpus[0].trace.node == "n1");  // the scheduler's name, as samples have it
    CHECK(record.planned_gpus[0].hostname == "node1");
    REQUIRE(record.planned_gpus[0].trace.gpus.size() == 2);
    CHECK(record.planned_gpus[0].trace.gpus[1].ranks.empty());
    CHECK(record.course.stalls.size() == 1);
    for (int gpu = 0; gpu < 100; ++gpu) {
        GpuTime time{.node = gpu < 50 ? kHostile : "n2", .bdf = std::to_string(gpu)};
        time.time.of(GpuUse::used) = 50;
        time.time.of(GpuUse::nobody) = 50;
        time.course.resize(kGpuCourseParts);
        for (GpuUseSeconds& part : time.course)
            part.of(GpuUse::used) = 1;
        record.gpu_time.gpus.push_back(time);
    }
    const std::string page = report_html({record}, "1.0");
    CHECK(page.find("asked 100 GPUs") != std::string::npos);
    CHECK(page.find("100 GPUs in 2 rows, of a node or more each") != std::string::npos);
    CHECK(page.find("class=\"heat-20\"") != std::string::npos);
    CHECK(page.find("stall of each checkpoint") != std::string::npos);
    CHECK(page.find("<script") == std::string::npos);
    CHECK(page.find("<img") == std::string::npos);
    CHECK(report_text({record}, {}).find("gpus: asked 100 GPUs") != std::string::npos);
    CHECK(json::parse(report_json({record}))["runs"][0]["gpu_time"]["asked"] == 100);
}

TEST_CASE("days of steps and thousands of ranks take bounded memory and one page") {
    RecordBuilder builder("/runs/1");
    builder.line(line(100, 0, job_of(4096)));
    for (int rank = 0; rank < 4096; ++rank)
        builder.line(
            line(200, 0, RankStarted{.rank = rank, .local_rank = rank % 8, .pid = 1, .gpu = {}}));
    builder.line(line(300, 0, GenerationStarted{.gpus = 0}));
    for (int step = 1; step <= 5000; ++step)
        builder.line(line(1000 + 10 * step, 0,
                          StepReported{.rank = 0,
                                       .step = step,
                                       .total_steps = {},
                                       .tokens = {},
                                       .loss = {},
                                       .seconds = {}}));
    const RunRecord record = builder.take();
    CHECK(record.pace.size() <= kMostPaces);
    CHECK(record.pace.back().steps_per_second == doctest::Approx(100));
    CHECK(fold_ranks(record.ranks).size() == 1);
    CHECK(report_html({record}, "1").size() < 1'000'000);
    CHECK(report_text({record}, TextStyle{}).size() < 4'000);
}

TEST_CASE("a process's job is its folder's name in its environment, and nothing else") {
    using namespace std::string_literals;
    CHECK(folder_in_environment("A=1\0AUTOLAUNCH_SOCKET=/dev/shm/autolaunch-0-abcdef/s\0B=2\0"s) ==
          "autolaunch-0-abcdef");
    CHECK(folder_in_environment("X=AUTOLAUNCH_SOCKET=/dev/shm/autolaunch-0-abcdef/s\0"s).empty());
    CHECK(folder_in_environment("AUTOLAUNCH_SOCKET=\0"s).empty());
    CHECK(folder_in_environment("").empty());
}

TEST_CASE("a certificate says what is left, and the command that drains the node") {
    ExitCertificate certificate{.run_id = "7",
                                .node = "node3",
                                .exit_code = 0,
                                .at = {},
                                .gone = {{"port", 1, "it can be bound"}},
                                .left = {},
                                .not_checked = {}};
    CHECK(json::parse(certificate_json(certificate))["clean"] == true);
    certificate.left.push_back(
        {"process", "812 (python3), in uninterruptible sleep", "SIGKILL did not end it"});
    const json text = json::parse(certificate_json(certificate));
    CHECK(text["clean"] == false);
    CHECK(text["left"][0]["kind"] == "process");
    CHECK(describe_left(certificate.left)
              .starts_with("something of the job is still there: process 812"));
    CHECK(drain_command("node3", "it's $(bad)\n") ==
          "scontrol update NodeName=node3 State=DRAIN Reason='it_s _(bad)_'");
}

}  // namespace run_report_test
