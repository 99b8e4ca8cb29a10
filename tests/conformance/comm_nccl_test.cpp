// The suite on the nccl backend, with a fake CUDA driver and a fake NCCL; every rank is a process
// of its own. Its calls have no stream, with buffers of the CPU's and of the GPU's memory;
// integration.nccl has those on streams.
#include "../integration/nccl_ranks.hpp"
#include "communicator_suite.hpp"
#include "expect.hpp"
#include "forked_ranks.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace comm_nccl_test {

using namespace autolaunch;
using namespace autolaunch::conformance;

namespace {

void run_suite(const std::string& library, int size, bool blocking) {
    for (const Case& test : cases()) {
        // NCCL compares no calls, and does not name who is lost; integration.nccl kills ranks.
        if (size < test.min_ranks || test.needs != Needs::nothing)
            continue;
        CAPTURE(std::string(test.name));
        const FolderStore store;
        const auto statuses = run_forked_ranks(size, [&](int rank) {
            NcclOptions options = fake_options(library, rank, test.timeout);
            options.blocking = blocking;
            {
                Communicator comm(
                    NcclBackend::create(store.rendezvous(), "world", rank, size, options));
                test.run(comm);
            }
            FakeGpuControl& control = fake_control(library);
            // The watchdog may have been looking at the group just then.
            for (int i = 0; i < 1000 && control.contexts != 0; ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            expect(control.wrong_uses == 0, "NCCL is used as it wants to be");
            expect(control.communicators == 0, "no communicator is left");
            expect(control.contexts == 0, "no context is left");
        });
        CHECK(statuses == std::vector<int>(static_cast<std::size_t>(size), 0));
    }
}

}  // namespace

TEST_CASE("nccl with 1 rank") { run_suite(FAKE_GPU, 1, false); }
TEST_CASE("nccl with 2 ranks") { run_suite(FAKE_GPU, 2, false); }
TEST_CASE("nccl with 4 ranks") { run_suite(FAKE_GPU, 4, false); }
TEST_CASE("NCCL 2.18 with 3 ranks") { run_suite(FAKE_GPU_218, 3, false); }
TEST_CASE("nccl with 3 ranks and blocking communicators") { run_suite(FAKE_GPU, 3, true); }

}  // namespace comm_nccl_test
