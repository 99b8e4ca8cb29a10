#pragma once
// Nodes of one job in one process: each has its own event loop and calls join_job, over real
// sockets on the loopback.
#include "rendezvous/join.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace autolaunch::testing {

using namespace autolaunch::launcher;

/// What one node starts from, and what came of it.
struct TestNode {
    RendezvousSpec spec;
    Allocation allocation;
    EnvironmentMap environment;
    JoinRequest request;

    std::unique_ptr<asio::io_context> io = std::make_unique<asio::io_context>(1);
    Joined joined;
    int exit_code = 0;  ///< of the RendezvousError, or -1 of another
    std::string what, hint;
    std::chrono::milliseconds took{0};

    void join() {
        const auto start = std::chrono::steady_clock::now();
        try {
            joined = join_job(*io, spec, allocation, environment, request);
        } catch (const RendezvousError& error) {
            exit_code = error.exit_code();
            what = error.what();
            hint = error.hint();
        } catch (const std::exception& error) {
            exit_code = -1;
            what = error.what();
        }
        took = std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::steady_clock::now() - start);
    }
    /// Everything that is ready now.
    void poll() {
        io->restart();
        io->poll();
    }
};

/// Threads while the nodes join, one thread for all of them afterwards.
class TestJob {
public:
    explicit TestJob(int node_count) : nodes(static_cast<std::size_t>(node_count)) {
        static std::atomic<int> jobs{0};
        const std::string job_id =
            "test-" + std::to_string(::getpid()) + "-" + std::to_string(++jobs);
        std::vector<std::string> names;
        for (int i = 0; i < node_count; ++i)
            names.push_back("node" + std::to_string(i));
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            TestNode& node = nodes[i];
            node.spec.timeout = std::chrono::seconds(60);
            node.spec.lost_after = std::chrono::seconds(20);
            node.request.spec_name = "train.yaml";
            node.allocation.source = "test";
            node.allocation.job_id = job_id;
            node.allocation.node_names = names;
            node.allocation.node_rank = static_cast<int>(i);
            node.allocation.head_address = "127.0.0.1";
            node.environment = {{"AUTOLAUNCH_JOB_KEY", "only for tests: 0123456789"},
                                {"PATH", "/bin"}};
            node.request.version = "0.1.0";
            node.request.hostname = names[i];
            node.request.node_count = node_count;
            node.request.ranks_here = 8;
            node.request.run_name = "run-of-" + names[i];
            node.request.program_digest = 1;
            node.request.spec_digest = 2;
        }
    }
    TestJob(const TestJob&) = delete;
    TestJob& operator=(const TestJob&) = delete;
    ~TestJob() { wait(); }

    void start(std::size_t node) {
        threads_.emplace_back([this, node] { nodes[node].join(); });
    }
    void wait() {
        for (auto& thread : threads_)
            thread.join();
        threads_.clear();
    }
    void join_all() {
        for (std::size_t i = nodes.size(); i > 0; --i)
            start(i - 1);
        wait();
    }
    bool all_joined() const {
        for (const auto& node : nodes)
            if (node.exit_code != 0 || node.joined.member == nullptr)
                return false;
        return true;
    }
    /// Runs all event loops until `condition` holds; false after `limit`.
    bool run_until(const std::function<bool()>& condition,
                   std::chrono::milliseconds limit = std::chrono::seconds(60)) {
        const auto end = std::chrono::steady_clock::now() + limit;
        while (!condition()) {
            if (std::chrono::steady_clock::now() > end)
                return false;
            for (auto& node : nodes)
                node.poll();
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        return true;
    }

    std::vector<TestNode> nodes;

private:
    std::vector<std::thread> threads_;
};

}  // namespace autolaunch::testing
