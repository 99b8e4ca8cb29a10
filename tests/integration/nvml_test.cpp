// Nvml on the fake management library: what each fact becomes, older drivers, and machines without
// one.

#include "topology/nvml.hpp"
#include "base/hash.hpp"
#include "placement_watch/gpu_events.hpp"
#include "placement_watch/gpu_gauges.hpp"
#include "processes.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace nvml_test {

namespace fs = std::filesystem;
using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

const std::string kNew = FAKE_NVML, kOld = FAKE_NVML_OLD;
const Nvml::Wanted kAll = {.processes = true, .health = true, .links = true};

const std::string kTwoGpus = R"(
# two GPUs, the second PCI address first
driver 570.86.15
cuda 12080
gpu 0000:81:00.0 GPU-b NVIDIA H100 80GB HBM3
  memory 85520809984
  link 0000:17:00.0 gpu 2
  link 0000:17:00.0 gpu 3
  link 0000:05:00.0 switch 0
gpu 0000:17:00.0 GPU-a NVIDIA H100 80GB HBM3
  memory 85520809984
  process 4711 1073741824
  process 4712 18446744073709551615
  remap 1 0
  ecc 3
  clocks 72
  pcie 8 16 4 5
  compute_mode 3
  fabric 3 0 00112233445566778899aabbccddeeff 7 2
  link5 - switch 5
  link5 - switch 6
)";

/// The library on a machine described by `text`; nothing and `why` as Nvml::load.
class FakeMachine {
public:
    explicit FakeMachine(const std::string& text, const std::string& library = kNew)
        : path_(fs::temp_directory_path() / ("autolaunch-nvml-" + random_hex(8))) {
        std::ofstream(path_) << text;
        ::setenv("FAKE_NVML_MACHINE", path_.c_str(), 1);
        nvml = Nvml::load(why, library);
    }
    ~FakeMachine() {
        nvml.reset();
        std::error_code ignored;
        fs::remove(path_, ignored);
    }
    FakeMachine(const FakeMachine&) = delete;
    FakeMachine& operator=(const FakeMachine&) = delete;

    std::unique_ptr<Nvml> nvml;
    std::string why;

private:
    fs::path path_;
};

}  // namespace

TEST_CASE("a machine's GPUs by PCI address, with what was asked for") {
    const FakeMachine machine(kTwoGpus);
    REQUIRE_MESSAGE(machine.nvml, machine.why);
    CHECK(machine.nvml->driver_version() == "570.86.15");
    CHECK(machine.nvml->cuda_version() == 12080);
    const auto gpus = machine.nvml->devices({});
    REQUIRE(gpus.size() == 2);
    CHECK(gpus[0].bdf == "0000:17:00.0");
    CHECK(gpus[0].uuid == "GPU-a");
    CHECK(gpus[0].name == "NVIDIA H100 80GB HBM3");
    CHECK(gpus[0].memory_bytes == 85520809984);
    CHECK_FALSE(gpus[0].mig_enabled);
    CHECK(gpus[0].trouble.empty());
    CHECK(gpus[0].compute_processes.empty());
    CHECK_FALSE(gpus[0].compute_mode);
    CHECK(gpus[1].nvlinks.empty());
    CHECK(gpus[1].bdf == "0000:81:00.0");
}

TEST_CASE("health, processes and links") {
    const FakeMachine machine(kTwoGpus);
    REQUIRE_MESSAGE(machine.nvml, machine.why);
    const auto gpus = machine.nvml->devices(kAll);
    REQUIRE(gpus.size() == 2);
    const NvmlDevice& sick = gpus[0];
    REQUIRE(sick.compute_processes.size() == 2);
    CHECK(sick.compute_processes[0].pid == 4711);
    CHECK(sick.compute_processes[0].memory_bytes == 1073741824);
    CHECK(sick.compute_processes[1].memory_bytes == 0);
    CHECK(sick.row_remap_pending == true);
    CHECK(sick.row_remap_failed == false);
    CHECK(sick.uncorrected_ecc_errors == 3);
    CHECK(sick.clock_event_reasons == 72);
    CHECK(sick.pcie_width == 8);
    CHECK(sick.pcie_max_width == 16);
    CHECK(sick.pcie_generation == 4);
    CHECK(sick.pcie_max_generation == 5);
    CHECK(sick.compute_mode == 3);
    REQUIRE(sick.fabric);
    CHECK(sick.fabric->state == 3);
    CHECK(sick.fabric->cluster_uuid == "00112233-4455-6677-8899-aabbccddeeff");
    CHECK(sick.fabric->clique == 7);
    CHECK(sick.fabric->health == 2);
    CHECK(sick.nvlink_errors == 11);
    REQUIRE(sick.nvlinks.size() == 1);
    CHECK(sick.nvlinks[0].peer_bdf.empty());
    CHECK(sick.nvlinks[0].is_switch);
    CHECK(sick.nvlinks[0].count == 2);

    const NvmlDevice& quiet = gpus[1];
    CHECK_FALSE(quiet.row_remap_pending);
    CHECK_FALSE(quiet.uncorrected_ecc_errors);
    CHECK_FALSE(quiet.fabric);
    CHECK(quiet.nvlink_errors == 5);
    REQUIRE(quiet.nvlinks.size() == 2);
    CHECK(quiet.nvlinks[0].peer_bdf == "0000:05:00.0");
    CHECK(quiet.nvlinks[0].is_switch);
    CHECK(quiet.nvlinks[1].peer_bdf == "0000:17:00.0");
    CHECK(quiet.nvlinks[1].count == 2);
    CHECK_FALSE(quiet.nvlinks[1].is_switch);
}

TEST_CASE("MIG devices, and places that have none") {
    const FakeMachine machine(
        "gpu 0000:17:00.0 GPU-a NVIDIA A100\nmig\nremap 0 1\n"
        "part MIG-1 5100273664 NVIDIA A100 MIG 1g.5gb\npart MIG-2 10200547328 NVIDIA A100 MIG "
        "2g.10gb\n"
        "mig_process 4713 1024\n"
        "gpu 0000:18:00.0 GPU-b NVIDIA A100\nmig\n");
    REQUIRE_MESSAGE(machine.nvml, machine.why);
    const auto gpus = machine.nvml->devices(kAll);
    REQUIRE(gpus.size() == 2);
    CHECK(gpus[0].mig_enabled);
    REQUIRE(gpus[0].mig_devices.size() == 2);
    CHECK(gpus[0].mig_devices[0].uuid == "MIG-1");
    CHECK(gpus[0].mig_devices[1].name == "NVIDIA A100 MIG 2g.10gb");
    CHECK(gpus[0].mig_devices[1].memory_bytes == 10200547328);
    CHECK(gpus[0].mig_devices[0].compute_processes.empty());
    REQUIRE(gpus[0].mig_devices[1].compute_processes.size() == 1);
    CHECK(gpus[0].mig_devices[1].compute_processes[0].pid == 4713);
    CHECK_FALSE(gpus[0].row_remap_failed);  // not told under MIG
    CHECK(gpus[1].mig_enabled);
    CHECK(gpus[1].mig_devices.empty());
}

TEST_CASE("a driver without the newer functions still tells what it can") {
    for (const bool is_old : {true, false}) {
        INFO(is_old);
        const std::string lacks =
            "lacks nvmlDeviceGetPciInfo_v3\nlacks nvmlDeviceGetComputeRunningProcesses_v3\n"
            "lacks nvmlDeviceGetCurrentClocksEventReasons\nlacks "
            "nvmlDeviceGetNvLinkRemotePciInfo_v2\n"
            "lacks nvmlDeviceGetNvLinkRemoteDeviceType\nlacks nvmlDeviceGetMigMode\nlacks "
            "nvmlDeviceGetRemappedRows\n"
            "lacks nvmlDeviceGetGpuFabricInfoV\nlacks nvmlDeviceGetFieldValues\n";
        const FakeMachine machine(is_old ? kTwoGpus : lacks + kTwoGpus, is_old ? kOld : kNew);
        REQUIRE_MESSAGE(machine.nvml, machine.why);
        const auto gpus = machine.nvml->devices(kAll);
        REQUIRE(gpus.size() == 2);
        CHECK(machine.nvml->cuda_version() == 12080);
        CHECK(gpus[0].bdf == "0000:17:00.0");
        REQUIRE(gpus[0].compute_processes.size() == 2);
        CHECK(gpus[0].compute_processes[1].pid == 4712);
        CHECK(gpus[0].clock_event_reasons == 72);
        CHECK_FALSE(gpus[0].row_remap_pending);
        CHECK_FALSE(gpus[0].fabric);
        CHECK_FALSE(gpus[0].nvlink_errors);
        CHECK(gpus[0].nvlinks.empty());
        REQUIRE(gpus[1].nvlinks.size() == 2);
        CHECK(gpus[1].nvlinks[1].count == 2);
    }
}

TEST_CASE("more processes than there was room for") {
    std::string text = "gpu 0000:17:00.0 GPU-a NVIDIA A100\n";
    for (int pid = 1; pid <= 200; ++pid)
        text += fmt::format("process {} 1\n", pid);
    for (const std::string& library : {kNew, kOld}) {
        const FakeMachine machine(text, library);
        REQUIRE_MESSAGE(machine.nvml, machine.why);
        const auto gpus = machine.nvml->devices({.processes = true});
        REQUIRE(gpus.size() == 1);
        REQUIRE(gpus[0].compute_processes.size() == 200);
        CHECK(gpus[0].compute_processes[199].pid == 200);
    }
}

TEST_CASE("a GPU that fell off the bus is there, with its trouble") {
    const FakeMachine machine(
        "gpu 0000:17:00.0 GPU-a NVIDIA A100\ngpu 0000:18:00.0 GPU-b NVIDIA A100\nlost 15\n");
    REQUIRE_MESSAGE(machine.nvml, machine.why);
    const auto gpus = machine.nvml->devices(kAll);
    REQUIRE(gpus.size() == 2);
    CHECK(gpus[0].trouble == "GPU is lost");
    CHECK(gpus[0].bdf.empty());
    CHECK(gpus[1].uuid == "GPU-a");
}

TEST_CASE("no library, another library, no driver: the reason is told") {
    std::string why;
    CHECK_FALSE(Nvml::load(why, "libno-such-nvml.so.1"));
    CHECK(why.find("libno-such-nvml.so.1: cannot open shared object file") != std::string::npos);
    CHECK_FALSE(Nvml::load(why, "libc.so.6"));
    CHECK(why == "libc.so.6 has no nvmlInit: it is not NVIDIA's management library");
    CHECK(FakeMachine("init 9\n").why.ends_with("fake_nvml.so: Driver Not Loaded"));
    CHECK(FakeMachine("init 18\n").why.ends_with("RM has detected an NVML/RM version mismatch."));
    CHECK(FakeMachine("").why.empty());
}

TEST_CASE("the environment names the library") {
    ::setenv("AUTOLAUNCH_NVML_LIBRARY", kNew.c_str(), 1);
    const FakeMachine machine(kTwoGpus, "");
    ::unsetenv("AUTOLAUNCH_NVML_LIBRARY");
    REQUIRE_MESSAGE(machine.nvml, machine.why);
    CHECK(machine.nvml->devices({}).size() == 2);
}

TEST_CASE("this machine's driver, where it has one") {
    std::string why;
    const auto nvml = Nvml::load(why);
    if (!nvml) {
        fmt::print("skipped: NVIDIA's own library: {}\n", why);
        CHECK_FALSE(why.empty());
        return;
    }
    CHECK_FALSE(nvml->driver_version().empty());
    for (const NvmlDevice& gpu : nvml->devices(kAll)) {
        if (!gpu.trouble.empty())
            continue;
        CHECK(gpu.uuid.starts_with("GPU-"));
        CHECK(gpu.memory_bytes > 0);
    }
}

namespace {

const std::string kTroubled = R"(
gpu 0000:17:00.0 GPU-a NVIDIA H100 80GB HBM3
  clocks 72
  event 8 31
  event 8 79
  event 2 0
gpu 0000:18:00.0 GPU-b NVIDIA GeForce RTX 4090
  no_ecc_events
  event 2 0
  event 8 48
gpu 0000:81:00.0 GPU-c NVIDIA H100 80GB HBM3
  event 8 13
  falls_off
)";
using Kind = NvmlEvent::Kind;

}  // namespace

TEST_CASE("events of chosen GPUs, those that the driver has none for, too, each once") {
    std::string library = kNew;
    SUBCASE("new") {}
    SUBCASE("old") { library = kOld; }
    const FakeMachine machine(kTroubled, library);
    REQUIRE_MESSAGE(machine.nvml, machine.why);
    std::vector<NvmlEvent> seen;
    const std::string why =
        machine.nvml->follow_events({"0000:17:00.0", "0000:18:00.0"}, std::chrono::milliseconds(1),
                                    [&](const NvmlEvent& event) {
                                        seen.push_back(event);
                                        return seen.size() < 5;
                                    });
    CHECK(why.empty());
    std::sort(seen.begin(), seen.end(), [](const NvmlEvent& a, const NvmlEvent& b) {
        return std::tie(a.bdf, a.kind, a.number) < std::tie(b.bdf, b.kind, b.number);
    });
    CHECK(seen == std::vector<NvmlEvent>{{Kind::xid, "0000:17:00.0", 31},
                                         {Kind::xid, "0000:17:00.0", 79},
                                         {Kind::double_bit_ecc, "0000:17:00.0", 0},
                                         {Kind::slowed, "0000:17:00.0", 64},
                                         {Kind::xid, "0000:18:00.0", 48}});
}

TEST_CASE("why events cannot be followed is told") {
    const auto never = [](const NvmlEvent&) { return false; };
    const FakeMachine lacking("lacks nvmlEventSetCreate\n" + kTroubled);
    CHECK(lacking.nvml->follow_events({"0000:17:00.0"}, std::chrono::milliseconds(1), never)
              .starts_with("nvmlEventSetCreate: "));
    CHECK(lacking.nvml->follow_events({"0000:99:00.0"}, std::chrono::milliseconds(1), never) ==
          "the driver knows none of these GPUs");
}

TEST_CASE("a process listens for a generation, and what it has heard is kept by GPU") {
    const FakeMachine machine(kTroubled);
    GpuEvents events({"0000:17:00.0", "0000:81:00.0"},
                     {.pause = std::chrono::milliseconds(5), .library = kNew});
    REQUIRE(events.pid() > 0);
    CHECK(testing::eventually([&] { return events.of("0000:81:00.0").size() == 2; }));
    const auto of_third = events.of("0000:81:00.0");
    for (const NvmlEvent& event :
         {NvmlEvent{Kind::xid, "0000:81:00.0", 13}, NvmlEvent{Kind::lost, "0000:81:00.0", 0}})
        CHECK(std::count(of_third.begin(), of_third.end(), event) == 1);
    CHECK(testing::eventually([&] { return events.of("0000:17:00.0").size() == 4; }));
    CHECK(events.of("0000:18:00.0").empty());
    CHECK(GpuEvents({}).pid() == -1);
    CHECK(decode_gpu_events("0 79 x\n1\n9 1 x\n0 -1 x\n0 79").size() == 1);
}

TEST_CASE("a process reads what moves over NVLink and what slows a GPU down, again and again") {
    const std::string gpus =
        "gpu 0000:17:00.0 GPU-a NVIDIA H100\nclocks 72\ntraffic K 100 50 7\n"
        "gpu 0000:18:00.0 GPU-b NVIDIA B200\ntraffic B 4096 1024 5\n"
        "gpu 0000:81:00.0 GPU-c NVIDIA L4\n";
    const FakeMachine machine(gpus);
    REQUIRE_MESSAGE(machine.nvml, machine.why);
    const auto once = machine.nvml->gauges({"0000:17:00.0", "0000:18:00.0", "0000:81:00.0"});
    REQUIRE(once.size() == 3);
    CHECK(once[0] == NvmlGauge{"0000:17:00.0", 150 * 1024, 0x40});  // 0x8 is nobody's trouble
    CHECK(once[1] == NvmlGauge{"0000:18:00.0", 5120, 0});
    CHECK(once[2] == NvmlGauge{"0000:81:00.0", {}, 0});  // it has no NVLink
    CHECK(machine.nvml->gauges({"0000:99:00.0"}).empty());

    GpuGauges gauges({"0000:17:00.0", "0000:81:00.0"},
                     {.pause = std::chrono::milliseconds(5), .library = kNew});
    REQUIRE(gauges.pid() > 0);
    CHECK(testing::eventually([&] { return gauges.newest().size() == 2; }));
    const auto before = gauges.newest().at(0).nvlink_bytes;
    CHECK(testing::eventually([&] { return gauges.newest().at(0).nvlink_bytes > before; }));
    CHECK(gauges.newest().size() == 2);
    CHECK(GpuGauges({}).pid() == -1);
    CHECK(GpuGauges({"0000:17:00.0"}, {.library = "/no/such.so"}).newest().empty());
    CHECK(decode_gpu_gauges("a 1 2\nb - 0\nc -1 0\nd 1\ne 1 x\nf 1 2") ==
          std::vector<NvmlGauge>{{"a", 1, 2}, {"b", {}, 0}});
    for (const NvmlGauge& gauge : once)
        CHECK(decode_gpu_gauges(encode_gpu_gauge(gauge)) == std::vector{gauge});
}

}  // namespace nvml_test
