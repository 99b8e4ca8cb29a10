// What lies between Communicator's functions and a backend: the calls as data, their checks, groups
// and queues.
#include "comm/backend.hpp"
#include "comm/call.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace comm_calls_test {

using namespace autolaunch;
using namespace std::chrono_literals;

namespace {

/// Rank 1 of 3; writes down what it is told, each call for as long as the test holds the gate.
class RecordingBackend final : public CommunicatorBackend {
public:
    std::string_view name() const noexcept override { return "recording"; }
    int rank() const noexcept override { return 1; }
    int size() const noexcept override { return 3; }
    DeviceType device_type() const noexcept override { return DeviceType::cpu; }

    Work start(const CollectiveCall& call, Stream) override {
        CHECK_FALSE(running.exchange(true));  // one at a time
        while (closed)
            std::this_thread::sleep_for(1ms);
        const std::scoped_lock lock(mutex);
        seen.push_back(describe(call));
        running = false;
        if (fail)
            throw Error(ErrorCode::closed, "rank 2 went away");
        return {};
    }
    Work start_group(std::span<const CollectiveCall> calls, Stream) override {
        const std::scoped_lock lock(mutex);
        seen.push_back("group of " + std::to_string(calls.size()));
        return {};
    }
    void barrier() override { seen.push_back("barrier"); }
    std::shared_ptr<CommunicatorBackend> split(int, int) override { return nullptr; }
    void abort(const std::string&) override {}
    CommunicatorStatus status() const override { return CommunicatorStatus::ok; }

    std::vector<std::string> seen;
    std::mutex mutex;
    std::atomic<bool> closed{false}, fail{false}, running{false};
};

struct Fixture {
    std::shared_ptr<RecordingBackend> backend = std::make_shared<RecordingBackend>();
    Communicator comm{backend};
    std::array<float, 16> a{}, b{};
};

}  // namespace

TEST_CASE("ragged blocks know where each begins, and equal ones are uniform") {
    const std::array<std::size_t, 3> counts = {3, 0, 4};
    const auto blocks = BlockCounts::ragged(counts);
    CHECK_FALSE(blocks.is_uniform());
    CHECK(blocks.offset(0) == 0);
    CHECK(blocks.offset(1) == 3);
    CHECK(blocks.offset(2) == 3);
    CHECK(blocks.count(1) == 0);
    CHECK(blocks.count(2) == 4);
    CHECK(blocks.total() == 7);
    CHECK(blocks.longest() == 4);
    CHECK(BlockCounts::ragged(std::array<std::size_t, 3>{5, 5, 5}) == BlockCounts::uniform(5, 3));
    CHECK(BlockCounts::ragged(std::array<std::size_t, 2>{SIZE_MAX, 2}).total() == SIZE_MAX);
    CHECK(BlockCounts::uniform(SIZE_MAX / 2, 3).total() == SIZE_MAX);
}

TEST_CASE_FIXTURE(Fixture, "what no backend could do is refused before it is asked") {
    const auto refused = [](const auto& call) { CHECK_THROWS_AS(call(), Error); };
    refused([&] {
        comm.all_gather_v(a.data(), b.data(), std::array<std::size_t, 2>{1, 2}, f32);
    });                                                           // two counts
    refused([&] { comm.gather(a.data(), nullptr, 1, f32, 1); });  // we are the root
    refused([&] { comm.scatter(nullptr, b.data(), 1, f32, 1); });
    refused([&] { comm.reduce(a.data(), nullptr, 1, f32, ReduceOp::sum, 1); });
    refused([&] { comm.reduce(a.data(), b.data(), 1, f32, ReduceOp::sum, 3); });
    refused([&] {
        comm.reduce_scatter_v(a.data(), a.data(), std::array<std::size_t, 3>{1, 2, 3}, f32,
                              ReduceOp::sum);
    });
    refused([&] { comm.all_gather(a.data(), b.data(), SIZE_MAX / 8, f32); });
    refused([&] {
        comm.all_to_all_v(a.data(), std::array<std::size_t, 3>{1, 2, 3}, a.data(),
                          std::array<std::size_t, 3>{3, 2, 1}, f32);
    });
    refused([&] { comm.send(a.data(), 1, f32, 1); });
    refused([&] { (void)comm.shrink(std::array{1}); });
    refused([&] { (void)comm.shrink(std::array{0}); });  // this backend can't
    refused([&] { comm.group_end(); });
    CHECK(backend->seen.empty());
    comm.gather(a.data(), nullptr, 1, f32, 0);
    comm.scatter(nullptr, b.data(), 1, f32, 0);
    comm.reduce(a.data(), nullptr, 1, f32, ReduceOp::sum, 2);
    // In place: the second block of three ragged ones.
    comm.reduce_scatter_v(a.data(), a.data() + 1, std::array<std::size_t, 3>{1, 2, 3}, f32,
                          ReduceOp::avg);
    CHECK(backend->seen ==
          std::vector<std::string>{
              "gather to rank 0 of 1 elements of f32", "scatter from rank 0 of 1 elements of f32",
              "reduce (sum) to rank 2 of 1 elements of f32",
              "reduce_scatter (avg) of ragged blocks, together 6 elements of f32"});
}

TEST_CASE_FIXTURE(Fixture, "a group reaches the backend as one, and an empty one not at all") {
    comm.group_start();
    CHECK_THROWS_AS(comm.group_start(), Error);
    CHECK_THROWS_AS(comm.barrier(), Error);
    comm.send(a.data(), 1, f32, 0);
    comm.recv(b.data(), 1, f32, 2);
    CHECK(backend->seen.empty());
    comm.group_end().wait();
    comm.group_start();
    comm.group_end().wait();
    CHECK(backend->seen == std::vector<std::string>{"group of 2"});
}

TEST_CASE_FIXTURE(Fixture, "calls on queues and without one keep their order") {
    CpuQueue first, second;
    backend->closed = true;
    Work one = comm.broadcast(a.data(), 1, f32, 0, first.stream());
    Work two = comm.broadcast(a.data(), 2, f32, 0, second.stream());
    CHECK_FALSE(one.is_completed());
    CHECK_FALSE(two.wait_for(2ms));
    backend->closed = false;
    comm.broadcast(a.data(), 3, f32, 0);
    CHECK(one.is_completed());
    CHECK(two.is_completed());
    CHECK(backend->seen == std::vector<std::string>{"broadcast from rank 0 of 1 elements of f32",
                                                    "broadcast from rank 0 of 2 elements of f32",
                                                    "broadcast from rank 0 of 3 elements of f32"});
}

TEST_CASE_FIXTURE(Fixture,
                  "what a queued call failed with is thrown by its Work, and by the next call") {
    CpuQueue queue;
    backend->fail = true;
    Work work = comm.broadcast(a.data(), 1, f32, 0, queue.stream());
    CHECK_THROWS_AS(work.wait(), Error);
    CHECK_THROWS_AS(work.wait_for(1s), Error);
    CHECK_THROWS_AS(comm.barrier(), Error);
}

TEST_CASE("a queue runs its work in order, and ends when all is done") {
    std::vector<int> order;
    {
        CpuQueue queue;
        for (int i = 0; i < 100; ++i)
            queue.run([&order, i] { order.push_back(i); });
        queue.synchronize();
        CHECK(order.size() == 100);
        queue.run([&order] { order.push_back(100); });
    }
    REQUIRE(order.size() == 101);
    for (int i = 0; i <= 100; ++i)
        CHECK(order[static_cast<std::size_t>(i)] == i);
}

}  // namespace comm_calls_test
