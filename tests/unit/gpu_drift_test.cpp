// What the driver's list of processes says of ranks and their GPUs.

#include "placement_watch/gpu_drift.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace gpu_drift_test {

using namespace autolaunch::launcher;

namespace {

constexpr const char* kBdfs[] = {"0000:17:00.0", "0000:5d:00.0", "0000:9b:00.0", "0000:db:00.0"};

/// Four ranks with processes 100 to 103, each on the GPU of its number.
const std::vector<pid_t> kRanks = {100, 101, 102, 103};
std::vector<PlannedGpu> four_gpus() {
    std::vector<PlannedGpu> planned;
    for (int i = 0; i < 4; ++i)
        planned.push_back({i, kBdfs[i], "GPU-" + std::to_string(i)});
    return planned;
}

ComputeProcess on_gpu(int gpu, pid_t pid, pid_t rank_pid) {
    return {kBdfs[gpu], "GPU-" + std::to_string(gpu), false, pid, rank_pid};
}

ComputeProcesses seen(std::vector<ComputeProcess> processes, bool host_namespace = true) {
    return {std::move(processes), host_namespace, {}};
}

}  // namespace

TEST_CASE("all on their GPUs, by themselves or by processes that they started") {
    const auto findings =
        find_gpu_drift(seen({on_gpu(0, 100, 100), on_gpu(1, 7001, 101), on_gpu(2, 102, 102),
                             on_gpu(3, 103, 103), on_gpu(3, 7002, 103)}),
                       kRanks, four_gpus());
    CHECK(findings.drifts.empty());
    CHECK(findings.as_planned == 4);
    CHECK(findings.cannot_tell.empty());
}

TEST_CASE("ranks that are on no GPU yet, and other people's processes, are no drift") {
    const auto findings = find_gpu_drift(
        seen({on_gpu(0, 100, 100), on_gpu(0, 4711, 0), on_gpu(2, 4712, 0)}), kRanks, four_gpus());
    CHECK(findings.drifts.empty());
    CHECK(findings.as_planned == 1);
    CHECK(find_gpu_drift(seen({}), kRanks, four_gpus()).cannot_tell.empty());
}

TEST_CASE("a rank on another's GPU") {
    const auto findings =
        find_gpu_drift(seen({on_gpu(2, 101, 101), on_gpu(2, 102, 102)}), kRanks, four_gpus());
    REQUIRE(findings.drifts.size() == 1);
    CHECK(findings.drifts[0].index == 1);
    CHECK(findings.drifts[0].what == "computes on GPU 2 (0000:9b:00.0), planned was GPU 1");
    CHECK(findings.as_planned == 1);
}

TEST_CASE("a rank on its own GPU and on others") {
    const auto findings =
        find_gpu_drift(seen({on_gpu(3, 103, 103), on_gpu(0, 103, 103), on_gpu(0, 900, 103),
                             on_gpu(1, 900, 103), on_gpu(2, 900, 103)}),
                       kRanks, four_gpus());
    REQUIRE(findings.drifts.size() == 1);
    CHECK(findings.drifts[0].what ==
          "also computes on GPU 0 (0000:17:00.0) and GPU 1 (0000:5d:00.0) and 1 more, planned was "
          "GPU 3");
}

TEST_CASE("a GPU that the plan gave to nobody has no number") {
    const std::vector<PlannedGpu> planned = {{0, "0000:5d:00.0", "GPU-1"}};
    const auto findings = find_gpu_drift(seen({on_gpu(2, 100, 100)}), {100}, planned);
    REQUIRE(findings.drifts.size() == 1);
    CHECK(findings.drifts[0].what ==
          "computes on GPU 0000:9b:00.0, planned was GPU 0 (0000:5d:00.0)");
}

TEST_CASE("MIG devices of one GPU are told apart by UUID") {
    const std::vector<PlannedGpu> planned = {{0, "0000:17:00.0", "MIG-a", true},
                                             {1, "0000:17:00.0", "MIG-b", true}};
    const ComputeProcess on_a = {"0000:17:00.0", "MIG-a", true, 101, 101};
    const ComputeProcess on_b = {"0000:17:00.0", "MIG-b", true, 101, 101};
    CHECK(find_gpu_drift(seen({on_b}), {100, 101}, planned).as_planned == 1);
    const auto findings = find_gpu_drift(seen({on_a}), {100, 101}, planned);
    REQUIRE(findings.drifts.size() == 1);
    CHECK(findings.drifts[0].what == "computes on GPU 0 (MIG-a), planned was GPU 1");
}

TEST_CASE("a GPU without an address is known by its UUID, and one without either matches nothing") {
    CHECK(find_gpu_drift(seen({on_gpu(1, 100, 100)}), {100}, {{0, "", "GPU-1"}}).as_planned == 1);
    CHECK(find_gpu_drift(seen({{"", "", false, 100, 100}}), {100}, {{0, "", ""}}).as_planned == 0);
}

TEST_CASE("what the driver could not tell is no drift") {
    ComputeProcesses nothing;
    nothing.trouble = "Driver Not Loaded";
    const auto findings = find_gpu_drift(nothing, kRanks, four_gpus());
    CHECK(findings.cannot_tell == "Driver Not Loaded");
    CHECK(findings.drifts.empty());
}

TEST_CASE("in a PID namespace of our own the host's numbers mean nothing") {
    SUBCASE("none is a rank's") {
        const auto findings = find_gpu_drift(seen({on_gpu(0, 5100, 0), on_gpu(1, 5101, 0)}, false),
                                             kRanks, four_gpus());
        CHECK(findings.cannot_tell.find("PID namespace") != std::string::npos);
    }
    SUBCASE("one is a rank's by chance") {
        const auto findings = find_gpu_drift(seen({on_gpu(0, 5100, 0), on_gpu(1, 103, 103)}, false),
                                             kRanks, four_gpus());
        CHECK(findings.cannot_tell.find("PID namespace") != std::string::npos);
        CHECK(findings.drifts.empty());
    }
    SUBCASE("as many are right by chance as are wrong") {
        const auto findings = find_gpu_drift(
            seen({on_gpu(0, 100, 100), on_gpu(1, 103, 103)}, false), kRanks, four_gpus());
        CHECK_FALSE(findings.cannot_tell.empty());
        CHECK(findings.drifts.empty());
    }
    SUBCASE("nobody computes yet") {
        CHECK(find_gpu_drift(seen({}, false), kRanks, four_gpus()).cannot_tell.empty());
    }
    SUBCASE("a driver that translates them, as most ranks on their own GPUs show") {
        const auto findings = find_gpu_drift(seen({on_gpu(0, 100, 100), on_gpu(1, 101, 101),
                                                   on_gpu(2, 102, 102), on_gpu(2, 103, 103)},
                                                  false),
                                             kRanks, four_gpus());
        CHECK(findings.cannot_tell.empty());
        REQUIRE(findings.drifts.size() == 1);
        CHECK(findings.drifts[0].index == 3);
    }
}

TEST_CASE("through a pipe and back") {
    ComputeProcesses told =
        seen({on_gpu(0, 100, 100), {"0000:17:00.0", "MIG-a", true, 4711, 0}}, false);
    const ComputeProcesses back = decode_compute_processes(encode_compute_processes(told));
    REQUIRE(back.processes.size() == 2);
    CHECK_FALSE(back.host_namespace);
    CHECK(back.trouble.empty());
    CHECK(back.processes[0].bdf == "0000:17:00.0");
    CHECK(back.processes[0].uuid == "GPU-0");
    CHECK(back.processes[0].rank_pid == 100);
    CHECK(back.processes[1].on_part);
    CHECK(back.processes[1].pid == 4711);
    CHECK(back.processes[1].rank_pid == 0);
    told.trouble = "two\nlines";
    CHECK(decode_compute_processes(encode_compute_processes(told)).trouble == "two lines");
}

TEST_CASE("what is not whole is trouble") {
    const std::string whole = encode_compute_processes(seen({on_gpu(0, 100, 100)}));
    for (std::size_t length = 0; length < whole.size(); ++length)
        CHECK_FALSE(decode_compute_processes(whole.substr(0, length)).trouble.empty());
    for (const char* text :
         {"nonsense\nend\n", "process\tGPU\tx\ty\t1\nend\n", "process\tGPU\tx\ty\tz\t1\nend\n",
          "process\tGPU\tx\ty\t-1\t1\nend\n", "namespace\nend\n"})
        CHECK_FALSE(decode_compute_processes(text).trouble.empty());
}

}  // namespace gpu_drift_test
