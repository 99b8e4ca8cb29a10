// A machine on which all is well, and one change for each check that makes it, and nothing else,
// speak.

#include "doctor/check.hpp"
#include "fake_machine.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace doctor_checks_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::launcher::testing::FakeMachine;

namespace {

std::set<std::string> checks_that_spoke(const NodeReport& report) {
    std::set<std::string> names;
    for (const Finding& finding : report.findings)
        names.insert(finding.check);
    return names;
}

std::string all_of(const NodeReport& report) {
    std::string text;
    for (const Finding& f : report.findings)
        text += f.check + " [" + std::string(severity_name(f.severity)) + "]: " + f.what + " | " +
                f.fix + "\n";
    for (const Unchecked& u : report.unchecked)
        text += u.check + " not checked: " + u.why + "\n";
    return text;
}

Finding only_finding(const NodeReport& report, const std::string& check) {
    INFO(all_of(report));
    CHECK(checks_that_spoke(report) == std::set<std::string>{check});
    REQUIRE_FALSE(report.findings.empty());
    return report.findings.front();
}

bool is_in(const std::vector<Unchecked>& list, const std::string& check) {
    return std::any_of(list.begin(), list.end(),
                       [&](const Unchecked& entry) { return entry.check == check; });
}

/// The change, the check that must speak, how loudly, and a part of what it must say.
struct Mutation {
    const char* check;
    Severity severity;
    const char* says;
    std::function<void(FakeMachine&)> change;
};

const std::vector<Mutation>& mutations() {
    using enum Severity;
    static const std::vector<Mutation> kMutations = {
        {"gpus", fail, "GPU 0000:97:00.0: GPU is lost",
         [](FakeMachine& m) {
             m.driver_says("0\ngpu 0000:97:00.0 GPU-00000001 NVIDIA H100 80GB HBM3\n",
                           "0\ngpu 0000:97:00.0 GPU-00000001 NVIDIA H100 80GB HBM3\nlost 15\n");
         }},
        {"ecc", warn, "GPU 0000:17:00.0 has had 3 uncorrected",
         [](FakeMachine& m) { m.driver_says("ecc 0", "ecc 3"); }},
        {"row_remap", fail, "waits to remap",
         [](FakeMachine& m) { m.driver_says("remap 0 0", "remap 1 0"); }},
        {"row_remap", fail, "could not remap",
         [](FakeMachine& m) { m.driver_says("remap 0 0", "remap 0 1"); }},
        {"nvlink", warn, "has had 5 NVLink errors",
         [](FakeMachine& m) {
             m.driver_says("link 0000:97:00.0 gpu 0", "link 0000:97:00.0 gpu 5");
         }},
        {"nvlink", warn, "GPU 0000:17:00.0 has 1 active NVLinks, GPU 0000:97:00.0 has 2",
         [](FakeMachine& m) { m.driver_says("link 0000:97:00.0 gpu 0\n", ""); }},
        {"gpu_clocks", warn, "is slowed: hardware slowdown, power brake",
         [](FakeMachine& m) { m.driver_says("clocks 1", "clocks 137"); }},
        {"gpu_pcie", hint, "runs with x8, can x16",
         [](FakeMachine& m) { m.driver_says("pcie 16 16", "pcie 8 16"); }},
        {"fabric", fail, "has not joined the NVLink fabric: state 2",
         [](FakeMachine& m) { m.driver_says("fabric 3 0", "fabric 2 0"); }},
        {"fabric", fail, "the node's GPUs are in 2 NVLink cliques",
         [](FakeMachine& m) { m.driver_says("eeff 7 0", "eeff 8 0"); }},
        {"fabric", fail, "channel0: No such file",
         [](FakeMachine& m) { m.remove("dev/nvidia-caps-imex-channels"); }},
        {"gpu_processes", warn, "GPU 0000:17:00.0 is used by process 4711 (python3), 1024 MiB",
         [](FakeMachine& m) {
             m.write("proc/4711/comm", "python3\n");
             m.driver_says("ecc 0\n", "ecc 0\nprocess 4711 1073741824\n");
         }},
        {"compute_mode", warn, "lets no program compute",
         [](FakeMachine& m) { m.driver_says("compute_mode 0", "compute_mode 2"); }},
        {"gpudirect", warn, "neither",
         [](FakeMachine& m) { m.remove("sys/module/nvidia_peermem"); }},
        {"xid", info, "Xid 79 on PCI:0000:17:00, 2 times since boot",
         [](FakeMachine& m) {
             m.write(
                 "dev/kmsg",
                 "4,1,100,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.\n"
                 "4,2,200,-;NVRM: Xid (PCI:0000:17:00): 79, pid=2, GPU has fallen off the bus.\n");
         }},
        {"ports", fail, "mlx5_1 is DOWN (link Polling)",
         [](FakeMachine& m) {
             m.write(m.port(1) + "/state", "1: DOWN\n");
             m.write(m.port(1) + "/phys_state", "2: Polling\n");
         }},
        {"ports", fail, "in state INIT",
         [](FakeMachine& m) { m.write(m.port(1) + "/state", "2: INIT\n"); }},
        {"ports", fail, "none of 2 HCAs",
         [](FakeMachine& m) {
             // Which checks look at nothing then, and say so.
             for (int i = 0; i < 2; ++i)
                 m.write(m.port(i) + "/state", "1: DOWN\n");
         }},
        {"rates", warn, "mlx5_0 runs at 200 Gb/s, mlx5_1 at 400 Gb/s",
         [](FakeMachine& m) { m.write(m.port(0) + "/rate", "200 Gb/sec (4X HDR)\n"); }},
        {"link_errors", warn, "mlx5_0 symbol_error rises: 7 -> 9",
         [](FakeMachine& m) {
             m.sources.pause = [&m] { m.write(m.port(0) + "/counters/symbol_error", "9\n"); };
         }},
        {"uverbs", fail, "uverbs1 of mlx5_1: No such file",
         [](FakeMachine& m) { m.remove("dev/infiniband/uverbs1"); }},
        {"nic_pcie", warn, "runs with x8 at 32 GT/s, can x16",
         [](FakeMachine& m) { m.write(m.hca_device(0) + "/current_link_width", "8\n"); }},
        {"nic_pcie", warn, "runs with x16 at 8 GT/s",
         [](FakeMachine& m) {
             m.write(m.hca_device(1) + "/current_link_speed", "8.0 GT/s PCIe\n");
         }},
        {"acs", hint, "in IOMMU groups 10 and 30",
         [](FakeMachine& m) {
             m.write("sys/kernel/iommu_groups/30/type", "identity\n");
             m.link(m.hca_device(0) + "/iommu_group",
                    (m.root / "sys/kernel/iommu_groups/30").string());
         }},
        {"iommu", warn, "translates every access of 2 devices",
         [](FakeMachine& m) { m.write("sys/kernel/iommu_groups/11/type", "DMA-FQ\n"); }},
        {"numa_balancing", warn, "it is 1",
         [](FakeMachine& m) { m.write("proc/sys/kernel/numa_balancing", "1\n"); }},
        {"governor", hint, "1 of 8 CPUs",
         [](FakeMachine& m) {
             m.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n");
         }},
        {"memlock", fail, "8 MiB, needs unlimited", [](FakeMachine& m) { m.memlock = 8 << 20; }},
        {"nofile", warn, "at most 4096 open files", [](FakeMachine& m) { m.nofile = 4096; }},
        {"shm", warn, "No such file", [](FakeMachine& m) { m.remove("dev/shm"); }},
        {"shm", fail, "task with process 4711 has a",
         [](FakeMachine& m) {
             m.sources.tasks = {4711};
             m.write("proc/4711/root" + (m.root / "dev/shm/.keep").string(), "");
         }},
        {"nccl_settings", warn, "NCCL_ALGO=Ring: a debug setting",
         [](FakeMachine& m) { m.sources.environment["NCCL_ALGO"] = "Ring"; }},
        {"nccl_settings", warn, "NCCL_P2P_DISABLE=1",
         [](FakeMachine& m) { m.write("etc/nccl.conf", "# the site's\nNCCL_P2P_DISABLE=1\n"); }},
        {"storage", fail, "cannot create a file: Not a directory",
         [](FakeMachine& m) {
             m.write("file", "");
             m.sources.folders = {{m.root / "file", "checkpoints"}};
         }},
        {"names", warn, "1 of 2 peers are not found, such as node3: no such name",
         [](FakeMachine& m) {
             m.sources.resolve = [](const std::string& name) {
                 if (name == "node3")
                     return ResolvedName{.error = "no such name"};
                 return ResolvedName{.ipv4 = true, .ipv6 = true};
             };
         }},
        {"names", warn, "finds itself at a loopback address",
         [](FakeMachine& m) {
             m.sources.resolve = [](const std::string& name) {
                 return ResolvedName{.ipv4 = true, .ipv6 = true, .loopback = name == "node1"};
             };
         }},
        {"names", warn, "2 of 2 peers have an IPv4 address, 1 an IPv6 one",
         [](FakeMachine& m) {
             m.sources.resolve = [](const std::string& name) {
                 return ResolvedName{.ipv4 = true, .ipv6 = name == "node3"};
             };
         }},
    };
    return kMutations;
}

}  // namespace

TEST_CASE("a good machine passes every check") {
    const FakeMachine machine;
    const NodeReport report = machine.examine();
    INFO(all_of(report));
    CHECK(report.findings.empty());
    CHECK(report.facts.at("hca.order") == "mlx5_0 mlx5_1");
    CHECK(report.facts.at("hca.rates") == "400 400");
    CHECK(report.facts.at("memlock") == "unlimited");
    CHECK(report.facts.at("kernel") == "6.1.0-18-amd64");
    CHECK(report.facts.at("shape") == "2 sockets, 2 NUMA nodes, 8 cores, 8 CPUs");
    CHECK(report.facts.at("memory") == "512 GiB");
    CHECK(report.facts.at("names") == "IPv4 and IPv6");
    CHECK(report.facts.at("gpudirect") == "peer memory");
}

TEST_CASE("one change makes one check speak") {
    for (const Mutation& mutation : mutations()) {
        INFO(std::string(mutation.check), ": ", std::string(mutation.says));
        FakeMachine machine;
        mutation.change(machine);
        const Finding finding = only_finding(machine.examine(), mutation.check);
        CHECK(finding.severity == mutation.severity);
        CHECK_MESSAGE(finding.what.find(mutation.says) != std::string::npos,
                      std::string(finding.what));
        CHECK_FALSE(finding.fix.empty());
    }
}

TEST_CASE("every check of this folder that can be broken by a file has a change here") {
    std::set<std::string> broken;
    for (const Mutation& mutation : mutations())
        broken.insert(mutation.check);
    // These have cases of their own below, or elsewhere.
    for (const char* name : {"mtu", "gid", "nccl", "machine", "rails", "nodes", "clock"})
        broken.insert(name);
    for (const Check& check : checks())
        CHECK_MESSAGE(broken.contains(std::string(check.name)), std::string(check.name));
}

TEST_CASE("a machine without GPUs and HCAs is fine, and what has nothing to look at says so") {
    FakeMachine machine;
    machine.remove("sys/bus");
    machine.remove("sys/class");
    machine.sources.nvml_library.clear();
    for (const char* device : {"dev/nvidia0", "dev/nvidia1"})
        machine.remove(device);
    machine.memlock = 65536;
    const NodeReport report = machine.examine();
    INFO(all_of(report));
    CHECK(report.findings.empty());
    for (const char* check : {"gpus", "ecc", "fabric", "gid", "ports", "uverbs", "gpudirect", "xid",
                              "nccl", "acs", "memlock"})
        CHECK_MESSAGE(is_in(report.idle, check), check);
    for (const std::string& fine : report.fine)
        CHECK_FALSE(is_in(report.idle, fine));
}

TEST_CASE("what cannot be read is not checked, and not fine") {
    FakeMachine machine;
    machine.remove("dev/kmsg");
    machine.remove(machine.port(0) + "/counters");
    machine.remove(machine.port(1) + "/counters");
    machine.sources.limit = [](int) { return std::optional<rlimit>(); };
    const NodeReport report = machine.examine();
    CHECK(report.findings.empty());
    for (const std::string check : {"xid", "link_errors", "memlock", "nofile"}) {
        CHECK_MESSAGE(is_in(report.unchecked, check), check);
        CHECK_MESSAGE(std::find(report.fine.begin(), report.fine.end(), check) == report.fine.end(),
                      check);
    }
}

TEST_CASE("an unused second port and an HCA of another model are nobody's failure") {
    FakeMachine machine;
    machine.write("sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n");
    machine.write(machine.hca_device(1) + "/device", "0xa2dc\n");
    machine.write(machine.port(1) + "/state", "1: DOWN\n");
    const NodeReport report = machine.examine({.only = {"ports"}, .skip = {}});
    INFO(all_of(report));
    CHECK(report.findings.empty());
    CHECK(report.facts.at("hca.count") == "1");
}

TEST_CASE("RoCE ports with different MTUs, and small ones, without libibverbs") {
    FakeMachine machine;
    machine.sources.verbs_library = "libibverbs-is-not-here.so";
    for (int i = 0; i < 2; ++i) {
        machine.write(machine.port(i) + "/link_layer", "Ethernet\n");
        machine.write(machine.hca_device(i) + "/net/eth" + std::to_string(i) + "/address", "");
        machine.write("sys/class/net/eth" + std::to_string(i) + "/mtu", "9000\n");
    }
    CHECK(machine.examine({.only = {"mtu"}, .skip = {}}).facts.at("hca.mtu") == "4096 4096");
    CHECK(machine.examine({.only = {"mtu"}, .skip = {}}).findings.empty());
    machine.write("sys/class/net/eth1/mtu", "1500\n");
    const NodeReport report = machine.examine({.only = {"mtu"}, .skip = {}});
    REQUIRE(report.findings.size() == 2);
    CHECK(report.findings[0].severity == Severity::hint);
    CHECK(report.findings[1].what == "mlx5_1 has 1024, mlx5_0 has 4096");
}

TEST_CASE("the MTU of InfiniBand ports is told by libibverbs alone") {
    const CheckChoice mtu = {.only = {"mtu"}, .skip = {}};
    FakeMachine machine;
    if (FakeMachine::kHasVerbs) {
        CHECK(machine.examine(mtu).facts.at("hca.mtu") == "4096 4096");
        machine.write("verbs", "device mlx5_0\nport 5\ndevice mlx5_1\nport 4\n");
        CHECK(only_finding(machine.examine(mtu), "mtu").what == "mlx5_1 has 2048, mlx5_0 has 4096");
        machine.write("verbs", "device mlx5_0\nclosed 13\n");
        const NodeReport closed = machine.examine(mtu);
        REQUIRE(closed.unchecked.size() == 1);
        CHECK(closed.unchecked[0].why.find("libibverbs does not list mlx5_1") != std::string::npos);
    } else {
        MESSAGE("skipped: what libibverbs says: this build has not its headers");
    }
    machine.sources.verbs_library = "libibverbs-is-not-here.so";
    const NodeReport report = machine.examine(mtu);
    REQUIRE(report.unchecked.size() == 1);
    CHECK_MESSAGE(report.unchecked[0].why.starts_with("MTU of mlx5_0, mlx5_1 is not told: "),
                  report.unchecked[0].why);
    CHECK(report.facts.empty());
}

TEST_CASE("GPUDirect by DMA-BUF needs the GPUs' driver and each HCA in use") {
    const CheckChoice gpudirect = {.only = {"gpudirect"}, .skip = {}};
    FakeMachine machine;
    machine.remove("sys/module/nvidia_peermem");
    machine.write("proc/driver/nvidia/version",
                  "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15\n");
    const NodeReport good = machine.examine(gpudirect);
    INFO(all_of(good));
    CHECK(good.findings.empty());
    CHECK(good.facts.at("gpudirect") == "DMA-BUF");
    if (FakeMachine::kHasVerbs) {
        machine.write("verbs", "device mlx5_0\ndevice mlx5_1\ndmabuf 95\n");
        const NodeReport refused = machine.examine(gpudirect);
        CHECK(only_finding(refused, "gpudirect").what ==
              "mlx5_1 takes no DMA-BUF memory, and there is no peer-memory module: copies go "
              "through the host's memory");
        CHECK(refused.facts.at("gpudirect") == "none");
        machine.write(machine.port(1) + "/state", "1: DOWN\n");
        CHECK(machine.examine(gpudirect).facts.at("gpudirect") == "DMA-BUF");
        machine.write(machine.port(1) + "/state", "4: ACTIVE\n");
        machine.write("verbs", "device mlx5_0\nclosed 13\ndevice mlx5_1\nclosed 13\n");
        CHECK(machine.examine(gpudirect).findings.empty());
    } else {
        MESSAGE("skipped: what libibverbs says: this build has not its headers");
    }
    machine.sources.verbs_library = "libibverbs-is-not-here.so";
    CHECK(machine.examine(gpudirect).facts.at("gpudirect") == "DMA-BUF");
    machine.write("proc/sys/kernel/osrelease", "5.10.0-28-amd64\n");
    CHECK(only_finding(machine.examine(gpudirect), "gpudirect")
              .what.starts_with("mlx5_0, mlx5_1 take no DMA-BUF"));
}

TEST_CASE("the GID that NCCL takes on RoCE") {
    FakeMachine machine;
    for (int i = 0; i < 2; ++i) {
        const std::string netdev = "eth" + std::to_string(i);
        machine.write(machine.port(i) + "/link_layer", "Ethernet\n");
        machine.write(machine.hca_device(i) + "/net/" + netdev + "/mtu", "9000\n");
        machine.write("sys/class/net/" + netdev + "/mtu", "9000\n");
        for (int index = 0; index < 4; ++index) {
            const std::string number = std::to_string(index);
            machine.write(machine.port(i) + "/gids/" + number,
                          index < 2 ? "fe80:0000:0000:0000:0000:0000:0000:0001\n"
                                    : "0000:0000:0000:0000:0000:ffff:0a01:0001\n");
            machine.write(machine.port(i) + "/gid_attrs/types/" + number,
                          index % 2 == 0 ? "IB/RoCE v1\n" : "RoCE v2\n");
            machine.write(machine.port(i) + "/gid_attrs/ndevs/" + number, netdev + "\n");
        }
    }
    const CheckChoice gid = {.only = {"gid"}, .skip = {}};
    const NodeReport good = machine.examine(gid);
    INFO(all_of(good));
    CHECK(good.findings.empty());
    CHECK(good.facts.at("gid.family") == "IPv4 IPv4");

    machine.sources.environment["NCCL_IB_GID_INDEX"] = "2";  // a leftover of another cluster
    const NodeReport v1 = machine.examine(gid);
    REQUIRE(v1.findings.size() == 2);
    CHECK(v1.findings[0].severity == Severity::fail);
    CHECK(v1.findings[0].what == "NCCL would take GID 2 of mlx5_0: RoCE v1");
    machine.sources.environment.clear();

    for (int index = 2; index < 4; ++index)
        machine.remove(machine.port(1) + "/gids/" + std::to_string(index));
    const NodeReport without = machine.examine(gid);
    REQUIRE(without.findings.size() == 1);
    CHECK(without.findings[0].what.find("of mlx5_1: link-local") != std::string::npos);

    machine.remove("sys/class/net/eth0");
    machine.remove(machine.hca_device(0) + "/net");
    const NodeReport elsewhere = machine.examine(gid);
    REQUIRE_FALSE(elsewhere.findings.empty());
    CHECK(elsewhere.findings[0].what.find("eth0, which is not in this network namespace") !=
          std::string::npos);
}

TEST_CASE("GPUs that the driver does not tell of are not checked, and one it has lost is missed") {
    FakeMachine machine;
    CHECK(machine.examine().facts.at("gpu.driver") == "550.54.15");
    CHECK(machine.examine().facts.at("gpu.models") == "NVIDIA H100 80GB HBM3");
    machine.sources.nvml_library = "/no/such/library.so";
    const NodeReport report = machine.examine();
    CHECK(report.findings.empty());
    for (const char* check : {"gpus", "ecc", "fabric", "gpu_processes"})
        CHECK_MESSAGE(is_in(report.unchecked, check), check);

    FakeMachine other;
    std::string text = FakeMachine::kDriver;
    other.write("driver", text.substr(0, text.find("gpu 0000:97")));
    const Finding finding = only_finding(other.examine(), "gpus");
    CHECK(finding.what == "GPU 0000:97:00.0 is on the PCI bus, and its driver does not know it");
}

TEST_CASE(
    "a folder that is not there yet is judged by the one above it, and the probe is gone "
    "afterwards") {
    FakeMachine machine;
    machine.sources.folders = {{machine.root / "checkpoints/of/this/run", "checkpoints"}};
    const NodeReport report = machine.examine({.only = {"storage"}, .skip = {}});
    INFO(all_of(report));
    CHECK(report.findings.empty());
    CHECK_FALSE(std::filesystem::exists(machine.root / "checkpoints/of"));
    CHECK(std::distance(std::filesystem::directory_iterator(machine.root / "checkpoints"), {}) ==
          1);
}

TEST_CASE("names of checks, as they are typed") {
    CHECK(check_names_from("memlock, shm") == std::vector<std::string>{"memlock", "shm"});
    CHECK(check_names_from("").empty());
    try {
        check_names_from("memlok");
        FAIL("accepted");
    } catch (const Error& error) {
        CHECK(std::string(error.what()) == "there is no check 'memlok'");
        CHECK(error.hint() == "did you mean memlock?");
    }
    CHECK(CheckChoice{.only = {"shm"}, .skip = {}}.has("shm"));
    CHECK_FALSE(CheckChoice{.only = {"shm"}, .skip = {}}.has("memlock"));
    CHECK_FALSE(CheckChoice{.only = {}, .skip = {"shm"}}.has("shm"));
}

TEST_CASE("docs/doctor.md lists the checks of the table, in its order and with its words") {
    const std::string text =
        read_file(std::filesystem::path(AUTOLAUNCH_SOURCE_DIR) / "docs/doctor.md");
    std::vector<std::string> documented, known;
    for (const std::string& line : split(text, '\n'))
        if (line.starts_with("| `"))
            documented.push_back(line);
    for (const Check& check : checks())
        known.push_back("| `" + std::string(check.name) + "` | " + std::string(check.looks_at) +
                        " | " + std::string(severity_name(check.severity)) + " | " +
                        std::string(check.fix) + " |");
    CHECK(documented == known);
}

TEST_CASE("peers that a node asks for") {
    CHECK(peers_to_resolve({"a"}, 0).empty());
    CHECK(peers_to_resolve({"a", "b", "c"}, 1) == std::vector<std::string>{"c", "a"});
    std::vector<std::string> many;
    for (int i = 0; i < 4096; ++i)
        many.push_back("n" + std::to_string(i));
    const auto peers = peers_to_resolve(many, 1000);
    CHECK(peers.size() == 17);
    CHECK(peers.front() == "n1001");
    CHECK(peers.back() == "n0");
    CHECK(peers_to_resolve(many, 4095).size() == 16);
}

}  // namespace doctor_checks_test
