// The live reader's devices on trees made here: paths on the PCI bus, HCAs and their GIDs, network
// interfaces, MIG and AMD partitions, NUMA nodes that are none, and files with nonsense in them.

#include "fake_system.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/path_class.hpp"
#include "topology/read_topology.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <string>
#include <vector>

namespace topology_devices_test {

namespace fs = std::filesystem;
using namespace autolaunch;
using namespace autolaunch::launcher;
using testing::FakeSystem;
using testing::two_sockets;
using Cpus = std::vector<int>;
using Names = std::vector<std::string>;

namespace {

const Cpus kAll = {0, 1, 2, 3, 4, 5, 6, 7};
const std::string kZeroGid = "0000:0000:0000:0000:0000:0000:0000:0000";

/// An adapter's function with its verbs device; ports come apart.
void add_hca(FakeSystem& system, const std::string& name, const std::string& path, int verbs,
             int numa_node = 0) {
    system.pci(path, "0x15b3", "0x020700", numa_node, "mlx5_core");
    system.file("sys/devices/" + path + "/device", "0x1021");
    system.link("sys/class/infiniband/" + name + "/device", "sys/devices/" + path);
    system.file(fmt::format("sys/class/infiniband_verbs/uverbs{}/ibdev", verbs), name);
    system.file(fmt::format("dev/infiniband/uverbs{}", verbs), "");
}

std::string add_port(FakeSystem& system, const std::string& hca, int number,
                     const std::string& link_layer) {
    const std::string port = fmt::format("sys/class/infiniband/{}/ports/{}/", hca, number);
    system.file(port + "state", "4: ACTIVE");
    system.file(port + "rate", "400 Gb/sec (4X NDR)");
    system.file(port + "link_layer", link_layer);
    system.file(port + "lid", "0x1a");
    return port;
}

void add_gid(FakeSystem& system, const std::string& port, int index, const std::string& gid,
             const std::string& type, const std::string& netdev) {
    system.file(fmt::format("{}gids/{}", port, index), gid);
    if (type.empty())
        return;
    system.file(fmt::format("{}gid_attrs/types/{}", port, index), type);
    system.file(fmt::format("{}gid_attrs/ndevs/{}", port, index), netdev);
}

/// An interface of the PCI function at `path`, as sysfs links it from both sides.
void add_interface(FakeSystem& system, const std::string& name, const std::string& path,
                   const std::string& speed, int dev_port = 0) {
    const std::string folder =
        path.empty() ? "devices/virtual/net/" + name : "devices/" + path + "/net/" + name;
    system.file("sys/" + folder + "/operstate", "up");
    system.file("sys/" + folder + "/flags", "0x1003");
    system.file("sys/" + folder + "/mtu", "9000");
    system.file("sys/" + folder + "/speed", speed);
    system.file("sys/" + folder + "/dev_port", std::to_string(dev_port));
    system.link("sys/class/net/" + name, "sys/" + folder);
}

void add_kfd_node(FakeSystem& system, int number, int simd_count, int location_id,
                  const std::string& unique_id) {
    const std::string folder = fmt::format("sys/class/kfd/kfd/topology/nodes/{}/", number);
    system.file(
        folder + "properties",
        fmt::format("cpu_cores_count {}\nsimd_count {}\nlocation_id {}\ndomain 0\nunique_id {}",
                    simd_count == 0 ? 64 : 0, simd_count, location_id, unique_id));
    if (simd_count > 0)
        system.file(folder + "mem_banks/0/properties", "heap_type 1\nsize_in_bytes 68702699520");
}

void add_io_link(FakeSystem& system, int from, int index, int to, int type, int lowest,
                 int highest) {
    system.file(
        fmt::format("sys/class/kfd/kfd/topology/nodes/{}/io_links/{}/properties", from, index),
        fmt::format("type {}\nnode_from {}\nnode_to {}\nmin_bandwidth {}\nmax_bandwidth {}", type,
                    from, to, lowest, highest));
}

const NetworkInterface* find_interface(const NodeTopology& topology, const std::string& name) {
    for (const NetworkInterface& interface : topology.network_interfaces)
        if (interface.name == name)
            return &interface;
    return nullptr;
}

TopologyOptions with_details(const FakeSystem& system) {
    TopologyOptions options = system.options(kAll);
    options.details = true;
    return options;
}

/// The reader with the fake driver on a machine described by `text`.
NodeTopology read_with_driver(FakeSystem& system, const std::string& text, bool facts = false) {
    system.file("machine", text);
    ::setenv("FAKE_NVML_MACHINE", (system.root() / "machine").c_str(), 1);
    TopologyOptions options = system.options(kAll);
    options.nvml_library = FAKE_NVML;
    options.driver_facts = facts;
    return read_local_topology(options);
}

}  // namespace

TEST_CASE("Slingshot: libfabric's device, its interface and its place") {
    FakeSystem system;
    two_sockets(system);
    const std::string path = "pci0000:40/0000:40:01.1/0000:41:00.0";
    system.pci(path, "0x17db", "0x020000", 1, "cxi_core");
    system.link("sys/class/cxi/cxi0/device", "sys/devices/" + path);
    system.file("dev/cxi0", "");
    add_interface(system, "hsn0", path, "200000");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.hcas.size() == 1);
    const Hca& nic = topology.hcas[0];
    CHECK(nic.name == "cxi0");
    CHECK(nic.bdf == "0000:41:00.0");
    CHECK(nic.numa_node == 1);
    CHECK(nic.can_open);
    CHECK(nic.ports[0].link_layer == kSlingshot);
    CHECK(nic.ports[0].netdev == "hsn0");
    CHECK(nic.ports[0].active);
    CHECK(nic.ports[0].rate_gbps == 200);
}

TEST_CASE("what is above a GPU and an HCA on the PCI bus") {
    FakeSystem system;
    two_sockets(system);
    const std::string above = "pci0000:16/0000:16:01.0/0000:17:00.0";
    system.pci(above + "/0000:18:00.0/0000:19:00.0", "0x10de", "0x030200", 0, "nvidia");
    system.nvidia("0000:19:00.0", 0);
    add_hca(system, "mlx5_0", above + "/0000:18:01.0/0000:1a:00.0", 0);
    add_hca(system, "mlx5_1", "pci0000:80/0000:80:01.0/0000:81:00.0", 1, 1);
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.gpus.size() == 1);
    CHECK(topology.gpus[0].pci_path ==
          Names{"pci0000:16", "0000:16:01.0", "0000:17:00.0", "0000:18:00.0"});
    REQUIRE(topology.hcas.size() == 2);
    CHECK(topology.hcas[0].bdf == "0000:1a:00.0");
    CHECK(topology.hcas[0].pci_id == "15b3:1021");
    CHECK(path_between(topology, topology.gpus[0], topology.hcas[0]) == PathClass::pix);
    CHECK(path_between(topology, topology.gpus[0], topology.hcas[1]) == PathClass::sys);
}

TEST_CASE("an HCA that may not be opened, and one of a part of a function") {
    FakeSystem system;
    two_sockets(system);
    add_hca(system, "mlx5_0", "pci0000:10/0000:11:00.0", 0);
    add_hca(system, "mlx5_1", "pci0000:10/0000:12:00.0", 1);
    add_hca(system, "mlx5_2", "pci0000:10/0000:13:00.0", 2);
    system.remove("dev/infiniband/uverbs1");
    system.remove("sys/class/infiniband_verbs/uverbs2");
    system.file("sys/devices/pci0000:10/0000:11:00.0/mlx5_core.sf.4/sfnum", "88");
    system.link("sys/class/infiniband/mlx5_3/device",
                "sys/devices/pci0000:10/0000:11:00.0/mlx5_core.sf.4");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.hcas.size() == 4);
    CHECK(topology.hcas[0].can_open);
    CHECK_FALSE(topology.hcas[1].can_open);
    CHECK_FALSE(topology.hcas[2].can_open);
    CHECK(topology.hcas[3].bdf == "0000:11:00.0");
    system.remove("dev");  // a tree saved without its device nodes
    CHECK(read_local_topology(system.options(kAll)).hcas[1].can_open);
}

TEST_CASE("an InfiniBand port: LID, its first GID, its interface") {
    FakeSystem system;
    two_sockets(system);
    const std::string path = "pci0000:10/0000:11:00.0";
    add_hca(system, "mlx5_0", path, 0);
    const std::string port = add_port(system, "mlx5_0", 1, "InfiniBand");
    add_gid(system, port, 0, "fe80:0000:0000:0000:b859:9f03:00d4:b1a2", "", "");
    add_gid(system, port, 1, "fe80:0000:0000:0001:b859:9f03:00d4:b1a2", "", "");
    add_interface(system, "ib0", path, "400000");
    add_interface(system, "ib0.8001", path, "400000");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.hcas.size() == 1);
    REQUIRE(topology.hcas[0].ports.size() == 1);
    const Hca::Port& found = topology.hcas[0].ports[0];
    CHECK(found.active);
    CHECK(found.rate_gbps == 400);
    CHECK(found.lid == 26);
    CHECK(found.mtu_bytes == 0);
    CHECK(found.netdev == "ib0");
    REQUIRE(found.gids.size() == 1);
    CHECK(found.gids[0].bytes[0] == 0xfe);
    CHECK(found.gids[0].bytes[8] == 0xb8);
    CHECK(found.gids[0].bytes[15] == 0xa2);
    CHECK(found.gids[0].roce_version == 0);
    CHECK(read_local_topology(with_details(system)).hcas[0].ports[0].gids.size() == 2);
}

TEST_CASE("partition keys of InfiniBand: the first eight of the table, or all of it") {
    FakeSystem system;
    two_sockets(system);
    add_hca(system, "mlx5_0", "pci0000:10/0000:11:00.0", 0);
    const std::string port = add_port(system, "mlx5_0", 1, "InfiniBand");
    const auto keys = [&] {
        return read_local_topology(system.options(kAll)).hcas.at(0).ports.at(0).pkeys;
    };
    CHECK(keys().empty());
    system.file(port + "pkeys/0", "0x7fff");
    system.file(port + "pkeys/1", "0x8001");
    CHECK(keys() == std::vector<std::uint16_t>{0x7fff, 0x8001});
    for (int index = 2; index < 20; ++index)
        system.file(fmt::format("{}pkeys/{}", port, index), "0x0000");
    CHECK(keys().size() == 8);
    CHECK(read_local_topology(with_details(system)).hcas[0].ports[0].pkeys.size() == 20);
    for (const char* odd : {"", "-1", "0x12345", "key"}) {
        system.file(port + "pkeys/1", odd);
        CHECK(keys().size() == 1);
    }
}

TEST_CASE("traffic classes that a driver forces upon RoCE") {
    FakeSystem system;
    two_sockets(system);
    add_hca(system, "mlx5_0", "pci0000:10/0000:11:00.0", 0);
    add_port(system, "mlx5_0", 1, "Ethernet");
    const auto forced = [&](const char* text) {
        system.file("sys/class/infiniband/mlx5_0/tc/1/traffic_class", text);
        return read_local_topology(system.options(kAll)).hcas.at(0).ports.at(0).traffic_class;
    };
    CHECK(read_local_topology(system.options(kAll)).hcas[0].ports[0].traffic_class == std::nullopt);
    CHECK(forced("") == -1);
    CHECK(forced("src_ip=10.0.0.1,dst_ip=10.0.0.2/32,tclass=12") == -1);
    CHECK(forced("Global tclass=106") == 106);
    CHECK(forced("Global tclass=160\nsrc_ip=10.0.0.1,dst_ip=10.0.0.2/32,tclass=12") == 160);
    for (const char* odd :
         {"Global tclass=", "Global tclass=256", "Global tclass=-7", "Global tclass=x"})
        CHECK(forced(odd) == std::nullopt);
}

TEST_CASE("GID tables that go on behind 16 entries are read on, up to where they end with holes") {
    FakeSystem system;
    two_sockets(system);
    add_hca(system, "mlx5_0", "pci0000:10/0000:11:00.0", 0);
    const std::string port = add_port(system, "mlx5_0", 1, "Ethernet");
    for (int index = 0; index < 256; ++index)
        add_gid(system, port, index,
                index < 19 ? fmt::format("0000:0000:0000:0000:0000:ffff:0a00:{:04x}", index + 1)
                           : kZeroGid,
                index < 19 ? "RoCE v2" : "", "eth4");
    const auto found = read_local_topology(system.options(kAll)).hcas.at(0).ports.at(0);
    CHECK(found.gids.size() == 19);
    CHECK(found.gids_read == 32);
    CHECK(read_local_topology(with_details(system)).hcas[0].ports[0].gids_read == 256);
    for (int index = 12; index < 19; ++index)
        system.file(fmt::format("{}gids/{}", port, index), kZeroGid);
    CHECK(read_local_topology(system.options(kAll)).hcas[0].ports[0].gids_read == 16);
}

TEST_CASE("nvidia-peermem in its forms, asked for only where there are HCAs") {
    FakeSystem system;
    two_sockets(system);
    system.file("sys/module/mlx5_core/version", "24.10");
    CHECK(read_local_topology(system.options(kAll)).peermem == std::nullopt);
    add_hca(system, "mlx5_0", "pci0000:10/0000:11:00.0", 0);
    CHECK(read_local_topology(system.options(kAll)).peermem == false);
    for (const char* file : {"module/nvidia_peermem", "kernel/mm/memory_peers/nv_mem",
                             "kernel/mm/memory_peers/nv_mem_nc"}) {
        system.file(fmt::format("sys/{}/version", file), "1");
        CHECK(read_local_topology(system.options(kAll)).peermem == true);
        system.remove(fmt::format("sys/{}", file));
    }
    system.remove("sys/module");  // a saved tree
    CHECK(read_local_topology(system.options(kAll)).peermem == std::nullopt);
}

TEST_CASE("a RoCE port: GIDs with holes, versions, MTU; two ports of one function") {
    FakeSystem system;
    two_sockets(system);
    const std::string path = "pci0000:10/0000:11:00.0";
    add_hca(system, "mlx4_0", path, 0);
    add_interface(system, "eth4", path, "100000", 0);
    add_interface(system, "eth5", path, "100000", 1);
    system.file("sys/devices/" + path + "/net/eth5/mtu", "1500");
    const std::string first = add_port(system, "mlx4_0", 1, "Ethernet");
    add_port(system, "mlx4_0", 2, "Ethernet");
    add_gid(system, first, 0, "fe80:0000:0000:0000:0e42:a1ff:fe33:4455", "IB/RoCE v1", "eth4");
    add_gid(system, first, 1, "fe80:0000:0000:0000:0e42:a1ff:fe33:4455", "RoCE v2", "eth4");
    add_gid(system, first, 2, kZeroGid, "", "");
    add_gid(system, first, 3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "eth4");
    add_gid(system, first, 4, "0000:0000:0000:0000:0000:ffff:0a00:0002", "",
            "");  // its type cannot be read
    add_gid(system, first, 20, "0000:0000:0000:0000:0000:ffff:0a00:0003", "RoCE v2", "eth4");
    const auto ports = read_local_topology(system.options(kAll)).hcas.at(0).ports;
    REQUIRE(ports.size() == 2);
    CHECK(ports[0].netdev == "eth4");
    CHECK(ports[0].mtu_bytes == 4096);
    CHECK(ports[1].netdev == "eth5");
    CHECK(ports[1].mtu_bytes == 1024);
    REQUIRE(ports[0].gids.size() == 3);
    CHECK(ports[0].gids[0].roce_version == 1);
    CHECK(ports[0].gids[1].roce_version == 2);
    CHECK(ports[0].gids[2].index == 3);
    CHECK(ports[0].gids[2].bytes[10] == 0xff);
    CHECK(ports[0].gids[2].bytes[15] == 1);
    CHECK(ports[0].gids[2].netdev == "eth4");
    const auto whole = read_local_topology(with_details(system)).hcas[0].ports[0].gids;
    REQUIRE(whole.size() == 4);
    CHECK(whole[3].index == 20);
}

TEST_CASE(
    "a RoCE port's interface: of another namespace, a bond's, and not a switch's virtual port") {
    FakeSystem system;
    two_sockets(system);
    const std::string path = "pci0000:10/0000:11:00.0";
    add_hca(system, "mlx5_0", path, 0);
    const std::string port = add_port(system, "mlx5_0", 1, "Ethernet");
    add_gid(system, port, 0, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "bond0");
    const auto netdev = [&] {
        return read_local_topology(system.options(kAll)).hcas.at(0).ports.at(0).netdev;
    };
    add_interface(system, "bond0", "", "200000");  // of the same name, but not above the port's own
    CHECK(netdev().empty());
    add_interface(system, "eth7", path, "100000");
    add_interface(system, "eth1", path, "100000");
    system.file("sys/class/net/eth1/phys_port_name", "pf0vf0");
    CHECK(netdev() == "eth7");
    system.file("sys/class/net/bond0/bonding/mode", "802.3ad 4");
    system.file("sys/class/net/bond0/lower_eth7/mtu", "9000");
    CHECK(netdev() == "bond0");
    system.remove("sys/class/net/eth7");
    CHECK(netdev().empty());
}

TEST_CASE("network interfaces: running, rate, address on the bus, default route") {
    FakeSystem system;
    two_sockets(system);
    add_interface(system, "eth0", "pci0000:10/0000:11:00.0/virtio0", "25000");
    add_interface(system, "eth1", "pci0000:10/0000:12:00.0", "-1");
    add_interface(system, "eth2", "pci0000:10/0000:13:00.0", "100000");
    add_interface(system, "bond0", "", "200000");
    add_interface(system, "veth1", "", "10000");
    add_interface(system, "lo", "", "");
    system.file("sys/class/net/lo/operstate", "unknown");
    system.file("sys/class/net/eth2/operstate", "down");
    system.file("sys/class/net/veth1/flags", "0x1002");
    system.file("sys/class/net/bonding_masters", "bond0");
    system.file(
        "proc/net/route",
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "bond0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0");
    const std::string zeros(32, '0');
    system.file("proc/net/ipv6_route",
                fmt::format("{0} 00 {0} 00 fe800000000000000000000000000001 00000400 00000001 "
                            "00000000 00450003     eth0\n"
                            "{0} 00 {0} 00 {0} ffffffff 00000001 00000000 00200200       lo",
                            zeros));
    const NodeTopology topology = read_local_topology(system.options(kAll));
    CHECK(topology.network_interfaces.size() == 6);
    CHECK_FALSE(find_interface(topology, "bonding_masters"));
    CHECK(find_interface(topology, "eth0")->bdf == "0000:11:00.0");
    CHECK(find_interface(topology, "eth0")->rate_gbps == 25);
    CHECK(find_interface(topology, "eth0")->has_default_route);
    CHECK(find_interface(topology, "eth1")->rate_gbps == 0);
    CHECK_FALSE(find_interface(topology, "eth1")->has_default_route);
    CHECK_FALSE(find_interface(topology, "eth2")->is_running);
    CHECK(find_interface(topology, "bond0")->rate_gbps == 200);
    CHECK(find_interface(topology, "bond0")->bdf.empty());
    CHECK_FALSE(find_interface(topology, "veth1")->is_running);
    CHECK(find_interface(topology, "lo")->is_running);
    CHECK_FALSE(find_interface(topology, "lo")->has_default_route);
    CHECK(find_interface(topology, "eth0")->addresses.empty());  // those are of our own namespace
}

TEST_CASE("this machine's interfaces have the addresses that it is reached by") {
    const NodeTopology topology = read_local_topology();
    const NetworkInterface* const loopback = find_interface(topology, "lo");
    if (!loopback || !loopback->is_running) {
        fmt::print("skipped: this machine's interfaces: no loopback that is up\n");
        return;
    }
    CHECK(std::count(loopback->addresses.begin(), loopback->addresses.end(), "127.0.0.1") == 1);
}

TEST_CASE("L3 sizes, where every L3 tells its own") {
    FakeSystem system;
    two_sockets(system);
    for (int cpu = 0; cpu < 8; ++cpu)
        system.file(fmt::format("sys/devices/system/cpu/cpu{}/cache/index1/size", cpu),
                    cpu % 4 < 2 ? "32768K" : "16M");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    CHECK(topology.l3_bytes == std::vector<std::uint64_t>{32u << 20, 16u << 20});
    system.file("sys/devices/system/cpu/cpu2/cache/index1/size", "many");
    CHECK(read_local_topology(system.options(kAll)).l3_bytes.empty());
}

TEST_CASE("a GPU's memory is no NUMA node, whatever CPUs the kernel shows for it") {
    FakeSystem system;
    two_sockets(system);
    system.file("sys/devices/system/node/online", "0-2");
    system.node(0, "0-1,4-5", 1000, "10 21 80");
    system.node(1, "2-3,6-7", 2000, "21 10 80");
    system.node(2, "0-1,4-5", 96000, "80 80 10");
    system.pci("pci0000:10/0000:11:00.0", "0x10de", "0x030200", 2, "nvidia");
    system.nvidia("0000:11:00.0", 0);
    system.file("proc/driver/nvidia/gpus/0000:11:00.0/numa_status", "Node:   2\nStatus: online\n");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.numa_nodes.size() == 2);
    CHECK(topology.numa_nodes[1].distances == Cpus{21, 10});
    REQUIRE(topology.gpus.size() == 1);
    CHECK(topology.gpus[0].numa_node != 2);
}

TEST_CASE("cores beside no memory belong to the nearest node that has some") {
    FakeSystem system;
    two_sockets(system);
    system.file("sys/devices/system/node/online", "0-2");
    system.node(0, "0,4", 1000, "10 32 32");
    system.node(1, "1,5", 1000, "32 10 16");
    system.node(2, "2-3,6-7", 0, "32 16 10");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.cores.size() == 4);
    CHECK(topology.cores[0].numa_node == 0);
    CHECK(topology.cores[2].numa_node == 1);
    CHECK(topology.cores[3].numa_node == 1);
}

TEST_CASE("MIG devices stand in the place of their GPU") {
    FakeSystem system;
    two_sockets(system);
    for (const char* bdf : {"0000:11:00.0", "0000:12:00.0", "0000:13:00.0"})
        system.pci(std::string("pci0000:10/") + bdf, "0x10de", "0x030200", 1, "nvidia");
    system.nvidia("0000:11:00.0", 0);
    system.nvidia("0000:12:00.0", 1);
    system.nvidia("0000:13:00.0", 2);
    const std::string machine =
        "gpu 0000:11:00.0 GPU-0 NVIDIA H100\nmemory 85000000000\n"
        "gpu 0000:12:00.0 GPU-1 NVIDIA H100\nmig\npart MIG-a 10000000000 NVIDIA H100 MIG 1g.10gb\n"
        "part MIG-b 40000000000 NVIDIA H100 MIG 3g.40gb\ngpu 0000:13:00.0 GPU-2 NVIDIA H100\nmig\n";

    // No GPU instance in the driver's folders: the driver is not asked.
    system.file("proc/driver/nvidia/capabilities/gpu1/mig/monitor", "DeviceFileMinor: 2");
    CHECK(read_with_driver(system, machine).gpus.size() == 3);

    system.file("proc/driver/nvidia/capabilities/gpu1/mig/gi3/access", "DeviceFileMinor: 30");
    const NodeTopology topology = read_with_driver(system, machine);
    REQUIRE(topology.gpus.size() == 3);
    CHECK(topology.gpus[0].uuid == "GPU-0");
    CHECK(topology.gpus[0].partition_of.empty());
    CHECK(topology.gpus[0].memory_bytes == 85000000000);
    CHECK(topology.gpus[1].uuid == "MIG-a");
    CHECK(topology.gpus[1].partition_of == "GPU-1");
    CHECK(topology.gpus[1].bdf == "0000:12:00.0");
    CHECK(topology.gpus[1].model == "NVIDIA H100 MIG 1g.10gb");
    CHECK(topology.gpus[1].memory_bytes == 10000000000);
    CHECK(topology.gpus[1].numa_node == 1);
    CHECK(topology.gpus[1].node_distances == Cpus{21, 10});
    CHECK(topology.gpus[2].uuid == "MIG-b");
    CHECK(topology.gpus[2].index == 2);
    REQUIRE(topology.notes.size() == 1);
    CHECK(topology.notes[0].starts_with(
        "GPU 0000:13:00.0 is left out: MIG is enabled on it, but it has no MIG device"));

    const NodeTopology unasked = read_with_driver(system, "init 9");
    CHECK(unasked.gpus.size() == 3);
    REQUIRE(unasked.notes.size() == 1);
    CHECK(unasked.notes[0].find("Driver Not Loaded") != std::string::npos);
    CHECK(read_local_topology(system.options(kAll)).gpus.size() ==
          3);  // a saved tree has no driver to ask
}

TEST_CASE("NVLinks that the driver tells, straight and through switches") {
    FakeSystem system;
    two_sockets(system);
    for (const char* bdf : {"0000:11:00.0", "0000:12:00.0", "0000:13:00.0"}) {
        system.pci(std::string("pci0000:10/") + bdf, "0x10de", "0x030200", 0, "nvidia");
        system.nvidia(bdf, bdf[6] - '1');
    }
    const NodeTopology straight =
        read_with_driver(system,
                         "gpu 0000:11:00.0 GPU-0 A100\nmemory 5\nlink 0000:12:00.0 gpu 0\n"
                         "link 0000:12:00.0 gpu 0\ngpu 0000:12:00.0 GPU-1 A100\n"
                         "link 0000:11:00.0 gpu 0\ngpu 0000:13:00.0 GPU-2 A100\n",
                         true);
    REQUIRE(straight.told_paths.size() == 1);
    CHECK(straight.told_paths[0].links == 2);
    CHECK(straight.gpus[0].memory_bytes == 5);
    CHECK(path_between(straight, straight.gpus[0], straight.gpus[1]) == PathClass::nvlink);
    CHECK(path_between(straight, straight.gpus[0], straight.gpus[2]) == PathClass::phb);
    const NodeTopology switched =
        read_with_driver(system,
                         "gpu 0000:11:00.0 GPU-0 H100\nlink 0000:05:00.0 switch 0\n"
                         "link 0000:06:00.0 switch 0\ngpu 0000:12:00.0 GPU-1 H100\n"
                         "link - switch 0\nlink - switch 0\ngpu 0000:13:00.0 GPU-2 H100\n",
                         true);
    REQUIRE(switched.told_paths.size() == 1);
    CHECK(switched.told_paths[0].from == "0000:11:00.0");
    CHECK(switched.told_paths[0].to == "0000:12:00.0");
    CHECK(switched.told_paths[0].links == 2);
}

TEST_CASE("AMD GPUs: ROCm's order, memory, xGMI; a GPU that a device cgroup hides") {
    FakeSystem system;
    two_sockets(system);
    system.file("dev/kfd", "");
    for (const char* bdf : {"0000:21:00.0", "0000:31:00.0", "0000:41:00.0"})
        system.pci(std::string("pci0000:20/") + bdf, "0x1002", "0x038000", 0, "amdgpu");
    system.file("sys/devices/pci0000:20/0000:21:00.0/unique_id", "18f4c21ab36d9e01");
    system.file("sys/devices/pci0000:20/0000:21:00.0/mem_info_vram_total", "34342961152");
    add_kfd_node(system, 0, 0, 0, "0");
    add_kfd_node(system, 2, 440, 0x3100, "81985529216486895");
    add_kfd_node(system, 10, 440, 0x2100, "1798110443029405185");
    system.file("sys/class/kfd/kfd/topology/nodes/11/properties",
                "");  // not ours: reading fails, or is empty
    add_io_link(system, 2, 0, 0, 2, 312, 16000);
    add_io_link(system, 2, 1, 10, 11, 50000, 100000);
    add_io_link(system, 10, 0, 2, 11, 50000, 100000);
    const NodeTopology topology = read_local_topology(with_details(system));
    REQUIRE(topology.gpus.size() == 2);
    CHECK(topology.gpus[0].bdf == "0000:21:00.0");
    CHECK(topology.gpus[0].uuid == "GPU-18f4c21ab36d9e01");
    CHECK(topology.gpus[0].runtime_index == 1);
    CHECK(topology.gpus[0].memory_bytes == 34342961152);
    CHECK(topology.gpus[1].runtime_index == 0);
    CHECK(topology.gpus[1].uuid == "GPU-0123456789abcdef");
    CHECK(topology.gpus[1].memory_bytes == 68702699520);
    CHECK(topology.gpus[1].partition_of.empty());
    REQUIRE(topology.told_paths.size() == 1);
    CHECK(topology.told_paths[0].links == 2);
    CHECK(path_between(topology, topology.gpus[0], topology.gpus[1]) == PathClass::nvlink);
    CHECK(read_local_topology(system.options(kAll)).told_paths.empty());
}

TEST_CASE("AMD: KFD's nodes against PCI order, two PCI domains, and shares of a virtual machine") {
    FakeSystem system;
    two_sockets(system);
    system.file("dev/kfd", "");
    const char* bdfs[] = {"0000:05:00.0", "0000:0a:02.1", "0000:85:00.0", "0001:05:00.0"};
    for (const char* bdf : bdfs)
        system.pci(std::string("pci0000:00/") + bdf, "0x1002", "0x120000", 0, "amdgpu");
    system.pci("pci0000:00/0000:05:00.1", "0x1002", "0x040300", 0, "snd_hda_intel");
    add_kfd_node(system, 0, 0, 0, "0");
    add_kfd_node(system, 1, 0, 0, "0");
    add_kfd_node(system, 2, 304, 0x8500, "2");
    add_kfd_node(system, 3, 304, 0x0500, "3");
    system.file("sys/class/kfd/kfd/topology/nodes/3/properties",
                "cpu_cores_count 0\nsimd_count 304\nlocation_id 1280\ndomain 1\nunique_id 3");
    add_kfd_node(system, 4, 304, 0x0a11, "4");   // function 1 of 0a:02
    add_kfd_node(system, 10, 304, 0x0501, "5");  // function 1 is the sound: the GPU is function 0
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.gpus.size() == 4);
    const int numbers[] = {3, 2, 0, 1};
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(topology.gpus[i].bdf == bdfs[i]);
        CHECK(topology.gpus[i].runtime_index == numbers[i]);
    }
}

TEST_CASE("parts of an AMD GPU are GPUs of their own at one address") {
    for (const bool distinct : {true, false}) {
        INFO(distinct);
        FakeSystem system;
        two_sockets(system);
        system.file("dev/kfd", "");
        system.pci("pci0000:20/0000:21:00.0", "0x1002", "0x120000", 1, "amdgpu");
        system.file("sys/devices/pci0000:20/0000:21:00.0/unique_id", "00000000000000aa");
        system.file("sys/devices/pci0000:20/0000:21:00.0/product_name", "AMD Instinct MI300X");
        system.file("sys/devices/pci0000:20/0000:21:00.0/current_compute_partition", "TPX");
        add_kfd_node(system, 0, 0, 0, "0");
        for (int part = 0; part < 3;
             ++part)  // older drivers add the part to the function, newer ones to the top bits
            add_kfd_node(system, 1 + part, 152, distinct ? 0x2100 | part << 28 : 0x2100 + part,
                         distinct ? std::to_string(0xaa + part) : "170");
        const NodeTopology topology = read_local_topology(system.options(kAll));
        REQUIRE(topology.gpus.size() == 3);
        for (int part = 0; part < 3; ++part) {
            const Gpu& gpu = topology.gpus[static_cast<std::size_t>(part)];
            CHECK(gpu.bdf == "0000:21:00.0");
            CHECK(gpu.partition_of == "GPU-00000000000000aa");
            CHECK(gpu.uuid == (distinct ? fmt::format("GPU-{:016x}", 0xaa + part) : ""));
            CHECK(gpu.runtime_index == part);
            CHECK(gpu.numa_node == 1);
            CHECK(gpu.model == "AMD Instinct MI300X TPX");
            CHECK(gpu.memory_bytes == 68702699520);
        }
    }
}

// One file after another is spoilt, each time in another way: whatever is there, the reader comes
// back with every allowed CPU in one core, and with nothing that is not of this machine.
TEST_CASE("files with nonsense in them make facts unknown, and nothing worse") {
    FakeSystem system;
    two_sockets(system);
    system.pci("pci0000:10/0000:10:01.0/0000:11:00.0", "0x10de", "0x030200", 0, "nvidia");
    system.nvidia("0000:11:00.0", 0);
    system.file("proc/driver/nvidia/gpus/0000:11:00.0/numa_status", "Node: 7");
    system.pci("pci0000:20/0000:21:00.0", "0x1002", "0x120000", 1, "amdgpu");
    system.file("dev/kfd", "");
    add_kfd_node(system, 1, 440, 0x2100, "170");
    add_io_link(system, 1, 0, 1, 11, 1, 2);
    add_hca(system, "mlx5_0", "pci0000:10/0000:12:00.0", 0);
    const std::string port = add_port(system, "mlx5_0", 1, "Ethernet");
    add_gid(system, port, 0, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "eth0");
    add_interface(system, "eth0", "pci0000:10/0000:12:00.0", "100000");
    system.file("proc/net/route", "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0");
    system.file("proc/self/status", "Mems_allowed_list:\t0-1");

    const std::regex kAlike("/cpu[1-46-7]/");  // two CPUs stand for all
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(system.root()))
        if (entry.is_regular_file() && !entry.is_symlink() &&
            !std::regex_search(entry.path().string(), kAlike))
            files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    REQUIRE(files.size() > 50);
    std::mt19937 random(20240607);
    const Names nonsense = {"",
                            "-1",
                            "99999999999999999999999",
                            "0-",
                            "4294967295",
                            ":::::::::::::::::::::::::::::::::::::::",
                            "Node Node Node: MemTotal:",
                            std::string(70000, '7'),
                            std::string("0\0001\n", 4),
                            "0xfffffffffffffffffffff",
                            "simd_count 18446744073709551615\nlocation_id 18446744073709551615"};
    const auto check = [&] {
        const NodeTopology topology = read_local_topology(with_details(system));
        Cpus cpus;
        for (const Core& core : topology.cores)
            cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
        std::sort(cpus.begin(), cpus.end());
        CHECK(cpus == kAll);
        CHECK_FALSE(topology.numa_nodes.empty());
        for (const Gpu& gpu : topology.gpus)
            CHECK(is_subset(gpu.local_cpus, kAll));
        for (const Core& core : topology.cores)
            CHECK((core.l3 >= 0 && core.l3 < 8));
    };
    check();
    for (const fs::path& file : files) {
        INFO(file.string());
        std::ifstream stream(file);
        const std::string before((std::istreambuf_iterator<char>(stream)), {});
        const auto spoil = [&](const std::string& text) {
            std::ofstream(file, std::ios::trunc) << text;
            check();
        };
        spoil(nonsense[random() % nonsense.size()]);
        std::string bytes;
        for (int i = 0; i < 40; ++i)
            bytes += static_cast<char>(random() & 0xff);
        spoil(bytes);
        std::string cut = before.substr(0, random() % (before.size() + 1));
        if (!cut.empty())
            cut[random() % cut.size()] ^= static_cast<char>(1 + random() % 255);
        spoil(cut);
        fs::remove(file);
        check();
        fs::create_directory(file);  // where a file should be
        check();
        fs::remove(file);
        std::ofstream(file) << before;
    }
    check();
}

}  // namespace topology_devices_test
