// Asking `squeue`, with programs of that name that answer, are silent, never end or talk nonsense.

#include "allocation/time_left_query.hpp"
#include "allocation/slurm_command.hpp"
#include "fake_squeue.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <tuple>

namespace time_left_query_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::FakeSqueue;
using std::chrono::seconds;

namespace {

constexpr auto kPatience = seconds(20);

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

std::optional<seconds> ask(const std::string& script) {
    const FakeSqueue squeue(script);
    TimeLeftQuery query("4711");
    const auto answer = query.wait(Deadline::after(kPatience));
    CHECK(query.fd() == -1);
    CHECK_FALSE(has_children());
    return answer;
}

}  // namespace

TEST_CASE("a command's errors and code are told apart from its answer") {
    const auto run = [](const std::string& script, std::chrono::milliseconds time) {
        SlurmCommand command({"sh", "-c", script}, SlurmCommand::Errors::apart);
        const std::string answer = command.wait(Deadline::after(time));
        return std::tuple(answer, command.errors(), command.exit_code());
    };
    CHECK(run("echo out; echo err >&2; exit 3", kPatience) ==
          std::tuple<std::string, std::string, std::optional<int>>("out\n", "err\n", 3));
    CHECK(std::get<2>(run("exec >&-; sleep 0.2; exit 4", kPatience)) == 4);
    CHECK(std::get<2>(run("kill -9 $$", kPatience)) == std::nullopt);
    CHECK(std::get<2>(run("sleep 60", std::chrono::milliseconds(100))) == std::nullopt);
    // More than a pipe holds, before the answer.
    const auto [answer, errors, code] =
        run("head -c 100000 /dev/zero | tr '\\0' x >&2; echo done", kPatience);
    CHECK(answer == "done\n");
    CHECK(errors.size() == 100'000);
    CHECK(code == 0);
    CHECK_FALSE(has_children());
}

TEST_CASE("squeue is asked for the one job, and its answer is read") {
    const FakeSqueue squeue(
        "echo \"$@\" >$(dirname $SQUEUE_TEST)/arguments; cat; echo noise >&2; echo 4711 "
        "1-02:03:04 2-00:00:00");
    TimeLeftQuery query("4711");
    CHECK(query.fd() >= 0);
    CHECK(query.wait(Deadline::after(kPatience)) == seconds(86'400 + 2 * 3600 + 3 * 60 + 4));
    CHECK(squeue.file("arguments") == "-h -j 4711 -o%A %L %l\n");
    CHECK(query.time_limit() == "2-00:00:00");
    CHECK(query.time_left() == query.wait(Deadline::after(seconds(0))));
    CHECK_FALSE(has_children());
}

TEST_CASE("no limit and no answer are nothing") {
    CHECK_FALSE(ask("echo 4711 UNLIMITED"));
    CHECK_FALSE(ask("echo 4711 365-00:00:00"));  // Slurm's other way to say it
    CHECK_FALSE(ask("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"));
    CHECK_FALSE(ask("echo 4711 10:00; echo 4711 11:00"));           // two jobs?
    CHECK_FALSE(ask("printf '4711 10:00'"));                        // broken off
    CHECK_FALSE(ask("while :; do echo 4711 10:00 || exit; done"));  // without end
    CHECK(ask("printf '4711 1'; sleep 0.1; printf 0:; sleep 0.1; echo 00") == seconds(600));
}

TEST_CASE("a job that is over its limit, and not ended yet, has no time left, and not no limit") {
    CHECK(ask("echo 4711 INVALID 1:00") == seconds(0));
    CHECK(ask("echo 4711 0:00 1:00") == seconds(0));
    CHECK_FALSE(ask("echo 4711 INVALID UNLIMITED"));
}

TEST_CASE("who ends all children of this process can spare a command that is under way") {
    const FakeSqueue squeue("sleep 100");
    {
        const TimeLeftQuery query("4711");
        CHECK(SlurmCommand::under_way().size() == 1);
    }
    CHECK(SlurmCommand::under_way().empty());
}

TEST_CASE("a limit is squeue's word, or nothing") {
    const auto limit_of = [](const std::string& script) {
        const FakeSqueue squeue(script);
        TimeLeftQuery query("4711");
        query.wait(Deadline::after(kPatience));
        return query.time_limit();
    };
    CHECK(limit_of("echo 4711 UNLIMITED UNLIMITED") == "UNLIMITED");
    CHECK(limit_of("echo 4711 10:00").empty());
    CHECK(limit_of("echo 4711 10:00 20:00; echo 4711 11:00 20:00").empty());
    CHECK(limit_of("exit 1").empty());
}

TEST_CASE("of the lines of an array, the job's own counts") {
    CHECK(ask("echo 4709 10:00; echo 4711 20:00; echo 4710 30:00") == seconds(1200));
    CHECK_FALSE(ask("echo 4709 10:00; echo 47110 20:00"));
    CHECK(ask("for i in $(seq 1000); do echo $i 10:00; done; echo 4711 20:00") == seconds(1200));
}

TEST_CASE("no squeue, or no job id: over at once") {
    const FakeSqueue none("");
    for (const char* job : {"4711", "", "4711.0", "-h", "1;2"}) {
        TimeLeftQuery query(job);
        CHECK_FALSE(query.wait(Deadline::after(kPatience)));
        CHECK(query.fd() == -1);
    }
    CHECK_FALSE(has_children());
}

TEST_CASE("a squeue that hangs is ended at the deadline, and with its query") {
    const FakeSqueue squeue("trap '' TERM; exec sleep 1000");
    {
        TimeLeftQuery query("4711");
        CHECK_FALSE(query.advance());
        CHECK_FALSE(query.time_left());
        CHECK_FALSE(query.wait(Deadline::after(std::chrono::milliseconds(100))));
        CHECK(query.fd() == -1);
        CHECK_FALSE(has_children());
    }
    { const TimeLeftQuery dropped("4711"); }
    CHECK_FALSE(has_children());
}

}  // namespace time_left_query_test
