// Ranks that call different things on the shm backend are told so, by name.
#include "shm_ranks.hpp"

#include "../conformance/expect.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

namespace shm_mismatch_test {

using namespace autolaunch;
using conformance::expect_throws;
using test::run_thread_ranks;

namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace

TEST_CASE(
    "different sizes in allocate are named, and memory that nobody has is refused everywhere") {
    run_thread_ranks(2, [](Communicator& comm) {
        expect_throws<Error>(
            "too much", [&] { (void)comm.allocate(std::size_t(1) << 60); },
            [](const Error& error) { return error.code() == ErrorCode::system; });
        comm.barrier();
        expect_throws<Error>(
            "different sizes",
            [&] { (void)comm.allocate(comm.rank() == 0 ? 4096 : 8192), comm.barrier(); },
            [](const Error& error) {
                const std::string text = error.what();
                return text.find("allocate of 4096 bytes") != std::string::npos ||
                       text.find("allocate of 8192 bytes") != std::string::npos;
            });
    });
}

TEST_CASE("all_to_all_v names the two ranks whose counts do not meet") {
    run_thread_ranks(3, [](Communicator& comm) {
        std::vector<std::size_t> sends(3, 4), receives(3, 4);
        if (comm.rank() == 2)
            receives[0] = 5;
        std::vector<float> send(12), recv(13);
        expect_throws<Error>(
            "a pair of counts that differ",
            [&] {
                comm.all_to_all_v(send.data(), sends, recv.data(), receives, f32);
                comm.barrier();
            },
            [](const Error& error) {
                return std::string(error.what())
                           .find("rank 0 sends 4 elements of f32 to rank 2, which expects 5") !=
                       std::string::npos;
            });
    });
}

TEST_CASE("a difference in ragged counts, in the operation or in the root is named") {
    const auto differs = [](const std::string& text,
                            const std::function<void(Communicator&)>& call) {
        CAPTURE(text);
        run_thread_ranks(2, [&](Communicator& comm) {
            expect_throws<Error>(
                text, [&] { call(comm), comm.barrier(); },
                [&](const Error& error) {
                    return std::string(error.what()).find(text) != std::string::npos;
                });
        });
    };
    std::vector<std::vector<float>> memory(2, std::vector<float>(100));
    const auto data = [&](Communicator& comm) { return memory[index(comm.rank())].data(); };
    differs("the same with other counts", [&](Communicator& comm) {
        const std::vector<std::size_t> mine =
            comm.rank() == 0 ? std::vector<std::size_t>{3, 4} : std::vector<std::size_t>{4, 3};
        std::vector<float> all(7);
        comm.all_gather_v(data(comm), all.data(), mine, f32);
    });
    differs("reduce (max) to rank 0", [&](Communicator& comm) {
        std::vector<float> out(50);
        comm.reduce(data(comm), out.data(), 50, f32,
                    comm.rank() == 0 ? ReduceOp::max : ReduceOp::min, 0);
    });
    differs("gather to rank 1 of 5 elements", [&](Communicator& comm) {
        std::vector<float> out(10);
        comm.gather(data(comm), out.data(), 5, f32, comm.rank());
    });
    differs("broadcast from rank 1",
            [&](Communicator& comm) { comm.broadcast(data(comm), 5, f32, 1 - comm.rank()); });
}

TEST_CASE("an abort wakes a rank that waits for messages") {
    run_thread_ranks(2, [](Communicator& comm) {
        float value = 0;
        if (comm.rank() == 1)
            return comm.abort("no message will come");
        expect_throws<AbortedError>(
            "a receive is woken", [&] { comm.recv(&value, 1, f32, 1); },
            [](const AbortedError& error) {
                return std::string(error.what()).find("no message will come") != std::string::npos;
            });
    });
}

}  // namespace shm_mismatch_test
