// Jobs from their first rank to their exit code: real ranks that misbehave, real signals, the
// events that are recorded.

#include "supervise/supervise.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "fake_squeue.hpp"
#include "processes.hpp"
#include "rank_services/coordinator.hpp"
#include "rank_services/socket_directory.hpp"
#include "rendezvous/join.hpp"
#include "report/console.hpp"
#include "report/reporter.hpp"
#include "spawn/keeper.hpp"
#include "spawn/spawn.hpp"
#include "supervise/run_directory.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace supervise_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

LaunchPlan plan_of(int rank_count, const std::vector<std::string>& steps,
                   const std::filesystem::path& run_dir) {
    LaunchPlan plan;
    plan.job_name = plan.run_id = "test";
    plan.run_dir = plan.spec.run_dir = run_dir;
    plan.hostname = "node1";
    plan.node_names = {"node1"};
    plan.world_size = rank_count;
    plan.workdir = "/";
    for (int rank = 0; rank < rank_count; ++rank) {
        RankPlan planned;
        planned.rank = planned.local_rank = rank;
        planned.argv = {MISBEHAVE_PROGRAM};
        planned.argv.insert(planned.argv.end(), steps.begin(), steps.end());
        planned.environment = {{"RANK", std::to_string(rank), ""},
                               {"LOCAL_RANK", std::to_string(rank), ""},
                               {"WORLD_SIZE", std::to_string(rank_count), ""},
                               {"LOCAL_WORLD_SIZE", std::to_string(rank_count), ""},
                               {"TORCHELASTIC_RUN_ID", "test", ""},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True", ""}};
        plan.ranks.push_back(planned);
    }
    return plan;
}

/// A job in a process of its own, as `autolaunch run` would run it.
class Job {
public:
    Job(int rank_count, const std::vector<std::string>& steps)
        : mark_("SUPERVISE_TEST=" + random_hex(8)),
          plan_(plan_of(rank_count, steps, folder_.path() / "run")) {}
    ~Job() {
        if (pid_ > 0)
            ::kill(pid_, SIGKILL);
    }

    LaunchPlan& plan() { return plan_; }
    JobSpec& spec() { return plan_.spec; }
    std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

    void start() {
        std::fflush(nullptr);
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0)
            ::_exit(run());
    }

    /// The ranks end well as soon as the file is there.
    void run_until(const std::filesystem::path& file) {
        const std::string script = "until [ -e " + file.string() + " ]; do sleep 0.02; done";
        for (RankPlan& rank : plan_.ranks)
            rank.argv = {"/bin/sh", "-c", script};
    }

    void signal(int number) const { REQUIRE(::kill(pid_, number) == 0); }

    int wait() {
        int status = 0;
        REQUIRE(::waitpid(pid_, &status, 0) == pid_);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }

    int run_to_end() {
        start();
        return wait();
    }

    std::vector<json> events(const std::string& name) const {
        std::vector<json> found;
        for (const auto& line : split(slurp(path("run/events.jsonl")), '\n')) {
            if (line.empty())
                continue;
            json event = json::parse(line, nullptr, false);
            if (!event.is_discarded() && (name.empty() || event.at("event") == name))
                found.push_back(event);
        }
        return found;
    }

    json only(const std::string& name) const {
        const auto found = events(name);
        REQUIRE_MESSAGE(found.size() == 1, name, " was recorded ", found.size(), " times");
        return found[0];
    }

    bool wait_for_ranks(std::size_t count) const {
        return eventually([&] { return events("rank_started").size() >= count; });
    }

    std::string output(int generation, int rank, const std::string& stream = "stdout") const {
        return slurp(path("run/generation-" + std::to_string(generation) + "/rank-" +
                          std::to_string(rank) + "/" + stream));
    }

    std::vector<pid_t> processes() const {
        auto pids = processes_with(mark_);
        pids.erase(std::remove(pids.begin(), pids.end(), pid_), pids.end());
        return pids;
    }
    pid_t agent() const { return std::stoi(slurp(path("agent"))); }

private:
    int run() {
        try {
            SocketDirectory sockets;
            UniqueFd keeper_gone = start_keeper({.scratch = sockets.path()});
            write_file(path("agent"), std::to_string(::getpid()));
            asio::io_context io{1};
            JoinRequest request;
            request.ranks_here = plan_.world_size;
            plan_.ranks_per_node = {plan_.world_size};
            Joined joined =
                join_job(io, plan_.spec.rendezvous, read_allocation({}, "node1"), {}, request);
            RunDirectory run_dir(plan_);
            const UniqueFd nowhere = open_file("/dev/null", O_RDWR);
            Console console({.stdout_fd = nowhere.get(), .stderr_fd = nowhere.get()});
            Reporter reporter({.version = "test", .events_path = run_dir.events_path()}, console);
            Coordinator coordinator(plan_, sockets, "");
            const auto separator = mark_.find('=');
            return supervise(io, {plan_, run_dir, coordinator, joined, {reporter, console}},
                             std::move(keeper_gone),
                             {{{"PATH", "/usr/bin:/bin"},
                               {mark_.substr(0, separator), mark_.substr(separator + 1)}},
                              raise_file_limit()});
        } catch (const Error& error) {
            write_file(path("error"), error.what());
            return 99;
        }
    }

    TemporaryFolder folder_;
    std::string mark_;
    LaunchPlan plan_;
    pid_t pid_ = -1;
};

std::map<std::string, std::string> environment_in(const std::string& facts) {
    std::map<std::string, std::string> found;
    for (const auto& line : split(facts, '\n'))
        if (line.starts_with("env "))
            found[line.substr(4, line.find('=') - 4)] = line.substr(line.find('=') + 1);
    return found;
}

}  // namespace

TEST_CASE("ranks that end well make a job that ends well, whenever they end") {
    Job job(3, {"exit:0", "sleep:0.2,exit:0"});
    CHECK(job.run_to_end() == 0);
    CHECK(job.only("job_ended").at("outcome") == "succeeded");
    CHECK(job.events("rank_exited").size() == 3);
    CHECK(job.events("stop_requested").empty());
    CHECK(job.processes().empty());
}

TEST_CASE("the first failure is named, and the others are stopped") {
    Job job(4, {"hang", "sleep:0.2,exit:7", "hang"});
    CHECK(job.run_to_end() == 7);
    const json failed = job.only("generation_failed");
    CHECK(failed.at("first").at("rank") == 1);
    CHECK(failed.at("first").at("exit_code") == 7);
    CHECK(failed.at("first").at("asked_to_stop") == false);
    CHECK(failed.at("others").size() == 3);
    for (const auto& other : failed.at("others")) {
        CHECK(other.at("signal") == SIGTERM);
        CHECK(other.at("asked_to_stop") == true);
    }
    CHECK(failed.count("restart_number") == 0);
    CHECK(job.processes().empty());
}

TEST_CASE("a rank that crashes is named by its signal") {
    Job job(2, {"hang", "error-file:it broke,say:last words,crash"});
    CHECK(job.run_to_end() == 128 + SIGSEGV);
    const json failed = job.only("generation_failed");
    CHECK(failed.at("first").at("signal") == SIGSEGV);
    CHECK(slurp(failed.at("stderr_path").get<std::string>()) == "last words\n");
    CHECK(slurp(failed.at("error_file_path").get<std::string>()).find("it broke") !=
          std::string::npos);
}

TEST_CASE("SIGTERM comes first, SIGKILL after the grace period") {
    Job job(2, {"ignore-term,touch:" + std::string("/dev/null") + ",hang", "sleep:0.3,exit:1"});
    job.plan().ranks[0].argv = {MISBEHAVE_PROGRAM, "ignore-term,hang"};
    job.spec().restart.grace_period = milliseconds(400);
    CHECK(job.run_to_end() == 1);
    std::vector<int> signals;
    for (const auto& event : job.events("rank_signalled"))
        signals.push_back(event.at("signal"));
    CHECK(signals == std::vector{SIGTERM, SIGKILL});
    CHECK(job.only("generation_failed").at("stopped_others_in_seconds").get<double>() >= 0.4);
}

TEST_CASE("a failed generation is followed by the next, with its own files and environment") {
    Job job(2, {"facts,fail-before-generation:2:9,exit:0", "facts,sleep:0.3,exit:0"});
    job.spec().restart.max_restarts = 3;
    job.spec().restart.as_torchrun = true;  // so many, and nobody asks why
    CHECK(job.run_to_end() == 0);
    CHECK(job.only("job_ended").at("restarts") == 2);
    CHECK(job.events("generation_started").size() == 3);
    const auto failed = job.events("generation_failed");
    REQUIRE(failed.size() == 2);
    CHECK(failed[1].at("restart_number") == 2);
    std::vector<std::string> ports, sockets;
    for (int generation = 0; generation < 3; ++generation) {
        const auto environment = environment_in(job.output(generation, 0));
        CHECK(environment.at("AUTOLAUNCH_GENERATION") == std::to_string(generation));
        CHECK(environment.at("TORCHELASTIC_RESTART_COUNT") == std::to_string(generation));
        sockets.push_back(environment.at("AUTOLAUNCH_SOCKET"));
        ports.push_back(environment.at("MASTER_PORT"));
    }
    CHECK(sockets[0] != sockets[1]);
    CHECK(sockets[1] != sockets[2]);
    CHECK(std::count(ports.begin(), ports.end(), "0") == 0);
}

TEST_CASE("when no restart is left, the last failure counts") {
    Job job(1, {"fail-before-generation:1:4,exit:5"});
    job.spec().restart.max_restarts = 1;
    job.spec().restart.backoff = milliseconds(50);
    CHECK(job.run_to_end() == 5);
    CHECK(job.events("generation_failed").size() == 2);
}

TEST_CASE("a second run in the same folder continues its numbers") {
    Job job(1, {"exit:0"});
    CHECK(job.run_to_end() == 0);
    CHECK(job.run_to_end() == 0);
    CHECK(std::filesystem::exists(job.path("run/generation-1/rank-0/stdout")));
    CHECK(job.events("job_started").size() == 2);
}

TEST_CASE("a run directory is used by one job at a time") {
    Job job(1, {"hang"});
    job.start();
    REQUIRE(job.wait_for_ranks(1));
    CHECK_THROWS_WITH_AS(RunDirectory{job.plan()},
                         doctest::Contains("cannot use the run directory"), RunDirectoryError);
}

TEST_CASE("a stop by signal ends with 128 + N and is not restarted") {
    Job job(2, {"hang"});
    job.spec().restart.max_restarts = 3;
    job.start();
    REQUIRE(job.wait_for_ranks(2));
    int number = 0;
    SUBCASE("SIGTERM") { number = SIGTERM; }
    SUBCASE("SIGINT") { number = SIGINT; }
    SUBCASE("SIGHUP") { number = SIGHUP; }
    job.signal(number);
    CHECK(job.wait() == 128 + number);
    CHECK(job.events("generation_failed").empty());
    CHECK(job.events("generation_started").size() == 1);
    CHECK(job.processes().empty());
}

TEST_CASE("a stop that comes instead of a restart is an end of its own, with its own code") {
    Job job(1, {"checkpoint:3,exit:4"});
    job.spec().restart.max_restarts = 3;
    job.spec().restart.backoff = std::chrono::minutes(10);
    int number = SIGINT, code = 130;
    SUBCASE("a person's") {}
    SUBCASE("a scheduler's: the checkpoint is there") { number = SIGTERM, code = 75; }
    job.start();
    REQUIRE(eventually([&] { return !job.events("generation_ended").empty(); }));
    job.signal(number);
    CHECK(job.wait() == code);
    const auto ends = job.events("generation_ended");
    REQUIRE(ends.size() == 2);
    CHECK(ends[0].at("generation") == 0);
    CHECK(ends[0].at("cause") == "program_error");
    CHECK(ends[0].at("next") == "restart");
    CHECK_FALSE(ends[0].contains("exit_code"));
    CHECK(ends[1].at("generation") == 1);
    CHECK(ends[1].at("cause") == "cancelled");
    CHECK(ends[1].at("next") == (code == 75 ? "requeue" : "stop"));
    CHECK(ends[1].at("exit_code") == code);
    CHECK(job.only("job_ended").at("exit_code") == code);
    CHECK(job.only("job_ended").at("restarts") == 0);
}

TEST_CASE("ranks get the signal that stops the job, then SIGTERM, then SIGKILL") {
    Job job(1, {});
    job.plan().ranks[0].argv = {"/bin/sh", "-c",
                                "trap '' INT HUP QUIT TERM; echo ready >&2; sleep 60"};
    job.spec().restart.grace_period = std::chrono::seconds(1);
    job.start();
    REQUIRE(eventually([&] { return job.output(0, 0, "stderr") == "ready\n"; }));
    int number = 0;
    SUBCASE("SIGINT") { number = SIGINT; }
    SUBCASE("SIGHUP") { number = SIGHUP; }
    SUBCASE("SIGQUIT") { number = SIGQUIT; }
    job.signal(number);
    CHECK(job.wait() == 128 + number);
    std::vector<int> signals;
    for (const auto& event : job.events("rank_signalled"))
        signals.push_back(event.at("signal"));
    CHECK(signals == std::vector{number, SIGTERM, SIGKILL});
}

TEST_CASE("a rank that saves on Ctrl-C has the time for it") {
    Job job(2, {});
    for (RankPlan& rank : job.plan().ranks)
        rank.argv = {"/bin/sh", "-c",
                     "trap 'sleep 0.3; echo saved; exit 0' INT; echo ready >&2; "
                     "while :; do sleep 0.02; done"};
    job.start();
    REQUIRE(eventually([&] {
        return job.output(0, 0, "stderr") == "ready\n" && job.output(0, 1, "stderr") == "ready\n";
    }));
    job.signal(SIGINT);
    CHECK(job.wait() == 130);
    CHECK(job.output(0, 0) == "saved\n");
    CHECK(job.output(0, 1) == "saved\n");
    CHECK(job.events("rank_signalled").size() == 2);
}

TEST_CASE("a stop by SIGUSR1 is that for ranks with a handler for it, and SIGTERM for others") {
    Job job(2, {"say:ready,hang"});
    job.plan().ranks[0].argv = {"/bin/sh", "-c",
                                "trap 'exit 0' USR1; echo ready >&2; while :; do sleep 0.02; done"};
    job.spec().stop_signals = {SIGUSR1};
    job.start();
    REQUIRE(eventually([&] {
        return job.output(0, 0, "stderr") == "ready\n" && job.output(0, 1, "stderr") == "ready\n";
    }));
    job.signal(SIGUSR1);
    CHECK(job.wait() == 128 + SIGUSR1);
    for (const auto& event : job.events("rank_signalled"))
        CHECK(event.at("signal") == (event.at("rank") == 0 ? SIGUSR1 : SIGTERM));
}

TEST_CASE("a second Ctrl-C kills at once") {
    Job job(2, {"ignore-term,ignore-int,say:ready,hang"});
    job.spec().restart.grace_period = std::chrono::minutes(10);
    job.start();
    REQUIRE(eventually([&] {
        return job.output(0, 0, "stderr") == "ready\n" && job.output(0, 1, "stderr") == "ready\n";
    }));
    job.signal(SIGINT);
    REQUIRE(eventually([&] { return job.events("rank_signalled").size() == 2; }));
    std::this_thread::sleep_for(2 * SignalInbox::kRepetition);
    CHECK(job.events("rank_exited").empty());
    job.signal(SIGINT);
    CHECK(job.wait() == 130);
    CHECK(job.events("rank_signalled").size() == 4);
}

TEST_CASE("a signal that arrives twice within milliseconds counts once") {
    Job job(1, {"exit-on-term:0,say:ready,hang"});
    job.start();
    REQUIRE(eventually([&] { return job.output(0, 0, "stderr") == "ready\n"; }));
    ::kill(job.agent(), SIGTERM);
    job.signal(SIGTERM);
    CHECK(job.wait() == 143);
    for (const auto& event : job.events("rank_signalled"))
        CHECK(event.at("signal") == SIGTERM);
}

TEST_CASE("SIGTERM from a scheduler to ranks and agent is a stop, whoever gets it first") {
    Job job(2, {"hang"});
    job.spec().restart.max_restarts = 1;
    job.start();
    REQUIRE(job.wait_for_ranks(2));
    for (const auto& rank : job.events("rank_started"))
        ::kill(rank.at("pid").get<int>(), SIGTERM);
    REQUIRE(eventually([&] { return !job.events("rank_exited").empty(); }));
    job.signal(SIGTERM);
    CHECK(job.wait() == 143);
    CHECK(job.events("generation_failed").empty());
}

TEST_CASE("a rank that somebody killed with SIGTERM alone is a failure") {
    Job job(1, {"crash:15"});
    CHECK(job.run_to_end() == 143);
    CHECK(job.only("generation_failed").at("first").at("signal") == SIGTERM);
    CHECK(job.only("job_ended").at("outcome") == "failed");
}

TEST_CASE("SIGUSR1 reaches the ranks that handle it and harms no other") {
    Job job(2, {"hang"});
    job.plan().ranks[0].argv = {MISBEHAVE_PROGRAM,
                                "mark-on-usr1:" + job.path("marked").string() + ",say:ready,hang"};
    job.start();
    REQUIRE(eventually([&] { return job.output(0, 0, "stderr") == "ready\n"; }));
    job.signal(SIGUSR1);
    CHECK(eventually([&] { return std::filesystem::exists(job.path("marked")); }));
    CHECK(job.events("rank_exited").empty());
    job.signal(SIGTERM);
    CHECK(job.wait() == 143);
}

TEST_CASE("only the signals that the user names stop the job") {
    Job job(1, {"hang"});
    job.spec().stop_signals = {SIGUSR2};
    job.start();
    REQUIRE(job.wait_for_ranks(1));
    job.signal(SIGUSR2);
    CHECK(job.wait() == 128 + SIGUSR2);
    CHECK(job.only("stop_requested").at("reason") == "SIGUSR2");
}

TEST_CASE("what a rank leaves behind is ended with it") {
    Job job(2, {"daemon,stubborn-child,exit:0"});
    CHECK(job.run_to_end() == 0);
    CHECK(job.processes().empty());
}

TEST_CASE("a rank's own children are ended when it ends, not only at the end of the job") {
    Job job(2, {"stubborn-child,sleep:0.2,exit:0", "hang"});
    job.start();
    REQUIRE(eventually([&] { return job.events("rank_exited").size() == 1; }));
    CHECK(eventually([&] { return job.processes().size() == 1; }));
    job.signal(SIGTERM);
    CHECK(job.wait() == 143);
}

TEST_CASE("kill -9 of autolaunch leaves nothing of the job") {
    Job job(2, {"daemon,stubborn-child,ignore-term,say:ready,hang"});
    job.start();
    REQUIRE(eventually([&] {
        return job.output(0, 0, "stderr") == "ready\n" && job.output(0, 1, "stderr") == "ready\n";
    }));
    REQUIRE(eventually([&] { return job.processes().size() == 6; }));
    SUBCASE("of the agent") {
        ::kill(job.agent(), SIGKILL);
        CHECK(job.wait() == 137);
        CHECK(job.processes().empty());
    }
    SUBCASE("of the keeper") {
        job.signal(SIGKILL);
        CHECK(job.wait() == -SIGKILL);
        CHECK(eventually([&] { return job.processes().empty(); }));
    }
}

TEST_CASE("a program that cannot be started is not tried again") {
    Job job(2, {"hang"});
    job.spec().restart.max_restarts = 3;
    SUBCASE("not found") {
        job.plan().ranks[1].argv = {"no-such-program-anywhere"};
        CHECK(job.run_to_end() == 127);
    }
    SUBCASE("not executable") {
        job.plan().ranks[1].argv = {"/etc/passwd"};
        CHECK(job.run_to_end() == 126);
    }
    SUBCASE("a working directory that is missing") {
        job.plan().workdir = "/nowhere/at/all";
        CHECK(job.run_to_end() == 66);
    }
    CHECK(job.events("spawn_failed").size() == 1);
    CHECK(job.only("job_ended").at("restarts") == 0);
    CHECK(job.processes().empty());
}

TEST_CASE("a master port that is taken is said, with what to do") {
    asio::io_context io;
    const StoreServer taken(io, {});
    Job job(1, {"exit:0"});
    job.spec().rendezvous.port = taken.port();
    CHECK(job.run_to_end() == 69);
    CHECK(job.only("spawn_failed").at("hint").get<std::string>().find("--master-port") !=
          std::string::npos);
}

TEST_CASE("more ranks than cores, and ranks that print too much, in every way") {
    Job job(12, {"binary,flood:2000,close-stdout,exit:0"});
    CHECK(job.run_to_end() == 0);
    for (int rank = 0; rank < 12; ++rank)
        CHECK(job.output(0, rank).size() > 4096 + 2000 * 30);
}

TEST_CASE("files that may hold keys are private, logs are not") {
    Job job(1, {"exit:0"});
    job.spec().trainer_config = R"({"token": "secret"})";
    CHECK(job.run_to_end() == 0);
    using std::filesystem::perms;
    const auto mode = [&](const char* name) {
        return std::filesystem::status(job.path(name)).permissions();
    };
    CHECK(mode("run/trainer_config.json") == perms(0600));
    CHECK(mode("run/plan.json") == perms(0600));
    CHECK((mode("run/generation-0/rank-0/stdout") & perms::owner_read) != perms::none);
    CHECK(slurp(job.path("run/trainer_config.json")) == R"({"token": "secret"})");
}

TEST_CASE("ranks meet at the store of their generation") {
    Job job(4, {"meet,fail-before-generation:1:3,exit:0"});
    job.spec().restart.max_restarts = 1;
    CHECK(job.run_to_end() == 0);
    for (int rank = 0; rank < 4; ++rank)
        CHECK(job.output(1, rank) == "all here\n");
}

TEST_CASE("a rank that stops by itself is told, and gets no SIGTERM") {
    Job job(2, {"train:0"});
    job.spec().restart.grace_period = std::chrono::minutes(1);
    job.start();
    REQUIRE(eventually([&] { return job.events("step").size() > 4; }));
    int number = 0, expected = 0;
    SUBCASE("by a scheduler: it can be requeued") {
        number = SIGTERM;
        expected = 75;
    }
    SUBCASE("by a person") {
        number = SIGINT;
        expected = 130;
    }
    job.signal(number);
    CHECK(job.wait() == expected);
    CHECK(job.events("rank_signalled").empty());
    CHECK(job.events("checkpoint").size() == 2);
    for (const auto& exited : job.events("rank_exited")) {
        CHECK(exited.at("exit_code") == 0);
        CHECK(exited.at("last_step").get<int>() > 0);
    }
}

TEST_CASE("a rank that stops by itself still gets SIGTERM when another one fails") {
    Job job(2, {"train:0", "report-steps:1,sleep:1,exit:6"});
    CHECK(job.run_to_end() == 6);
    const json failed = job.only("generation_failed");
    REQUIRE(failed.at("others").size() == 1);
    CHECK(failed.at("others")[0].at("signal") == SIGTERM);
    CHECK(failed.at("first").at("last_step") == 1);
}

TEST_CASE("SIGUSR1 asks ranks that have a session for a checkpoint") {
    Job job(2, {"train:0"});
    job.start();
    REQUIRE(eventually([&] { return job.events("step").size() > 4; }));
    job.signal(SIGUSR1);
    CHECK(eventually([&] { return job.events("checkpoint").size() == 2; }));
    CHECK(job.events("rank_exited").empty());
    job.signal(SIGTERM);
    CHECK(job.wait() == 75);
}

TEST_CASE("the next generation is told which checkpoint it goes on from") {
    Job job(1, {"train:0"});
    job.spec().restart.max_restarts = 1;
    job.start();
    REQUIRE(eventually([&] { return !job.events("step").empty(); }));
    job.signal(SIGUSR1);
    REQUIRE(eventually([&] { return job.events("checkpoint").size() == 1; }));
    ::kill(job.only("rank_started").at("pid").get<int>(), SIGKILL);
    REQUIRE(job.wait_for_ranks(2));
    CHECK(job.only("generation_failed").at("checkpoint_step") == job.only("checkpoint").at("step"));
    job.signal(SIGINT);
    CHECK(job.wait() == 130);
}

TEST_CASE("ranks that cannot go on from their checkpoints end the job once, with the reason") {
    const auto run = [](const std::string& steps, int exit_code, std::size_t generations) {
        CAPTURE(steps);
        Job job(2, {steps});
        job.spec().restart.max_restarts = 2;
        job.spec().restart.as_torchrun = true;  // so many, and nobody asks why
        CHECK(job.run_to_end() == exit_code);
        const auto failed = job.events("generation_failed");
        CHECK(failed.size() == generations);
        return failed.back();
    };
    const json said = run("cannot-resume:step-00000300: Input/output error,exit:1", 74, 1);
    CHECK(said.at("cannot_resume") == "step-00000300: Input/output error");
    CHECK(said.at("first").at("exit_code") == 1);
    CHECK(said.at("restart_held_back") == true);
    CHECK(run("exit:74", 74, 1).at("cannot_resume") == "exit code 74 says so");
    // Who goes on all the same fails as any other.
    for (const std::string steps : {"cannot-resume:x,cannot-resume,exit:3",
                                    "cannot-resume:x,sleep:0.2,report-steps:1,exit:3"}) {
        const json taken_back = run(steps, 3, 3);
        CHECK_FALSE(taken_back.contains("cannot_resume"));
        CHECK_FALSE(taken_back.contains("restart_held_back"));
    }
}

TEST_CASE("Slurm is asked when the job ends, beside the job") {
    const FakeSqueue squeue(
        "echo \"$@\" >$(dirname $SQUEUE_TEST)/arguments; echo 4711 3:00:00 4:00:00");
    Job job(2, {"hang"});
    job.plan().slurm_job_id = "4711";
    job.plan().uncompared_time_limit = std::chrono::hours(4);
    job.run_until(job.path("over"));
    job.start();
    CHECK(eventually([&] { return !job.events("time_limit_known").empty(); }));
    write_file(job.path("over"), "");
    CHECK(job.wait() == 0);
    CHECK(squeue.file("arguments") == "-h -j 4711 -o%A %L %l\n");
    CHECK(job.only("time_limit_known").at("seconds_left") == 3 * 3600);
    CHECK(job.only("time_limit_known").at("ends_at") > job.only("job_ended").at("time"));
    CHECK(job.events("warning").empty());
    CHECK(processes_with(squeue.mark()).empty());
}

TEST_CASE("a time limit that is not the spec's is said, and so is one that nobody tells") {
    std::string answer, expected;
    SUBCASE("another") { answer = "echo 4711 30:00 1:00:00", expected = "but this job has 60 min"; }
    SUBCASE("no answer") { answer = "exit 1", expected = "squeue, which says it as well, gave no"; }
    const FakeSqueue squeue(answer);
    Job job(2, {"hang"});
    job.plan().slurm_job_id = "4711";
    job.plan().uncompared_time_limit = std::chrono::hours(4);
    job.run_until(job.path("over"));
    job.start();
    CHECK(eventually([&] { return !job.events("warning").empty(); }));
    write_file(job.path("over"), "");
    CHECK(job.wait() == 0);
    CHECK(job.only("warning").at("text").get<std::string>().find(expected) != std::string::npos);
}

TEST_CASE("where the environment says when the job ends, nobody is asked") {
    const FakeSqueue squeue("touch $(dirname $SQUEUE_TEST)/asked; echo 4711 3:00:00");
    Job job(1, {"fail-before-generation:1:3,exit:0"});
    job.spec().restart.max_restarts = 1;
    job.plan().slurm_job_id = "4711";
    job.plan().ends_at = std::chrono::system_clock::from_time_t(1'700'000'000);
    CHECK(job.run_to_end() == 0);
    CHECK(job.events("generation_started").size() == 2);
    CHECK(job.only("time_limit_known").at("ends_at") == "2023-11-14T22:13:20.000Z");
    CHECK(job.only("time_limit_known").at("seconds_left") == 0);
    CHECK_FALSE(std::filesystem::exists(squeue.path("asked")));
}

TEST_CASE("before the allocation ends, ranks that have saved are asked to stop in time") {
    Job job(2, {"train-with-saves:0.1"});
    job.plan().ends_at = std::chrono::system_clock::now() + std::chrono::seconds(12);
    CHECK(job.run_to_end() == 75);
    CHECK(job.only("job_ended").at("outcome") == "stopped before the time limit, to be requeued");
    const json asked = job.only("stop_requested");
    CHECK(asked.at("reason").get<std::string>().starts_with("the time limit comes in "));
    CHECK(asked.at("grace_seconds") <= 12.0);
    CHECK(job.events("checkpoint").back().at("path") == "/checkpoints/last");
    CHECK(job.only("job_ended").at("ran_seconds") < 12.0);
    CHECK(json::parse(slurp(job.path("run/save-times.json"))).at("save_seconds").size() == 2);
}

TEST_CASE("before the allocation ends, ranks stop in time for what is to be copied") {
    Job job(1, {"hang"});  // of ranks that never save
    job.spec().restart.grace_period = std::chrono::seconds(1);
    job.spec().storage.stage_out_time = std::chrono::seconds(3);
    auto left = std::chrono::seconds(12);
    SUBCASE("which is earlier than at their own end") {
        job.plan().ends_at = std::chrono::system_clock::now() + left;
        CHECK(job.run_to_end() != 0);
        CHECK(job.only("job_ended").at("outcome") == "stopped before the time limit");
        CHECK(job.only("stop_requested")
                  .at("reason")
                  .get<std::string>()
                  .find("a save and the copies of storage.stage_out must fit in") !=
              std::string::npos);
        CHECK(job.only("job_ended").at("ran_seconds") < 7.0);
    }
    SUBCASE("and a job that has not so much time says so, and runs") {
        left = std::chrono::seconds(5);
        job.plan().ends_at = std::chrono::system_clock::now() + left;
        job.run_until(job.path("over"));
        job.start();
        CHECK(eventually([&] { return !job.events("warning").empty(); }));
        write_file(job.path("over"), "");
        CHECK(job.wait() == 0);
        CHECK(job.only("warning").at("text").get<std::string>().starts_with(
            "storage.stage_out_time is 3.0 s, and the job ends in "));
    }
}

TEST_CASE("a squeue that fails or hangs is no matter to the job, and ends with it") {
    std::string then;
    SUBCASE("it fails") { then = "exit 1"; }
    SUBCASE("it hangs") { then = "trap '' TERM; exec sleep 1000"; }
    const FakeSqueue squeue("touch $(dirname $SQUEUE_TEST)/asked; " + then);
    Job job(2, {"hang"});
    job.plan().slurm_job_id = "4711";
    job.run_until(squeue.path("asked"));
    CHECK(job.run_to_end() == 0);
    CHECK(job.only("job_ended").at("outcome") == "succeeded");
    CHECK(job.events("time_limit_known").empty());
    CHECK(job.events("warning").empty());
    CHECK(processes_with(squeue.mark()).empty());
}

namespace {

std::size_t children_of(pid_t process) {
    const std::string number = std::to_string(process);
    const std::string pids = slurp("/proc/" + number + "/task/" + number + "/children");
    return static_cast<std::size_t>(std::count(pids.begin(), pids.end(), ' '));
}

/// A job whose ranks compute where a library that stands for the driver says it.
class GpuJob : public Job {
public:
    GpuJob() : Job(3, {}) {
        run_until(path("over"));
        for (RankPlan& rank : plan().ranks) {
            rank.binding.gpu = rank.rank;
            rank.gpu.emplace();
            rank.gpu->bdf = bdf(rank.rank);
            rank.gpu->vendor = "nvidia";
        }
        spec().monitoring.interval_seconds = 0.1;
        write_machine("");
        ::setenv("AUTOLAUNCH_NVML_LIBRARY", FAKE_NVML, 1);
        ::setenv("FAKE_NVML_MACHINE", path("driver").c_str(), 1);
    }
    ~GpuJob() { ::unsetenv("AUTOLAUNCH_NVML_LIBRARY"); }

    void write_machine(const std::string& text) const { write_file(path("driver"), text); }
    /// The first two compute on their GPUs, the last one on the first's.
    void begin_to_compute() const {
        std::map<int, int> pids;
        for (const json& event : events("rank_started"))
            pids[event.at("rank")] = event.at("pid");
        std::string text;
        for (const int rank : {0, 1, 2}) {
            text += "gpu " + bdf(rank) + " GPU-x H100\n";
            if (rank < 2)
                text += "process " + std::to_string(pids[rank]) + " 1024\n";
            if (rank == 0)
                text += "process " + std::to_string(pids[2]) + " 1024\n";
        }
        write_machine(text);
    }
    int end() {
        write_file(path("over"), "");
        return wait();
    }

private:
    static std::string bdf(int gpu) { return "0000:0" + std::to_string(gpu + 1) + ":00.0"; }
};

}  // namespace

TEST_CASE("a rank on a GPU that was not planned is an event and a warning") {
    GpuJob job;
    job.start();
    REQUIRE(job.wait_for_ranks(3));
    job.begin_to_compute();
    CHECK(eventually([&] { return !job.events("gpu_placement").empty(); }));
    CHECK(job.end() == 0);
    CHECK(job.only("placement_drift").at("rank") == 2);
    CHECK(job.only("placement_drift").at("what") ==
          "computes on GPU 0 (0000:01:00.0), planned was GPU 2");
    CHECK(job.only("warning").at("text") ==
          "rank 2 computes on GPU 0 (0000:01:00.0), planned was GPU 2. Does the program take the "
          "device of its "
          "LOCAL_RANK?");
    CHECK(job.only("gpu_placement").at("as_planned") == 2);
    CHECK(job.only("gpu_placement").at("elsewhere") == 1);
    CHECK(job.processes().empty());
}

TEST_CASE("a driver that hangs or crashes is no matter to the job") {
    GpuJob job;
    std::string why;
    SUBCASE("it crashes") {
        job.write_machine("crashes nvmlInit\n");
        why = "the process that asks NVIDIA's driver ended before it answered";
    }
    SUBCASE("it hangs, and the job ends meanwhile") { job.write_machine("hangs nvmlInit\n"); }
    job.start();
    REQUIRE(job.wait_for_ranks(3));
    if (why.empty()) {
        CHECK(eventually([&] { return children_of(job.agent()) == 4; }));
        ::usleep(300'000);
    } else {
        CHECK(eventually([&] { return !job.events("gpu_placement").empty(); }));
        CHECK(job.only("gpu_placement").at("cannot_tell") == why);
    }
    const auto start = std::chrono::steady_clock::now();
    CHECK(job.end() == 0);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(3));
    CHECK(job.events("warning").empty());
    CHECK(job.only("job_ended").at("outcome") == "succeeded");
    CHECK(job.processes().empty());
}

}  // namespace supervise_test
