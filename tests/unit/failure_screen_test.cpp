#include "report/failure_screen.hpp"
#include "causes/rank_end.hpp"
#include "report/banner.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <string>

namespace failure_screen_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

RankExited ended(int rank, std::optional<int> code, std::optional<int> signal,
                 std::chrono::milliseconds ran) {
    RankExited exit;
    exit.rank = rank;
    exit.pid = 8000 + rank;
    exit.exit_code = code;
    exit.signal = signal;
    exit.ran = ran;
    return exit;
}

RankExited stopped(int rank) {
    RankExited exit = ended(rank, {}, SIGTERM, 192'500ms);
    exit.asked_to_stop = true;
    return exit;
}

// DESIGN's example: rank 13 of 32 crashes, rank 21 follows, the others are stopped.
GenerationFailed crash() {
    GenerationFailed failure;
    failure.first = ended(13, {}, SIGSEGV, 192'000ms);
    failure.first.core_dumped = true;
    failure.first.last_step = 1243;
    failure.hostname = "node2";
    failure.stderr_path = "runs/4711/generation-0/rank-13/stderr";
    failure.stdout_path = "runs/4711/generation-0/rank-13/stdout";
    failure.gpu = 5;
    failure.others.push_back(ended(21, 1, {}, 192'400ms));
    for (int rank = 0; rank < 32; ++rank)
        if (rank != 13 && rank != 21)
            failure.others.push_back(stopped(rank));
    failure.stopped_others_in = 8ms;
    failure.restart_number = 1;
    failure.restart_account = "1 of 3";
    failure.max_restarts = 3;
    failure.checkpoint_step = 1200;
    return failure;
}

FailureEvidence evidence(std::vector<std::string> lines) {
    FailureEvidence found;
    found.last_lines = std::move(lines);
    return found;
}

// As its node and the head make it.
std::string screen_of(GenerationFailed failure, FailureEvidence found,
                      const TextStyle& style = {}) {
    failure.evidence = std::move(found);
    RankEnd rank;
    rank.end = failure.first;
    rank.words = failure.evidence;
    rank.no_room = failure.no_room;
    rank.cannot_resume = failure.cannot_resume;
    rank.log_folder = "runs/4711/generation-0/rank-13";
    failure.record = judge(rank);
    return failure_screen(failure, style);
}

}  // namespace

TEST_CASE(
    "the screen says who, where, how, when, what it printed, the others and what comes next") {
    CHECK(screen_of(crash(), evidence({"loader: shard 00071 is truncated"})) == R"(
✗ rank 13 (node2, GPU 5, pid 8013) was killed by SIGSEGV (core dumped) at step 1243, 3 min 12 s after it started
    the last lines of its stderr:
      | loader: shard 00071 is truncated
    cause: crash, certain · SIGSEGV
    30 other ranks were stopped in 8 ms · rank 21 exited with code 1 0.4 s later
    restart 1 of 3 from the checkpoint of step 1200 …
    more: less runs/4711/generation-0/rank-13/stderr
)");
}

TEST_CASE(
    "ranks that failed alike are counted, and one that was stopped first failed by its words") {
    GenerationFailed failure = crash();
    failure.record.what = "ValueError: x";
    failure.record.alike = 999;
    failure.record.followers = 3;
    const std::string screen = failure_screen(failure, {});
    CHECK(screen.find("    999 other ranks failed the same way · 3 failed because of it\n") !=
          std::string::npos);
    failure.first.asked_to_stop = true;
    CHECK(failure_screen(failure, {})
              .find("✗ rank 13 (node2, GPU 5, pid 8013) failed: ValueError: x at step") !=
          std::string::npos);
}

TEST_CASE("a rank alone that said nothing and is not restarted") {
    GenerationFailed failure;
    failure.first = ended(0, 3, {}, 1500ms);
    CHECK(screen_of(failure, {}) == R"(
✗ rank 0 (pid 8000) exited with code 3, 1.5 s after it started
    it printed nothing
    cause: program_error, certain · exit code 3
)");
}

TEST_CASE("a full disk under the logs is the cause, and no restart is tried without room") {
    GenerationFailed failure = crash();
    failure.first = ended(13, 1, {}, 192'000ms);
    failure.no_room = "No space left on device";
    failure.restart_number.reset();
    failure.no_restart = "before there is room it would end as this one did";
    const std::string screen = screen_of(failure, {});
    CHECK(
        screen.find("    nothing of what it printed could be written\n    cause: storage, certain "
                    "· nothing can be written where its logs are: No space left on device; make "
                    "room: df -h runs/4711/generation-0/rank-13\n") != std::string::npos);
    CHECK(screen.find("    no restart: before there is room it would end as this one did\n") !=
          std::string::npos);
    CHECK(screen.find("used up") == std::string::npos);
}

TEST_CASE("checkpoints that cannot be used are the reason, and no restart is tried") {
    GenerationFailed failure = crash();
    failure.first = ended(13, 1, {}, 192'000ms);
    failure.restart_number.reset();
    failure.no_restart = kSameCheckpoints;
    failure.cannot_resume = "none of them can be used: step-00000300: Input/output error";
    const std::string screen = screen_of(failure, evidence({"loading"}));
    CHECK(screen.find("    cause: storage, likely · it cannot go on from its checkpoints: " +
                      failure.cannot_resume + '\n') != std::string::npos);
    CHECK(screen.find("    no restart: it would find the same checkpoints\n") != std::string::npos);
    CHECK(screen.find("used up") == std::string::npos);
}

TEST_CASE("a cause says what is not printed above it, and nothing of it reaches the terminal") {
    GenerationFailed failure = crash();
    failure.first = ended(13, 1, {}, 192'000ms);
    const auto says = [&](FailureEvidence found, const std::string& line) {
        const std::string screen = screen_of(failure, std::move(found));
        return screen.find("    cause: " + line + "\n") != std::string::npos &&
               screen.find('\x1b') == std::string::npos;
    };
    CHECK(says(evidence({"loading", "ValueError"}), "program_error, certain"));
    CHECK(says(evidence({"  File \"a\x1b[2J.py\", line 3, in f", "ValueError: x"}),
               "program_error, certain · raised at a.py:3, in f"));
}

TEST_CASE("where no room was kept for a log, the last lines in it are not the last words") {
    GenerationFailed failure = crash();
    failure.first = ended(13, 1, {}, 192'000ms);
    failure.no_room = "No space left on device";
    FailureEvidence found = evidence({"step 1243"});
    const auto says = [&](const std::string& words) {
        return screen_of(failure, found).find(words) != std::string::npos;
    };
    CHECK(says("    the last lines of its stderr:\n"));
    found.may_miss_words = true;
    CHECK(says("    the last lines that found room; what it said after them is lost:\n"));
    failure.no_room.clear();
    CHECK(says("    the last lines of its stderr:\n"));
}

TEST_CASE("a restart that stdin cannot be given to does not happen, and says so") {
    GenerationFailed failure = crash();
    failure.restart_number.reset();
    failure.no_restart = "more came in on stdin through a pipe than is kept; give a file, < FILE";
    const std::string screen = screen_of(failure, {});
    CHECK(screen.find("    no restart: more came in on stdin through a pipe than is kept; give a "
                      "file, < FILE\n") != std::string::npos);
    CHECK(screen.find("used up") == std::string::npos);
}

TEST_CASE("what opens the core file is a line of its own") {
    GenerationFailed failure = crash();
    failure.core = "core file: gdb ./trainer /tmp/core.\x1b[2J8";
    CHECK(screen_of(failure, {}).find("\n    core file: gdb ./trainer /tmp/core.") !=
          std::string::npos);
    CHECK(screen_of(failure, {}).find('\x1b') == std::string::npos);
}

TEST_CASE("stdout stands in when stderr is empty, and says so") {
    FailureEvidence found = evidence({"bye"});
    found.from_stdout = true;
    const std::string screen = screen_of(crash(), found);
    CHECK(screen.find("it wrote nothing to stderr; the last lines of its stdout:\n      | bye\n") !=
          std::string::npos);
    CHECK(screen.find("more: less runs/4711/generation-0/rank-13/stdout\n") != std::string::npos);
}

TEST_CASE("the rank's text can do nothing to the terminal, and long lines are cut") {
    const std::string screen =
        screen_of(crash(), evidence({"\x1b[2Jcleared\x07", std::string(5000, 'x')}));
    CHECK(screen.find("      | cleared\\x07\n") != std::string::npos);
    CHECK(screen.find('\x1b') == std::string::npos);
    CHECK(screen.find(std::string(400, 'x') + "…\n") != std::string::npos);
    CHECK(screen.find(std::string(401, 'x')) == std::string::npos);
}

TEST_CASE("the error file is shown when it says more than stderr") {
    FailureEvidence found = evidence({"Traceback", "ValueError: bad shard"});
    found.error_message = "ValueError: bad shard";
    CHECK(screen_of(crash(), found).find("error file") == std::string::npos);
    found.last_lines = {"Aborted"};
    found.callstack = {"  File \"train.py\", line 3", "ValueError: bad shard"};
    const std::string screen = screen_of(crash(), found);
    CHECK(screen.find(
              "    its error file says: ValueError: bad shard\n    the end of its call stack:\n") !=
          std::string::npos);
    CHECK(screen.find("      |   File \"train.py\", line 3\n") != std::string::npos);
}

TEST_CASE("colours only where they are wanted") {
    CHECK(screen_of(crash(), {}).find('\x1b') == std::string::npos);
    CHECK(screen_of(crash(), {}, TextStyle{true, 80}).find("\x1b[1;31m✗ rank 13\x1b[0m") !=
          std::string::npos);
}

TEST_CASE("an end is described by its code or its signal") {
    CHECK(describe_exit(ended(0, 3, {}, 0ms)) == "exited with code 3");
    CHECK(describe_exit(ended(0, {}, SIGKILL, 0ms)) == "was killed by SIGKILL");
    CHECK(describe_exit(ended(0, {}, 40, 0ms)) == "was killed by signal 40");
}

TEST_CASE("who did not come to a collective is in the headline, before the rank that gave up") {
    GenerationFailed failure = crash();
    failure.first = ended(0, 1, {}, 31s);
    failure.hostname = "node1";
    failure.gpu.reset();
    failure.culprit = "rank 3 has not entered all_reduce #2 (1 KiB)";
    CHECK(screen_of(failure, {})
              .starts_with("\n✗ rank 3 has not entered all_reduce #2 (1 KiB), and rank 0 (node1, "
                           "pid 8000) gave up "
                           "there: it exited with code 1, 31 s after it started\n"));
}

TEST_CASE("the others are counted by what became of them") {
    GenerationFailed failure;
    failure.first = ended(0, 1, {}, 10s);
    CHECK(describe_others(failure).empty());
    failure.others = {ended(3, 0, {}, 5s), ended(2, 0, {}, 6s), stopped(1)};
    failure.stopped_others_in = 1s;
    CHECK(describe_others(failure) == "1 other rank was stopped in 1.0 s · ranks 2-3 had finished");
    failure.others.push_back(stopped(4));
    failure.others.back().signal = SIGKILL;
    CHECK(describe_others(failure) ==
          "2 other ranks were stopped in 1.0 s · rank 4 did not end on SIGTERM, and was killed by "
          "SIGKILL · ranks 2-3 had finished");
    failure.others.clear();
    for (int rank = 1; rank <= 5; ++rank)
        failure.others.push_back(ended(rank, 1, {}, 10s + rank * 10ms));
    CHECK(describe_others(failure) ==
          "rank 1 exited with code 1 10 ms later · rank 2 exited with code 1 20 ms later · "
          "rank 3 exited with code 1 30 ms later · 2 more failed after that");
}

TEST_CASE("restarts that are used up, and a restart without a checkpoint") {
    GenerationFailed failure = crash();
    failure.checkpoint_step.reset();
    const std::string screen = screen_of(failure, {});
    CHECK(screen.find("restart 1 of 3: no checkpoint was reported, so only the program knows where "
                      "it goes on") != std::string::npos);
    failure.restart_account = "for network, 2 of 5 in 6 h";
    failure.restart_delay = 10s;
    CHECK(
        screen_of(failure, {}).find("restart for network, 2 of 5 in 6 h in 10 s: no checkpoint") !=
        std::string::npos);
    failure.restart_number.reset();
    failure.no_restart = "all 3 restarts are used up";
    CHECK(screen_of(failure, {}).find("    no restart: all 3 restarts are used up\n") !=
          std::string::npos);
}

TEST_CASE("a job that stood still, and was ended") {
    JobHung hung;
    hung.found = {.headline = "no step for 12.4 s, where one takes 0.3 s",
                  .ranks = {37},
                  .lines = {"rank 37 (pid 8123) reads /data/7", "rank 38 (pid 8124) \033[2Jsleeps"},
                  .flight = {"ranks 0-36 wait in all_reduce #4 for 12 s"},
                  .path = "r/flight-1.json"};
    hung.record.cause = Cause::hang;
    hung.record.certainty = Certainty::certain;
    hung.record.what = hung.found.lines.front();
    hung.record.remedy = "ended after 10 s without a step (restart.hang_after)";
    hung.stacks = {"r/stacks-rank-37.txt"};
    hung.stopped = 64;
    hung.stopped_in = 9ms;
    hung.restart_number = 1;
    hung.restart_account = "for hang, 1 of 3 in 6 h";
    hung.checkpoint_step = 400;
    CHECK(failure_screen(hung, TextStyle{}) == R"(
✗ rank 37 (pid 8123) reads /data/7, and the job stands still: no step for 12.4 s, where one takes 0.3 s
      rank 38 (pid 8124) sleeps
      ranks 0-36 wait in all_reduce #4 for 12 s
      all of it: r/flight-1.json
    where its threads are: less r/stacks-rank-37.txt
    cause: hang, certain · ended after 10 s without a step (restart.hang_after)
    64 ranks were stopped in 9 ms
    restart for hang, 1 of 3 in 6 h from the checkpoint of step 400 …
)");
    hung.found.lines.clear();
    hung.found.ranks.clear();
    hung.record.what = "every rank waits for the others";
    hung.restart_number.reset();
    hung.no_restart = "hang stops the job";
    const std::string all = failure_screen(hung, TextStyle{});
    CHECK(all.starts_with("\n✗ every rank waits for the others: no step for 12.4 s, "));
    CHECK(all.find("    no restart: hang stops the job\n") != std::string::npos);
}

TEST_CASE("a node that was lost, with its ranks") {
    NodeLost lost{.node = "node2",
                  .ranks = {8, 9, 10, 11},
                  .why = "node2 (10.0.0.2) has fallen silent",
                  .stopped = 4,
                  .stopped_others_in = 8ms,
                  .ran = 192s};
    CHECK(failure_screen(lost, TextStyle{}) == R"(
✗ node2 was lost, with ranks 8-11, 3 min 12 s after the start
    node2 (10.0.0.2) has fallen silent
    4 ranks on the other nodes were stopped in 8 ms
    cause: node_lost
    the scheduler may know why: the node's state, its memory, its network
)");
    lost.ranks = {3};
    lost.stopped = 0;
    CHECK(failure_screen(lost, TextStyle{}).starts_with("\n✗ node2 was lost, with rank 3, "));
    CHECK(failure_screen(lost, TextStyle{}).find("stopped") == std::string::npos);
}

TEST_CASE("torchelastic's error file in both its forms, and in none") {
    const auto full = parse_error_file(
        R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "a\nb\n", "timestamp": "1"}}})");
    REQUIRE(full);
    CHECK(full->message == "ValueError: x");
    CHECK(full->callstack == std::vector<std::string>{"a", "b"});
    const auto brief = parse_error_file(R"({"message": "died"})");
    REQUIRE(brief);
    CHECK(brief->message == "died");
    for (const char* broken :
         {"", "{", "[]", "{}", R"({"message": 3})", R"({"message": {"message": []}})"})
        CHECK_FALSE(parse_error_file(broken).has_value());
    std::string deep = R"({"message": {"message": "m", "extraInfo": )";
    deep += std::string(500'000, '[') + std::string(500'000, ']') + "}}";
    CHECK_FALSE(
        parse_error_file(deep).has_value());  // a copy of it would take 500,000 stack frames
    CHECK(parse_error_file(R"({"message": {"message": "m", "extraInfo": 3}})")->callstack.empty());
}

TEST_CASE(
    "where the ranks were comes before what is next, and its labels cannot write to the terminal") {
    GenerationFailed failure = crash();
    failure.flight = {"ranks 0-12 wait in all_reduce #4 (\x1b[2J) for 31 s",
                      "rank 13 has not entered it"};
    failure.flight_path = "runs/4711/generation-0/flight-0.json";
    const std::string screen = screen_of(failure, {});
    const auto where =
        screen.find("    where the ranks were:\n      ranks 0-12 wait in all_reduce #4 (");
    CHECK(where != std::string::npos);
    CHECK(where < screen.find("restart 1 of 3"));
    CHECK(screen.find('\x1b') == std::string::npos);
    CHECK(screen.find("      all of it: runs/4711/generation-0/flight-0.json\n") !=
          std::string::npos);
    CHECK(screen_of(crash(), {}).find("where the ranks") == std::string::npos);
    NodeLost lost{.node = "node2", .ranks = {8}, .why = "w"};
    lost.flight = {"rank 0 waits"};
    CHECK(failure_screen(lost, {}).find("      rank 0 waits\n") != std::string::npos);
}

TEST_CASE("the first and the last line of a job") {
    JobStarted job;
    job.job_name = "gpt-small";
    job.run_id = "4711";
    job.run_dir = "runs/4711";
    job.node_count = 4;
    job.ranks_per_node = 8;
    job.warnings = {"NCCL_IB_DISABLE=1 while 8 HCAs are active"};
    CHECK(banner(job, "0.1", TextStyle{}) ==
          R"(autolaunch 0.1   job 4711 gpt-small   4 nodes x 8 ranks   run dir runs/4711
  warning   NCCL_IB_DISABLE=1 while 8 HCAs are active
)");
    job.joined = "4/4 nodes in 12 ms · head node1 · key from munge · TLS 1.3";
    job.warnings.clear();
    job.ranks_per_node.reset();
    job.world_size = 30;
    CHECK(banner(job, "0.1", TextStyle{}) ==
          R"(autolaunch 0.1   job 4711 gpt-small   4 nodes, 30 ranks   run dir runs/4711
  joined    4/4 nodes in 12 ms · head node1 · key from munge · TLS 1.3
)");
    job.binding = "exclusive";
    GenerationStarted started;
    started.startup = 200ms;
    started.ranks_bound = 30;
    started.numa_nodes = 8;
    started.gpus = 30;
    CHECK(placement_line(job, started, false) ==
          "  placed    30/30 ranks as planned in 0.2 s · binding exclusive on 8 NUMA nodes · 30 "
          "GPUs");
    CHECK(placement_line(job, started, true) == "  restarted 30/30 ranks as planned in 0.2 s");
    started.ranks_bound = 29;
    CHECK(placement_line(job, started, true) ==
          "  restarted 29/30 ranks as planned in 0.2 s · `autolaunch plan` shows where the others "
          "belong");
    job.world_size = 1;
    CHECK(placement_line(job, {0, 4ms, 1, 1, 0}, false) ==
          "  placed    1/1 rank as planned in 4 ms · binding exclusive on 1 NUMA node · no GPUs");
    CHECK(closing_line({0, "succeeded", 1, 63s}, "runs/4711", TextStyle{}) ==
          "done in 63 s · 1 restart · runs/4711\n");
    CHECK(closing_line({139, "failed", 0, 63s}, "runs/4711", TextStyle{}) ==
          "failed after 63 s · exit code 139 · runs/4711\n");
}

}  // namespace failure_screen_test
