// How backend nccl fails: every wait ends, every rank learns why, and the process can go on or end.
#include "../conformance/expect.hpp"
#include "../conformance/forked_ranks.hpp"
#include "nccl_ranks.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nccl_failure_test {

using namespace autolaunch;
using namespace autolaunch::conformance;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Rank {
    const FolderStore& store;
    int rank;
    int size;
    FakeGpuControl& control;
    std::string library;

    Communicator world(milliseconds timeout, bool blocking = false) const {
        NcclOptions options = fake_options(library, rank, timeout);
        options.blocking = blocking;
        return Communicator(NcclBackend::create(store.rendezvous(), "world", rank, size, options));
    }
};

std::vector<int> run(int size, const std::function<void(const Rank&)>& body,
                     const std::string& library = FAKE_GPU) {
    const FolderStore store;
    return run_forked_ranks(size, [&](int rank) {
        FakeGpuControl& control = fake_control(library);
        body({store, rank, size, control, library});
        expect(control.wrong_uses == 0, "NCCL is used as it wants to be");
    });
}

bool says(const Error& error, std::string_view text) {
    return std::string_view(error.what()).find(text) != std::string_view::npos;
}

/// The watchdog may hold a group for a moment longer.
void expect_none_left(const Rank& self) {
    for (int i = 0; i < 1000 && self.control.communicators != 0; ++i)
        std::this_thread::sleep_for(milliseconds(2));
    expect(self.control.communicators == 0, "no communicator is left");
}

const std::vector<int> kTwo(2, 0), kThree(3, 0);

/// A collective on a stream of its own, on GPU memory.
struct Started {
    explicit Started(Communicator& comm, const Rank& self)
        : device(CudaDevice::open(self.library, self.rank)) {
        const CudaDevice::Current current(*device);
        stream = device->make_stream();
        memory = device->allocate(4000);
        auto* data = static_cast<float*>(memory.get());
        work = comm.all_reduce(data, data, 1000, f32, ReduceOp::sum,
                               Stream::cuda(self.rank, stream.get()));
    }
    std::shared_ptr<CudaDevice> device;
    CudaDevice::Stream stream;
    std::shared_ptr<void> memory;
    Work work;
};

/// A collective of another communicator that begins when the first one's has ended.
struct StartedBehind {
    StartedBehind(Communicator& comm, const Started& first, const Rank& self)
        : device(first.device) {
        const CudaDevice::Current current(*device);
        stream = device->make_stream();
        device->wait(stream.get(), device->record(first.stream.get()));
        auto* data = static_cast<float*>(first.memory.get());
        work = comm.all_reduce(data, data, 1000, f32, ReduceOp::sum,
                               Stream::cuda(self.rank, stream.get()));
    }
    /// However it ended.
    void await_end() const {
        const CudaDevice::Current current(*device);
        device->wait(device->record(stream.get()), milliseconds(5'000));
    }
    std::shared_ptr<CudaDevice> device;
    CudaDevice::Stream stream;
    Work work;
};

}  // namespace

TEST_CASE("a rank that never comes to the initialisation ends it, by name") {
    for (const bool blocking : {false, true}) {
        const auto statuses = run(3, [&](const Rank& self) {
            if (self.rank == 2)
                return;
            const auto start = Clock::now();
            expect_throws<Error>(
                "the initialisation times out", [&] { self.world(milliseconds(400), blocking); },
                [](const Error& error) {
                    return error.code() == ErrorCode::timeout && says(error, "initialisation");
                });
            expect(Clock::now() - start < std::chrono::seconds(20), "in good time");
        });
        CHECK(statuses == kThree);
    }
}

TEST_CASE("a split that takes too long is given up while NCCL still works on it") {
    for (const std::string library : {FAKE_GPU, FAKE_GPU_218}) {
        const auto statuses = run(
            2,
            [](const Rank& self) {
                Communicator comm = self.world(milliseconds(400));
                comm.barrier();
                self.control.init_delay_ms = 1500;
                expect_throws<Error>(
                    "the split times out", [&] { (void)comm.split(0, self.rank); },
                    [](const Error& error) {
                        return error.code() == ErrorCode::timeout && says(error, "split");
                    });
            },
            library);
        CHECK(statuses == kTwo);
    }
}

TEST_CASE(
    "an asynchronous error of NCCL's is told where one waits, with the call's and NCCL's words") {
    const auto statuses = run(2, [](const Rank& self) {
        Communicator comm = self.world(milliseconds(60'000));
        comm.barrier();
        self.control.hang = true;
        Started started(comm, self);
        if (self.rank == 0)
            self.control.async_error = ncclSystemError;
        expect_throws<Error>(
            "the wait fails", [&] { started.work.wait(); },
            [&](const Error& error) {
                return says(error, "rank 0 of 2: all_reduce (sum) of 1000 elements of f32") &&
                       says(error, "last words");
            });
        expect_throws<AbortedError>(
            "and what comes later", [&] { comm.barrier(); },
            [](const AbortedError& error) { return says(error, "last words"); });
    });
    CHECK(statuses == kTwo);
}

TEST_CASE("a collective that nobody waits for times out by the watchdog, on all ranks") {
    const auto statuses = run(2, [](const Rank& self) {
        Communicator comm = self.world(milliseconds(self.rank == 0 ? 400 : 60'000));
        comm.barrier();
        self.control.hang = true;
        Started started(comm, self);
        const auto start = Clock::now();
        while (comm.status() == CommunicatorStatus::ok &&
               Clock::now() - start < std::chrono::seconds(20))
            std::this_thread::sleep_for(milliseconds(5));
        expect(comm.status() == CommunicatorStatus::aborted, "the watchdog ends the group");
        expect(started.work.is_completed(), "the work is over");
        expect_throws<Error>(
            "and says how", [&] { started.work.wait(); },
            [](const Error& error) {
                return says(error, "rank 0 of 2: all_reduce") && says(error, "400 ms");
            });
    });
    CHECK(statuses == kTwo);
}

TEST_CASE("abort from another thread frees who waits, and stops the GPU") {
    for (const std::string library : {FAKE_GPU, FAKE_GPU_218}) {
        const auto statuses = run(
            2,
            [&](const Rank& self) {
                {
                    Communicator comm = self.world(milliseconds(60'000));
                    comm.barrier();
                    self.control.hang = true;
                    Started started(comm, self);
                    std::thread other([&] {
                        std::this_thread::sleep_for(milliseconds(50));
                        if (self.rank == 0)
                            comm.abort("somebody pulled the plug");
                    });
                    expect_throws<AbortedError>(
                        "the wait ends", [&] { started.work.wait(); },
                        [](const AbortedError& error) { return says(error, "pulled the plug"); });
                    other.join();
                }
                const bool revokes = library == FAKE_GPU;
                expect(self.control.revokes == (revokes ? 1 : 0), "by revoke where NCCL has it");
                expect(self.control.aborts == (revokes ? 0 : 1), "else by abort");
                expect_none_left(self);
            },
            library);
        CHECK(statuses == kTwo);
    }
}

// The abort of one communicator ends only when the other one's collective does.
TEST_CASE("communicators whose collectives wait for each other all time out") {
    for (const bool blocking : {false, true}) {
        const auto statuses = run(2, [&](const Rank& self) {
            const auto start = Clock::now();
            {
                Communicator world = self.world(milliseconds(500), blocking);
                auto part = world.split(0, self.rank);
                world.barrier();
                self.control.hang = true;
                Started first(*part, self);
                StartedBehind second(world, first, self);
                const auto times_out = [](const Error& error) { return says(error, "500 ms"); };
                expect_throws<Error>(
                    "the second times out", [&] { second.work.wait(); }, times_out);
                expect_throws<Error>(
                    "so does the first", [&] { first.work.wait(); }, times_out);
                second.await_end();
            }
            expect(Clock::now() - start < std::chrono::seconds(15), "in good time");
            expect_none_left(self);
        });
        CHECK(statuses == kTwo);
    }
}

TEST_CASE("a communicator can go whose stop waits for another one's collective") {
    const auto statuses = run(2, [](const Rank& self) {
        auto world = std::make_unique<Communicator>(self.world(milliseconds(60'000)));
        auto part = world->split(0, self.rank);
        world->barrier();
        self.control.hang = true;
        Started first(*part, self);
        StartedBehind second(*world, first, self);
        second.work = Work();  // which holds the communicator, too
        const auto start = Clock::now();
        world->abort("only this one");
        world = nullptr;
        expect(Clock::now() - start < std::chrono::seconds(40),
               "its destructor does not wait for ever");
        part->abort("and this one");
        second.await_end();
    });
    CHECK(statuses == kTwo);
}

TEST_CASE("a revoke that fails is followed by an abort") {
    const auto statuses = run(2, [](const Rank& self) {
        self.control.revoke_fails = true;
        {
            Communicator comm = self.world(milliseconds(60'000));
            comm.barrier();
            comm.abort("no more");
        }
        expect(self.control.aborts == 1, "aborted");
    });
    CHECK(statuses == kTwo);
}

TEST_CASE("NCCL that hangs in a call is freed by the watchdog") {
    const auto statuses = run(2, [](const Rank& self) {
        Communicator comm = self.world(milliseconds(self.rank == 0 ? 500 : 60'000), true);
        comm.barrier();
        self.control.hang_in_call = true;
        expect_throws<Error>(
            "the call ends", [&] { comm.all_reduce_value(1); },
            [](const Error& error) { return says(error, "500 ms"); });
    });
    CHECK(statuses == kTwo);
}

TEST_CASE("a killed rank ends the others' collectives") {
    const auto statuses = run(3, [](const Rank& self) {
        Communicator comm = self.world(milliseconds(60'000));
        comm.barrier();
        if (self.rank == 2)
            ::kill(::getpid(), SIGKILL);
        const auto start = Clock::now();
        expect_throws<Error>(
            "the collective fails",
            [&] {
                for (;;)
                    comm.all_reduce_value(1);
            },
            [](const Error& error) {
                return (error.code() == ErrorCode::closed || error.code() == ErrorCode::aborted) &&
                       says(error, "all_reduce (sum)");
            });
        expect(Clock::now() - start < std::chrono::seconds(30), "long before the deadline");
    });
    CHECK(statuses[0] == 0);
    CHECK(statuses[1] == 0);
    CHECK(WIFSIGNALED(statuses[2]));
}

TEST_CASE("the survivors of a killed rank go on in a smaller group") {
    for (const std::string library : {FAKE_GPU, FAKE_GPU_218}) {
        CAPTURE(library);
        const auto statuses = run(
            4,
            [&](const Rank& self) {
                Communicator comm = self.world(milliseconds(60'000));
                CommunicatorBuffer buffer = comm.allocate(1000);
                comm.barrier();
                if (self.rank == 1)
                    ::kill(::getpid(), SIGKILL);
                try {
                    for (;;)
                        comm.all_reduce_value(1);
                } catch (const Error&) {
                }
                const int lost = 1;
                Communicator rest = comm.shrink(std::span(&lost, 1));
                expect(rest.size() == 3 && rest.rank() == (self.rank == 0 ? 0 : self.rank - 1),
                       "ordered as before");
                expect(rest.all_reduce_value(self.rank) == 5, "the survivors work");
                expect(comm.status() == CommunicatorStatus::aborted, "the old group is gone");
            },
            library);
        CHECK(statuses[0] == 0);
        CHECK(WIFSIGNALED(statuses[1]));
        CHECK(statuses[2] == 0);
        CHECK(statuses[3] == 0);
    }
}

TEST_CASE("a survivor that saw the network fail and one that did not go the same way") {
    const auto statuses = run(3, [](const Rank& self) {
        Communicator comm = self.world(milliseconds(5'000));
        comm.barrier();
        if (self.rank == 1)
            ::kill(::getpid(), SIGKILL);
        if (self.rank == 0) {
            expect_throws<Error>(
                "rank 0 is told", [&] { comm.all_reduce_value(1); },
                [](const Error& error) { return error.code() == ErrorCode::closed; });
        }
        while (comm.status() == CommunicatorStatus::ok)
            std::this_thread::sleep_for(milliseconds(2));
        const int lost = 1;
        expect(comm.shrink(std::span(&lost, 1)).all_reduce_value(1) == 2, "they work on");
    });
    CHECK(statuses[0] == 0);
    CHECK(WIFSIGNALED(statuses[1]));
    CHECK(statuses[2] == 0);
}

TEST_CASE("shrinking to one rank needs no NCCL") {
    const auto statuses = run(2, [](const Rank& self) {
        Communicator comm = self.world(milliseconds(60'000));
        comm.barrier();
        if (self.rank == 0)
            return;
        const int lost = 0;
        Communicator rest = comm.shrink(std::span(&lost, 1));
        expect(rest.size() == 1 && rest.all_reduce_value(3) == 3, "alone");
        expect(self.control.communicators <= 1, "NCCL was not asked");
    });
    CHECK(statuses == kTwo);
}

TEST_CASE("a trainer that fails takes the others with it, and ends") {
    const auto statuses = run(2, [](const Rank& self) {
        try {
            Communicator comm = self.world(milliseconds(60'000));
            comm.barrier();
            if (self.rank == 0)
                throw std::runtime_error("the trainer's own");
            comm.all_reduce_value(1);
        } catch (const AbortedError& error) {
            expect(self.rank == 1 && says(error, "an exception ended the trainer of rank 0"),
                   "rank 1 is told");
            return;
        } catch (const std::runtime_error& error) {
            expect(self.rank == 0, error.what());
            return;
        }
        expect(false, "both ranks end by an exception");
    });
    CHECK(statuses == kTwo);
}

TEST_CASE("what lives longer than the driver goes quietly") {
    const auto statuses = run(2, [](const Rank& self) {
        Communicator comm = self.world(milliseconds(60'000));
        comm.barrier();
        const Started started(comm, self);
        const CommunicatorBuffer buffer = comm.allocate(1000);
        std::optional<CudaDevice::Current> current(*started.device);
        const auto pinned = started.device->allocate_pinned(100);
        started.device->begin_capture(started.stream.get());
        const CudaDevice::Graph graph = started.device->end_capture(started.stream.get());
        comm.barrier();
        current.reset();
        self.control.driver_has_ended = true;
    });
    CHECK(statuses == kTwo);
}

TEST_CASE("a library that is not there, or too old, is said so") {
    const NcclOptions gone{.cuda_library = FAKE_GPU,
                           .nccl_library = "libnccl-of-another-planet.so"};
    try {
        NcclBackend::create({}, "world", 0, 2, gone);
        FAIL("a library that is not there was loaded");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::unsupported);
        CHECK(says(error, "libnccl-of-another-planet.so"));
        CHECK(error.hint().find("LD_LIBRARY_PATH") != std::string::npos);
    }
}

}  // namespace nccl_failure_test
