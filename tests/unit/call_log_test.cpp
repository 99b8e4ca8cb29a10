// What the flight recorder is told of the calls of a communicator.
#include "comm/backend.hpp"
#include "comm/call_dispatcher.hpp"
#include "comm/work_state.hpp"
#include "flight/flight_reader.hpp"

#include <autolaunch/comm/device.hpp>
#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace call_log_test {

using namespace autolaunch;
using namespace autolaunch::flight;
using namespace std::chrono_literals;

namespace {

/// What a device says of its work.
class DeviceWork final : public Work::State {
public:
    bool is_completed() const override { return done; }
    void wait() override {
        if (failed)
            throw TimeoutError("the device is silent");
        done = true;
    }
    bool wait_for(std::chrono::nanoseconds) override { return done; }
    std::atomic<bool> done{false}, failed{false};
};

/// Rank 1 of 3, on a CPU or a device; does nothing, or throws.
class StubBackend final : public CommunicatorBackend {
public:
    explicit StubBackend(DeviceType type) : type_(type) {}
    std::string_view name() const noexcept override { return "stub"; }
    int rank() const noexcept override { return 1; }
    int size() const noexcept override { return 3; }
    DeviceType device_type() const noexcept override { return type_; }
    Work start(const CollectiveCall&, Stream) override { return act(); }
    Work start_group(std::span<const CollectiveCall>, Stream) override { return act(); }
    void barrier() override { act(); }
    std::shared_ptr<CommunicatorBackend> split(int, int) override { return nullptr; }
    void abort(const std::string&) override {}
    CommunicatorStatus status() const override { return CommunicatorStatus::ok; }

    std::function<void()> throws;
    std::atomic<bool> closed{false};
    std::shared_ptr<DeviceWork> device_work = std::make_shared<DeviceWork>();

private:
    Work act() {
        while (closed)
            std::this_thread::sleep_for(1ms);
        if (throws)
            throws();
        return type_ == DeviceType::cpu ? Work() : Work(device_work);
    }
    DeviceType type_;
};

struct Fixture {
    explicit Fixture(DeviceType type = DeviceType::cpu)
        : backend(std::make_shared<StubBackend>(type)) {}

    std::shared_ptr<FlightRecorder> recorder = FlightRecorder::create(1, 0);
    std::shared_ptr<StubBackend> backend;
    CallDispatcher calls{backend, FlightRing(recorder, "world", 1, 3, "stub")};

    /// A call that is being written just now is left out by the reader: it is read again.
    std::vector<ReadCall> seen() const {
        for (;;) {
            const auto group =
                read_contents(memory_source(recorder->memory())).value().groups.at(0);
            if (group.torn == 0)
                return group.calls;
        }
    }
    static CollectiveCall all_reduce(std::size_t count) {
        return {.kind = CollectiveKind::all_reduce,
                .count = count,
                .type = DataType::f64,
                .op = ReduceOp::max};
    }
};

struct OnDevice : Fixture {
    OnDevice() : Fixture(DeviceType::cuda) {}

    const Stream stream = Stream::cuda(0, nullptr);
};

std::string error_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a call is recorded with what it is and how it ended") {
    calls.set_label("h.0 gradients");
    calls.submit(all_reduce(512), {});
    calls.barrier();
    const CollectiveCall gather{
        .kind = CollectiveKind::gather, .blocks = BlockCounts::uniform(4, 3), .root = 2};
    calls.submit(gather, {});
    const auto all = seen();
    REQUIRE(all.size() == 3);
    CHECK(all[0].kind == Kind::all_reduce);
    CHECK(all[0].bytes == 4096);
    CHECK(kOpNames.at(all[0].op) == "max");
    CHECK(kTypeNames.at(all[0].type) == "f64");
    CHECK(all[0].label == "h.0 gradients");
    CHECK(all[1].kind == Kind::barrier);
    CHECK(all[1].sequence == 2);
    CHECK(all[2].root == 2);
    CHECK(all[2].bytes == 12);
    for (const auto& call : all)
        CHECK(call.state == State::finished);
}

TEST_CASE_FIXTURE(Fixture, "a failure is recorded, and a timeout names the last calls") {
    calls.submit(all_reduce(1), {});
    backend->throws = [] { throw TimeoutError("rank 2 did not come"); };
    const std::string said = error_of([&] { calls.submit(all_reduce(512), {}); });
    CHECK(said.starts_with(
        "rank 2 did not come; this rank's last calls in world, newest first: all_reduce #2 (4 KiB) "
        "failed after "));
    CHECK(said.find(", all_reduce #1 (8 B) finished ") != std::string::npos);
    CHECK_THROWS_AS(calls.barrier(), TimeoutError);
    backend->throws = [] { throw Error(ErrorCode::closed, "rank 2 went away"); };
    CHECK(error_of([&] { calls.barrier(); }) == "rank 2 went away");
    const auto all = seen();
    CHECK(all[0].state == State::finished);
    for (std::size_t i = 1; i < 4; ++i)
        CHECK(all[i].state == State::failed);
}

TEST_CASE_FIXTURE(Fixture, "a queued call waits, begins and ends") {
    CpuQueue queue;
    backend->closed = true;
    Work first = calls.submit(all_reduce(1), queue.stream());
    Work second = calls.submit(all_reduce(2), queue.stream());
    while (seen().at(0).state != State::started)
        std::this_thread::sleep_for(1ms);
    CHECK(seen().at(1).state == State::enqueued);
    backend->closed = false;
    second.wait();
    CHECK(seen().at(0).state == State::finished);
    CHECK(seen().at(1).state == State::finished);
    CHECK(seen().at(1).enqueued_ago >= seen().at(1).started_ago);
    backend->throws = [] { throw Error(ErrorCode::mismatch, "rank 0 calls barrier"); };
    Work third = calls.submit(all_reduce(3), queue.stream());
    CHECK(error_of([&] { third.wait(); }).find("; this rank's last calls in world") !=
          std::string::npos);
    CHECK(seen().at(2).state == State::failed);
}

TEST_CASE_FIXTURE(Fixture, "a call without a queue is seen while it waits for a queued one") {
    CpuQueue queue;
    backend->closed = true;
    calls.submit(all_reduce(1), queue.stream());
    std::thread caller([&] { calls.barrier(); });
    while (seen().size() < 2)
        std::this_thread::sleep_for(1ms);
    CHECK(seen().at(1).kind == Kind::barrier);
    CHECK(seen().at(1).state == State::enqueued);
    backend->closed = false;
    caller.join();
    CHECK(seen().at(1).state == State::finished);
}

TEST_CASE_FIXTURE(Fixture,
                  "each call of a group is recorded, messages and collectives by themselves") {
    calls.group_start();
    calls.submit({.kind = CollectiveKind::send, .count = 1, .root = 0}, {});
    calls.submit({.kind = CollectiveKind::recv, .count = 1, .root = 0}, {});
    calls.submit(all_reduce(1), {});
    CHECK(read_contents(memory_source(recorder->memory()))->groups.at(0).calls.empty());
    calls.group_end({});
    const auto all = seen();
    REQUIRE(all.size() == 3);
    CHECK(all[1].sequence == 2);
    CHECK(all[2].sequence == 1);
    for (const auto& call : all)
        CHECK(call.state == State::finished);
}

TEST_CASE_FIXTURE(OnDevice, "a device's call is over when the trainer has seen it") {
    Work work = calls.submit(all_reduce(1), stream);
    CHECK(seen().at(0).state == State::started);
    CHECK(seen().at(0).on_device);
    CHECK_FALSE(work.is_completed());
    CHECK_FALSE(work.wait_for(1ms));
    CHECK(seen().at(0).state == State::started);
    backend->device_work->done = true;
    CHECK(work.is_completed());
    CHECK(seen().at(0).state == State::finished);
    calls.barrier();
    CHECK(seen().at(1).state == State::finished);
    Work other = calls.submit(all_reduce(1), stream);
    backend->device_work->failed = true;
    CHECK(error_of([&] {
              other.wait();
          }).starts_with("the device is silent; this rank's last calls"));
    CHECK(seen().at(2).state == State::failed);
}

TEST_CASE_FIXTURE(OnDevice, "a device's call without a stream is over when it returns") {
    backend->device_work->done = true;
    calls.submit(all_reduce(1), {});
    CHECK(seen().at(0).state == State::finished);
}

TEST_CASE("without a recorder nothing is recorded, and errors stay as they are") {
    const auto backend = std::make_shared<StubBackend>(DeviceType::cpu);
    CallDispatcher calls(backend);
    calls.barrier();
    backend->throws = [] { throw TimeoutError("rank 2 did not come"); };
    CHECK(error_of([&] { calls.barrier(); }) == "rank 2 did not come");
}

}  // namespace call_log_test
