// Jobs of several nodes: as many agents, real processes that join over loopback, and ranks that
// misbehave.

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "processes.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace supervise_nodes_test {

using namespace autolaunch;
using namespace autolaunch::testing;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

/// `autolaunch` on every node of a job, each with --node-rank, as a person would start them.
class Nodes {
public:
    /// `steps`: misbehave's, by global rank.
    Nodes(int node_count, int ranks_per_node, Words steps)
        : mark_("SUPERVISE_NODES_TEST=" + random_hex(8)), steps_(std::move(steps)) {
        nodes_.resize(static_cast<std::size_t>(node_count));
        for (Node& node : nodes_)
            node.ranks = ranks_per_node;
        std::filesystem::create_directory(path("runtime"));
        std::filesystem::permissions(path("runtime"), std::filesystem::perms::owner_all);
    }
    ~Nodes() {
        for (const Node& node : nodes_)
            if (node.keeper > 0)
                ::kill(node.keeper, SIGKILL);
        for (const pid_t pid : processes_with(mark_))
            ::kill(pid, SIGKILL);
    }

    std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
    Words options;  ///< of all nodes
    std::string program = MISBEHAVE_PROGRAM;
    std::string spec;  ///< train.yaml; empty: none
    bool own_folders =
        false;  ///< each node has a run directory of its own, as without a shared file system
    void set_steps(Words steps) { steps_ = std::move(steps); }
    void set_ranks(int node, int ranks) { nodes_.at(static_cast<std::size_t>(node)).ranks = ranks; }
    void set_log_dir(int node, const std::string& log_dir) {
        nodes_.at(static_cast<std::size_t>(node)).log_dir = log_dir;
    }

    void start() {
        if (!spec.empty())
            write_file(path("train.yaml"), spec);
        for (int node = 0; node < size(); ++node)
            start(node);
    }

    /// Exit codes by node; killed by a signal: minus its number.
    std::vector<int> wait() {
        std::vector<int> codes;
        for (Node& node : nodes_) {
            int status = 0;
            REQUIRE(::waitpid(node.keeper, &status, 0) == node.keeper);
            node.keeper = -1;
            codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
        }
        return codes;
    }
    std::vector<int> run_to_end() {
        start();
        return wait();
    }

    pid_t keeper(int node) const { return nodes_.at(static_cast<std::size_t>(node)).keeper; }
    /// The child of the guardian, which is the keeper's.
    pid_t agent(int node) const { return only_child(only_child(keeper(node))); }

    std::string run_dir(int node) const {
        const std::string& named = nodes_.at(static_cast<std::size_t>(node)).log_dir;
        return !named.empty() ? named
                              : path(own_folders ? "run-" + std::to_string(node) : "run").string();
    }
    std::vector<json> events(int node, const std::string& name) const {
        const std::string file =
            node == 0 ? "/events.jsonl" : "/events.node-" + std::to_string(node) + ".jsonl";
        std::vector<json> found;
        for (const auto& line : split(slurp(run_dir(node) + file), '\n')) {
            json event = json::parse(line, nullptr, false);
            if (!event.is_discarded() && event.at("event") == name)
                found.push_back(event);
        }
        return found;
    }
    /// What the node's agent printed.
    std::string shown(int node) const { return slurp(path("err-" + std::to_string(node))); }
    std::string output(int node, int rank, int generation = 0,
                       const std::string& stream = "stdout") const {
        return slurp(run_dir(node) + "/generation-" + std::to_string(generation) + "/rank-" +
                     std::to_string(rank) + "/" + stream);
    }
    /// All ranks have said "ready" to stderr.
    bool wait_until_ready() const {
        return eventually([&] {
            int rank = 0;
            for (int node = 0; node < size(); ++node)
                for (int local = 0; local < nodes_[static_cast<std::size_t>(node)].ranks; ++local)
                    if (output(node, rank++, 0, "stderr") != "ready\n")
                        return false;
            return true;
        });
    }
    /// All ranks' recorders have come to their agents: what follows them on the line has.
    bool wait_until_recorded() const {
        return eventually([&] {
            for (int node = 0; node < size(); ++node) {
                const std::size_t ranks =
                    static_cast<std::size_t>(nodes_[static_cast<std::size_t>(node)].ranks);
                if (events(node, "message").size() < ranks)
                    return false;
            }
            return true;
        });
    }
    bool nothing_left() const {
        return eventually([&] { return processes_with(mark_).empty(); }) &&
               std::filesystem::is_empty(path("runtime"));
    }
    int size() const { return static_cast<int>(nodes_.size()); }

private:
    static pid_t only_child(pid_t parent) {
        const std::string pid = std::to_string(parent);
        const std::string children = slurp("/proc/" + pid + "/task/" + pid + "/children");
        REQUIRE_FALSE(children.empty());
        return std::stoi(children);
    }

    struct Node {
        int ranks = 1;
        std::string log_dir;
        pid_t keeper = -1;
    };

    Words command(int node) const {
        Words words{AUTOLAUNCH_PROGRAM};
        if (!spec.empty())
            words.insert(words.end(), {"-c", path("train.yaml")});
        words.insert(words.end(), {"--nnodes", std::to_string(size()), "--node-rank",
                                   std::to_string(node), "--master-addr", "127.0.0.1", "--rdzv-id",
                                   mark_.substr(mark_.find('=') + 1), "--nproc-per-node",
                                   std::to_string(nodes_[static_cast<std::size_t>(node)].ranks),
                                   "--log-dir", run_dir(node)});
        words.insert(words.end(), options.begin(), options.end());
        words.insert(words.end(), {"--", program});
        words.insert(words.end(), steps_.begin(), steps_.end());
        return words;
    }

    void start(int node) {
        const Words words = command(node);
        const Words environment{"PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=" + path("runtime").string(),
                                "AUTOLAUNCH_JOB_KEY=" + key_, mark_};
        std::fflush(nullptr);
        const pid_t pid = ::fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            const int out = ::open(path("out-" + std::to_string(node)).c_str(),
                                   O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            const int err = ::open(path("err-" + std::to_string(node)).c_str(),
                                   O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            ::dup2(out, 1);
            ::dup2(err, 2);
            std::vector<char*> argv, envp;
            for (const auto& word : words)
                argv.push_back(const_cast<char*>(word.c_str()));
            for (const auto& entry : environment)
                envp.push_back(const_cast<char*>(entry.c_str()));
            argv.push_back(nullptr);
            envp.push_back(nullptr);
            ::execve(argv[0], argv.data(), envp.data());
            ::_exit(99);
        }
        nodes_[static_cast<std::size_t>(node)].keeper = pid;
    }

    TemporaryFolder folder_;
    std::string mark_, key_ = random_hex(32);
    Words steps_;
    std::vector<Node> nodes_;
};

std::map<std::string, std::string> environment_in(const std::string& facts) {
    std::map<std::string, std::string> found;
    for (const auto& line : split(facts, '\n'))
        if (line.starts_with("env "))
            found[line.substr(4, line.find('=') - 4)] = line.substr(line.find('=') + 1);
    return found;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::vector<int> all(int count, int code) {
    return std::vector<int>(static_cast<std::size_t>(count), code);
}

}  // namespace

TEST_CASE("ranks of all nodes are one job, and meet at its store") {
    Nodes nodes(3, 2, {"facts,meet,exit:0"});
    CHECK(nodes.run_to_end() == all(3, 0));
    for (int rank = 0; rank < 6; ++rank) {
        const std::string output = nodes.output(rank / 2, rank);
        CHECK(has(output, "all here\n"));
        const auto environment = environment_in(output);
        CHECK(environment.at("RANK") == std::to_string(rank));
        CHECK(environment.at("LOCAL_RANK") == std::to_string(rank % 2));
        CHECK(environment.at("WORLD_SIZE") == "6");
        CHECK(environment.at("GROUP_RANK") == std::to_string(rank / 2));
        CHECK(environment.at("GROUP_WORLD_SIZE") == "3");
        CHECK(environment.at("MASTER_ADDR") == "127.0.0.1");
    }
    CHECK(has(nodes.shown(0), "   3 nodes x 2 ranks   "));
    CHECK(has(nodes.shown(0), "  joined    3/3 nodes in "));
    CHECK(has(nodes.shown(0), "  placed    6/6 ranks as planned in "));
    CHECK(has(nodes.shown(0), "done in "));
    CHECK(nodes.shown(1).empty());
    CHECK(nodes.events(0, "rank_exited").size() == 2);
    CHECK(nodes.events(2, "rank_exited").size() == 2);
    CHECK(nodes.events(2, "job_ended").empty());
    CHECK(std::filesystem::exists(nodes.path("run/plan.node-1.json")));
    CHECK(nodes.nothing_left());
}

TEST_CASE("nodes may have different numbers of ranks") {
    Nodes nodes(2, 1, {"facts,meet,exit:0"});
    nodes.set_ranks(0, 3);
    CHECK(nodes.run_to_end() == all(2, 0));
    const auto environment = environment_in(nodes.output(1, 3));
    CHECK(environment.at("RANK") == "3");
    CHECK(environment.at("LOCAL_RANK") == "0");
    CHECK(environment.at("WORLD_SIZE") == "4");
    CHECK(environment.at("LOCAL_WORLD_SIZE") == "1");
    CHECK(has(nodes.shown(0), "   2 nodes, 4 ranks   "));
}

TEST_CASE("a rank that fails on another node is shown on the head, with its last words") {
    Nodes nodes(
        3, 2,
        {"hang", "hang", "hang", "error-file:it broke,say:last words,sleep:0.3,exit:7", "hang"});
    SUBCASE("run directory on a shared file system") {}
    SUBCASE("a run directory on each node") { nodes.own_folders = true; }
    CHECK(nodes.run_to_end() == all(3, 7));
    CHECK(has(nodes.shown(0), "✗ rank 3 ("));
    CHECK(has(nodes.shown(0), " exited with code 7, "));
    CHECK(has(nodes.shown(0), " s after it started\n"));
    CHECK(has(nodes.shown(0), "      | last words\n"));
    CHECK(has(nodes.shown(0), "its error file says: it broke\n"));
    CHECK(has(nodes.shown(0), "    5 other ranks were stopped in "));
    const auto failed = nodes.events(0, "generation_failed");
    REQUIRE(failed.size() == 1);
    CHECK(failed[0].at("first").at("rank") == 3);
    CHECK(failed[0].at("others").size() == 5);
    CHECK(slurp(failed[0].at("stderr_path").get<std::string>()) == "last words\n");
    CHECK_FALSE(has(nodes.shown(1), "✗"));
    CHECK(nodes.nothing_left());
}

TEST_CASE("after a failure all nodes start again, at a fresh store") {
    Nodes nodes(3, 2,
                {"facts,meet,exit:0", "facts,meet,exit:0",
                 "facts,meet,fail-before-generation:2:9,exit:0", "facts,meet,sleep:0.2,exit:0"});
    nodes.options = {"--max-restarts", "3"};
    CHECK(nodes.run_to_end() == all(3, 0));
    for (int generation = 0; generation < 3; ++generation) {
        for (int rank = 0; rank < 6; ++rank) {
            const std::string output = nodes.output(rank / 2, rank, generation);
            if (generation == 2)
                CHECK(has(output, "all here\n"));  // before, the failure may come first
            CHECK(environment_in(output).at("TORCHELASTIC_RESTART_COUNT") ==
                  std::to_string(generation));
        }
    }
    CHECK(has(nodes.shown(0), "restart 2 of 3"));
    CHECK(nodes.events(0, "job_ended").at(0).at("restarts") == 2);
    CHECK(nodes.nothing_left());
}

TEST_CASE("a stop signal that reaches any agent stops the job on all nodes") {
    Nodes nodes(3, 1, {"say:ready,hang"});
    nodes.start();
    REQUIRE(nodes.wait_until_ready());
    SUBCASE("of the head") { ::kill(nodes.keeper(0), SIGTERM); }
    SUBCASE("of another node") { ::kill(nodes.keeper(2), SIGTERM); }
    SUBCASE("of all, as a scheduler sends it") {
        for (int node = 0; node < 3; ++node)
            ::kill(nodes.keeper(node), SIGTERM);
    }
    CHECK(nodes.wait() == all(3, 143));
    for (int node = 0; node < 3; ++node) {
        const auto exited = nodes.events(node, "rank_exited");
        REQUIRE(exited.size() == 1);
        CHECK(exited[0].at("signal") == SIGTERM);
    }
    CHECK(nodes.events(0, "generation_failed").empty());
    CHECK(nodes.events(0, "stop_requested").size() == 1);
    CHECK(nodes.nothing_left());
}

TEST_CASE("SIGUSR2 at any agent shows where the ranks of all nodes are, and the job goes on") {
    Nodes nodes(3, 2, {});
    nodes.program = FLIGHT_RANK_PROGRAM;
    nodes.set_steps({"pretend", nodes.path("go").string()});
    nodes.start();
    REQUIRE(nodes.wait_until_recorded());
    SUBCASE("at the head's") { ::kill(nodes.keeper(0), SIGUSR2); }
    SUBCASE("at another one") { ::kill(nodes.keeper(2), SIGUSR2); }
    SUBCASE("at all, as a scheduler sends it") {
        for (int node = 0; node < 3; ++node)
            ::kill(nodes.keeper(node), SIGUSR2);
    }
    REQUIRE(eventually([&] { return !nodes.events(0, "flight").empty(); }));
    const json flight = nodes.events(0, "flight")[0];
    CHECK(has(flight.at("lines").at(0),
              "ranks 0-4 wait in all_reduce #2 (1 KiB, h.0 gradients) for "));
    CHECK(has(flight.at("lines").at(1),
              "rank 5 has not entered it: it was last in all_gather #1 (64 B), until "));
    const json file = json::parse(slurp(flight.at("path")));
    CHECK(file.at("groups").at(0).at("members").size() == 6);
    CHECK(file.at("groups").at(0).at("behind") == json::array({5}));
    write_file(nodes.path("go"), "");
    CHECK(nodes.wait() == all(3, 0));
    CHECK(nodes.events(0, "flight").size() == 1);
    CHECK(nodes.nothing_left());
}

TEST_CASE("a rank that is killed: where the ranks of all nodes were before they were stopped") {
    Nodes nodes(2, 2, {});
    nodes.program = FLIGHT_RANK_PROGRAM;
    nodes.set_steps({"pretend", nodes.path("go").string()});
    nodes.start();
    REQUIRE(nodes.wait_until_recorded());
    const json started = nodes.events(1, "rank_started").at(0);
    ::kill(started.at("pid").get<pid_t>(), SIGKILL);
    CHECK(nodes.wait() == all(2, 137));
    const json failed = nodes.events(0, "generation_failed").at(0);
    const json file = json::parse(slurp(failed.at("flight_path")));
    CHECK(file.at("reason") == "rank 2 failed");
    CHECK(has(nodes.shown(0), "ranks 0-1 wait in all_reduce #2 (1 KiB, h.0 gradients) for "));
    CHECK(has(nodes.shown(0), ", rank 2 ended within it"));
    CHECK(has(nodes.shown(0), "rank 3 has not entered it"));
    CHECK(nodes.nothing_left());
}

TEST_CASE("a node that is lost: where the ranks of the others were") {
    Nodes nodes(2, 2, {});
    nodes.program = FLIGHT_RANK_PROGRAM;
    nodes.set_steps({"pretend", nodes.path("go").string()});
    nodes.start();
    REQUIRE(nodes.wait_until_recorded());
    ::kill(nodes.agent(1), SIGKILL);
    CHECK(nodes.wait().at(0) == 68);
    CHECK(has(nodes.shown(0), "ranks 0-1 wait in all_reduce #2 (1 KiB, h.0 gradients) for "));
    CHECK(has(nodes.shown(0), "ranks 2-3 have no recorder"));
    CHECK(nodes.nothing_left());
}

TEST_CASE(
    "ranks that ignore SIGINT and SIGTERM are killed on every node after the grace period, or by a "
    "second signal") {
    Nodes nodes(2, 1, {"ignore-term,ignore-int,say:ready,hang"});
    bool again = false;
    SUBCASE("the grace period") {
        nodes.spec = "trainer: {command: [x]}\nrestart: {grace_period: 1s}\n";
    }
    SUBCASE("a second signal to the same agent") { again = true; }
    nodes.start();
    REQUIRE(nodes.wait_until_ready());
    ::kill(nodes.keeper(1), SIGINT);
    if (again) {
        REQUIRE(eventually([&] { return nodes.events(0, "rank_signalled").size() == 1; }));
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        CHECK(nodes.events(0, "rank_exited").empty());
        ::kill(nodes.keeper(1), SIGINT);
    }
    CHECK(nodes.wait() == all(2, 130));
    for (int node = 0; node < 2; ++node) {
        std::vector<int> signals;
        for (const auto& event : nodes.events(node, "rank_signalled"))
            signals.push_back(event.at("signal"));
        CHECK(signals ==
              (again ? std::vector{SIGINT, SIGKILL} : std::vector{SIGINT, SIGTERM, SIGKILL}));
    }
    CHECK(nodes.nothing_left());
}

TEST_CASE("a node whose agent is killed is lost: the others end, and the job with 68") {
    Nodes nodes(3, 2, {"daemon,stubborn-child,say:ready,hang"});
    nodes.options = {"--max-restarts", "3"};
    nodes.start();
    REQUIRE(nodes.wait_until_ready());
    ::kill(nodes.agent(1), SIGKILL);
    CHECK(nodes.wait() == all(3, 68));
    CHECK(has(nodes.shown(0), " was lost, with ranks 2-3, "));
    CHECK(has(nodes.shown(0), "    4 ranks on the other nodes were stopped in "));
    CHECK(has(nodes.shown(0), "was lost after "));
    const auto lost = nodes.events(0, "node_lost");
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].at("ranks") == std::vector{2, 3});
    CHECK(nodes.events(0, "job_ended").at(0).at("restarts") == 0);
    CHECK(nodes.nothing_left());
}

TEST_CASE("a node that falls silent is lost, and ends its ranks when it comes back to life") {
    Nodes nodes(2, 1, {"say:ready,hang"});
    nodes.spec = "trainer: {command: [x]}\nrendezvous: {lost_after: 1s}\n";
    nodes.start();
    REQUIRE(nodes.wait_until_ready());
    const pid_t frozen = nodes.agent(1);
    ::kill(frozen, SIGSTOP);
    CHECK(eventually([&] { return !nodes.events(0, "job_ended").empty(); }));
    ::kill(frozen, SIGCONT);
    CHECK(nodes.wait() == all(2, 68));
    CHECK(has(nodes.shown(0), " was lost, with rank 1, "));
    CHECK(has(nodes.shown(1), "✗ the head was lost: "));
    CHECK(nodes.nothing_left());
}

TEST_CASE("nodes whose head is killed end their ranks by themselves, and say so") {
    Nodes nodes(
        3, 1,
        {"daemon,ignore-term,say:ready,hang", "say:ready,hang", "ignore-term,say:ready,hang"});
    nodes.spec = "trainer: {command: [x]}\nrestart: {grace_period: 1s}\n";
    nodes.start();
    REQUIRE(nodes.wait_until_ready());
    ::kill(nodes.agent(0), SIGKILL);
    CHECK(nodes.wait() == all(3, 68));
    for (const int node : {1, 2}) {
        CHECK(has(nodes.shown(node), "✗ the head was lost: "));
    }
    CHECK(nodes.events(2, "rank_exited").at(0).at("signal") == SIGKILL);
    CHECK(nodes.nothing_left());
}

TEST_CASE("a keeper that is killed ends the job everywhere") {
    Nodes nodes(2, 1, {"ignore-term,say:ready,hang"});
    nodes.start();
    REQUIRE(nodes.wait_until_ready());
    int node = 0, others = 137;
    SUBCASE("on the head") { node = 0; }
    SUBCASE("on another node") {  // which is lost by it
        node = 1;
        others = 68;
    }
    ::kill(nodes.keeper(node), SIGKILL);
    const auto codes = nodes.wait();
    CHECK(codes[static_cast<std::size_t>(node)] == -SIGKILL);
    CHECK(codes[static_cast<std::size_t>(1 - node)] == others);
    CHECK(nodes.nothing_left());
}

TEST_CASE("a node that cannot take part ends the job with its code, and says why on the head") {
    Nodes nodes(2, 1, {"hang"});
    nodes.options = {"--max-restarts", "3"};
    nodes.set_log_dir(1, "/proc/no-such/run");
    CHECK(nodes.run_to_end() == all(2, 73));
    CHECK(has(nodes.shown(0), "✗ rank 1 could not be started: "));
    CHECK(has(nodes.shown(0), "cannot create the run directory /proc/no-such/run"));
    CHECK(has(nodes.shown(1), "cannot create the run directory"));
    CHECK(nodes.nothing_left());
}

TEST_CASE("a head that cannot take part sends the others home") {
    Nodes nodes(3, 1, {"hang"});
    nodes.set_log_dir(0, "/proc/no-such/run");
    CHECK(nodes.run_to_end() == all(3, 73));
    CHECK(has(nodes.shown(0), "cannot create the run directory"));
    CHECK(nodes.nothing_left());
}

TEST_CASE("a program that is nowhere is said once, and is not tried again") {
    Nodes nodes(3, 1, {});
    nodes.program = "no-such-program-anywhere";
    nodes.options = {"--max-restarts", "3"};
    CHECK(nodes.run_to_end() == all(3, 127));
    CHECK(nodes.events(0, "spawn_failed").size() == 1);
    CHECK(has(nodes.shown(0), "could not be started"));
    CHECK(nodes.events(0, "job_ended").at(0).at("restarts") == 0);
    CHECK(nodes.nothing_left());
}

TEST_CASE("failures on two nodes: the earlier one is the first, the other is told beside it") {
    Nodes nodes(2, 1, {"sleep:0.4,exit:3", "ignore-term,sleep:0.1,exit:4"});
    CHECK(nodes.run_to_end() == all(2, 4));
    const auto failed = nodes.events(0, "generation_failed");
    REQUIRE(failed.size() == 1);
    CHECK(failed[0].at("first").at("rank") == 1);
    REQUIRE(failed[0].at("others").size() == 1);
    CHECK(failed[0].at("others")[0].at("rank") == 0);
}

TEST_CASE("trainers on all nodes stop by themselves, and ask to be requeued") {
    Nodes nodes(2, 2, {"train:0"});
    nodes.start();
    REQUIRE(
        eventually([&] {  // a rank that has reported a step has said before that it stops by itself
            std::set<int> ranks;
            for (int node = 0; node < 2; ++node)
                for (const auto& step : nodes.events(node, "step"))
                    ranks.insert(step.at("rank").get<int>());
            return ranks.size() == 4;
        }));
    for (int node = 0; node < 2; ++node)
        ::kill(nodes.keeper(node), SIGTERM);
    CHECK(nodes.wait() == all(2, 75));
    CHECK(nodes.events(1, "rank_signalled").empty());
    CHECK(nodes.nothing_left());
}

}  // namespace supervise_nodes_test
