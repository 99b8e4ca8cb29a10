// A job of three processes that loses one of them.
#include "rendezvous_nodes.hpp"

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <string>

namespace rendezvous_loss_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;
using namespace std::chrono_literals;

namespace {

/// A node in a process of its own. It writes a line when it has joined, and one when it loses
/// another.
class NodeProcess {
public:
    explicit NodeProcess(TestNode& node) {
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        out_.reset(ends[0]);
        UniqueFd in(ends[1]);
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ > 0)
            return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        live(node, in.get());
        ::_exit(0);
    }
    NodeProcess(const NodeProcess&) = delete;
    NodeProcess& operator=(const NodeProcess&) = delete;
    ~NodeProcess() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    void signal(int number) const { CHECK(::kill(pid_, number) == 0); }
    /// The next line; what there is of it when nothing comes for a minute.
    std::string line() {
        const auto deadline = Deadline::after(60s);
        std::string text;
        pollfd ready{out_.get(), POLLIN, 0};
        char byte = 0;
        while (::poll(&ready, 1, deadline.poll_timeout_ms()) > 0 &&
               ::read(out_.get(), &byte, 1) == 1 && byte != '\n')
            text += byte;
        return text;
    }

private:
    static void say(int out, const std::string& text) {
        const std::string whole = text + "\n";
        if (::write(out, whole.data(), whole.size()) < 0)
            ::_exit(1);
    }
    static void live(TestNode& node, int out) {
        node.join();
        if (node.exit_code != 0)
            return say(out, node.what);
        if (node.joined.head)
            node.joined.head->set_handlers({.on_report = [](int, control::Report&&) {},
                                            .on_node_lost =
                                                [out](int lost, const std::string& why) {
                                                    say(out, std::to_string(lost) + ": " + why);
                                                }});
        node.joined.member->set_handlers(
            {.on_command = {}, .on_head_lost = [out](const std::string& why) { say(out, why); }});
        say(out, "joined");
        node.io->run();
    }

    pid_t pid_ = 0;
    UniqueFd out_;
};

/// Three processes that have joined; the first is the head.
struct ThreeProcesses {
    explicit ThreeProcesses(std::chrono::milliseconds lost_after) {
        for (auto& node : job.nodes)
            node.spec.lost_after = lost_after;
        for (auto& node : job.nodes)
            processes.push_back(std::make_unique<NodeProcess>(node));
        for (auto& process : processes)
            REQUIRE(process->line() == "joined");
    }
    TestJob job{3};
    std::vector<std::unique_ptr<NodeProcess>> processes;
};

}  // namespace

TEST_CASE("a node's agent that is killed is missed at once") {
    ThreeProcesses three(1h);  // nothing but the broken connection can tell
    three.processes[1]->signal(SIGKILL);
    CHECK(three.processes[0]->line() ==
          "1: node1 (127.0.0.1) broke its connection: it closed the connection");
}

TEST_CASE("a node's agent that hangs is missed after rendezvous.lost_after") {
    ThreeProcesses three(1s);
    three.processes[2]->signal(SIGSTOP);
    CHECK(three.processes[0]->line() ==
          "2: node2 (127.0.0.1) has fallen silent: it has said nothing for 1 s");
}

TEST_CASE("a head that is killed is missed by all at once") {
    ThreeProcesses three(1h);
    three.processes[0]->signal(SIGKILL);
    for (std::size_t i = 1; i < 3; ++i)
        CHECK(three.processes[i]->line() ==
              "the head, node0 (127.0.0.1), broke its connection: it closed the connection");
}

TEST_CASE("a head that hangs is missed after rendezvous.lost_after") {
    ThreeProcesses three(1s);
    three.processes[0]->signal(SIGSTOP);
    for (std::size_t i = 1; i < 3; ++i)
        CHECK(three.processes[i]->line() ==
              "the head, node0 (127.0.0.1), has fallen silent: it has said nothing for 1 s");
}

}  // namespace rendezvous_loss_test
