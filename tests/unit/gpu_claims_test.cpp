// GPUs that somebody else has, told before the ranks come to them: from the fake driver to the
// sentences.

#include "placement_watch/gpu_claims.hpp"
#include "../write_file.hpp"
#include "fake_system.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace gpu_claims_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using testing::FakeSystem;
using Lines = std::vector<std::string>;

namespace {

constexpr const char* kMachine = R"(driver 570.86.15
gpu 0000:17:00.0 GPU-a NVIDIA H100
  process 4711 1073741824
gpu 0000:18:00.0 GPU-b NVIDIA H100
  compute_mode 3
gpu 0000:19:00.0 GPU-c NVIDIA H100
  compute_mode 3
  process 4712 0
gpu 0000:1a:00.0 GPU-d NVIDIA H100
  compute_mode 2
gpu 0000:1b:00.0 GPU-e NVIDIA H100
  mig
  part MIG-1 10200547328 NVIDIA H100 MIG 1g.10gb
  part MIG-2 10200547328 NVIDIA H100 MIG 1g.10gb
  mig_process 4713 1048576
gpu 0000:1c:00.0 GPU-f NVIDIA H100
)";

GpuOfRank planned(int rank, const std::string& bdf, const std::string& mig = {}) {
    GpuOfRank one;
    one.rank = one.number = rank;
    one.gpu.vendor = "nvidia";
    one.gpu.bdf = bdf;
    one.gpu.uuid = mig;
    one.gpu.partition_of = mig.empty() ? "" : "GPU-e";
    return one;
}

class FakeDriver {
public:
    explicit FakeDriver(const std::string& text) {
        folder_.file("driver", text);
        folder_.file("proc/4711/comm", "python3");
        ::setenv("FAKE_NVML_MACHINE", (folder_.root() / "driver").c_str(), 1);
    }
    ~FakeDriver() { ::unsetenv("FAKE_NVML_MACHINE"); }
    FakeDriver(const FakeDriver&) = delete;
    FakeDriver& operator=(const FakeDriver&) = delete;

    std::vector<GpuClaim> ask() const {
        return read_gpu_claims(FAKE_NVML, folder_.root() / "proc");
    }

private:
    FakeSystem folder_;
};

NodeTopology with_a_gpu() {
    NodeTopology topology;
    topology.gpus = {planned(0, "0000:17:00.0").gpu};
    return topology;
}

}  // namespace

TEST_CASE("GPUs in use, exclusive, prohibited, and MIG devices: each is named with its ranks") {
    const FakeDriver driver(kMachine);
    const auto claims = driver.ask();
    REQUIRE(claims.size() == 7);
    const auto said = [&](const std::vector<GpuOfRank>& ranks) {
        return describe_gpu_claims(ranks, claims);
    };
    CHECK(said({planned(0, "0000:17:00.0")}) ==
          Lines{"GPU 0 (0000:17:00.0) is in use already, by process 4711 (python3) with 1024 MiB: "
                "rank 0 will share its memory and time; end it, or leave this GPU out "
                "(CUDA_VISIBLE_DEVICES)"});
    CHECK(said({planned(1, "0000:18:00.0")}).empty());  // exclusive, and its rank is alone there
    CHECK(said({planned(1, "0000:18:00.0"), planned(2, "0000:18:00.0")})[0].find(
              "takes one process only (compute mode exclusive): ranks 1-2 will fail") !=
          std::string::npos);
    CHECK(said({planned(2, "0000:19:00.0")})[0].find("exclusive), and has process 4712: rank 2") !=
          std::string::npos);
    CHECK(said({planned(3, "0000:1a:00.0")})[0].find("lets no program compute") !=
          std::string::npos);
    CHECK(said({planned(4, "0000:1b:00.0", "MIG-1")}).empty());
    CHECK(said({planned(5, "0000:1b:00.0", "MIG-2")})[0].starts_with(
        "MIG device 5 (MIG-2) is in use already, by process 4713"));
    CHECK(said({planned(6, "0000:1c:00.0"), planned(7, "0000:ff:00.0")}).empty());
}

TEST_CASE("through a pipe the same comes out, and half of it is nothing") {
    const FakeDriver driver(kMachine);
    const std::string text = encode_gpu_claims(driver.ask());
    CHECK(encode_gpu_claims(decode_gpu_claims(text)) == text);
    CHECK(decode_gpu_claims(text.substr(0, text.size() - 2)).empty());
    CHECK(decode_gpu_claims("nonsense\nend\n").empty());
}

TEST_CASE("the driver is asked in a process of its own: an answer, a crash, a hang, no GPUs") {
    const std::vector<GpuOfRank> ranks = {planned(0, "0000:17:00.0")};
    {
        const FakeDriver driver(kMachine);
        CHECK(GpuClaimsInquiry(with_a_gpu(), FAKE_NVML).warnings(ranks, 10s).size() == 1);
        CHECK(GpuClaimsInquiry(NodeTopology{}, FAKE_NVML).warnings(ranks, 10s).empty());
    }
    for (const char* fault : {"crashes nvmlInit\n", "hangs nvmlInit\n"}) {
        const FakeDriver driver(std::string(fault) + kMachine);
        CHECK(GpuClaimsInquiry(with_a_gpu(), FAKE_NVML).warnings(ranks, 200ms) ==
              Lines{"whether GPUs are in use already is not known: NVIDIA's driver does not "
                    "answer"});
    }
}

}  // namespace gpu_claims_test
