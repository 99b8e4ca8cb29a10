// Where a job runs, as NCCL's settings see it.

#include "nccl_env/site.hpp"

#include "nccl_machines.hpp"
#include "topology/machine_identity.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace nccl_site_test {

using namespace autolaunch::launcher;
using testing::machine_with;

namespace {

const std::string kFolder = std::string(AUTOLAUNCH_SOURCE_DIR) + "/configs/profiles";

NodeTopology with_interfaces(const std::vector<NetworkInterface>& interfaces) {
    NodeTopology topology = machine_with(2, 1, {});
    topology.network_interfaces = interfaces;
    return topology;
}

std::vector<ProfileFile> all_profiles() {
    std::vector<ProfileFile> profiles;
    for (const auto& name : profile_names(kFolder))
        profiles.push_back(find_profile(name, kFolder));
    return profiles;
}

std::string chosen(const std::map<std::string, std::string>& identity) {
    static const auto profiles = all_profiles();
    const auto* profile = matching_profile(profiles, identity);
    return profile != nullptr ? profile->name : "";
}

}  // namespace

TEST_CASE("the interface of an address") {
    const auto topology =
        with_interfaces({{.name = "eth0", .addresses = {"10.0.0.1", "fe80::1"}},
                         {.name = "ib0", .addresses = {"10.1.0.1"}},
                         {.name = "down", .is_running = false, .addresses = {"10.2.0.1"}},
                         {.name = "v6", .addresses = {"2001:db8::1", "fe80::2"}},
                         {.name = "up", .addresses = {"10.2.0.1"}}});
    CHECK(interface_with_address(topology, "10.1.0.1") == "ib0");
    CHECK(interface_with_address(topology, "10.2.0.1") == "up");
    CHECK(interface_with_address(topology, "fe80::9%eth7") == "eth7");
    CHECK(interface_with_address(topology, "10.9.0.1").empty());
    CHECK(interface_with_address(topology, "").empty());
    CHECK(is_ipv6_only(topology, "2001:db8::1"));
    CHECK_FALSE(is_ipv6_only(topology, "fe80::1"));  // eth0 has an IPv4 address too
    CHECK_FALSE(is_ipv6_only(topology, "10.0.0.1"));
    CHECK_FALSE(is_ipv6_only(topology, "2001:db8::9"));
}

TEST_CASE("profiles are chosen by what the firmware says") {
    CHECK(chosen({{"sys_vendor", "Amazon EC2"}, {"product_name", "p5.48xlarge"}}) == "aws");
    CHECK(chosen({{"sys_vendor", "Google"}, {"product_name", "Google Compute Engine"}}) == "gcp");
    CHECK(chosen({{"sys_vendor", "Microsoft Corporation"},
                  {"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"}}) == "azure");
    CHECK(chosen({{"sys_vendor", "Microsoft Corporation"}, {"product_name", "Virtual Machine"}})
              .empty());  // Hyper-V
    CHECK(chosen({{"chassis_asset_tag", "OracleCloud.com"}, {"sys_vendor", "Dell Inc."}}) == "oci");
    CHECK(chosen({{"sys_vendor", "HPE"}, {"fabric", "slingshot"}}) == "slingshot");
    CHECK(chosen({{"sys_vendor", "Supermicro"}}).empty());
    CHECK(chosen({}).empty());
}

TEST_CASE("the firmware's words are read from sysfs") {
    std::string root = std::filesystem::temp_directory_path() / "dmi-XXXXXX";
    REQUIRE(::mkdtemp(root.data()) != nullptr);
    CHECK(read_machine_identity(root).empty());
    std::filesystem::create_directories(root + "/class/dmi/id");
    std::ofstream(root + "/class/dmi/id/sys_vendor") << "Amazon EC2\n";
    std::ofstream(root + "/class/dmi/id/product_name") << "\n";
    CHECK(read_machine_identity(root) ==
          std::map<std::string, std::string>{{"sys_vendor", "Amazon EC2"}});
    std::filesystem::remove_all(root);
}

TEST_CASE("a topology file counts only if all its devices are here; bridges are made up") {
    NodeTopology topology = machine_with(2, 1, {{"mlx5_0", "root0"}});
    topology.gpus[0].bdf = "000d:00:00.0";
    topology.gpus[1].bdf = "0002:00:00.0";
    topology.hcas[0].bdf = "0101:00:00.0";
    const std::string bridge = R"(<pci busid="ffff:ff:01.0" class="0x060400" link_width="16">)";
    const std::string one = R"(<pci busid="000D:00:00.0" class="0x030200"/>)";
    const std::string gpu = one + R"(<pci busid="0002:00:00.0" class="0x030200"/>)";
    const std::string nic = R"(<pci busid="0101:00:00.0" class="0x020700"/>)";
    CHECK(topology_file_fits("<system>" + bridge + gpu + nic + "</pci></system>", topology));
    CHECK(topology_file_fits(gpu, topology));
    CHECK_FALSE(topology_file_fits(one + nic, topology));  // of a smaller machine
    CHECK_FALSE(
        topology_file_fits(gpu + R"(<pci busid="0102:00:00.0" class="0x020700"/>)", topology));
    CHECK_FALSE(topology_file_fits(gpu + R"(<pci class="0x020700"/>)", topology));
    CHECK_FALSE(topology_file_fits(bridge, topology));
    CHECK_FALSE(topology_file_fits("", topology));
    CHECK_FALSE(topology_file_fits("<pci ", topology));
}

TEST_CASE("a topology file of another machine names what is not here") {
    NodeTopology topology = machine_with(1, 1, {{"mlx5_0", "root0"}});
    topology.gpus[0].bdf = "000d:00:00.0";
    topology.hcas[0].bdf = "0101:00:00.0";
    const std::string gpu = R"(<pci busid="000D:00:00.0" class="0x030200"/>)";
    const std::string nic = R"(<pci busid="0102:00:00.0" class="0x020700"/>)";
    CHECK(topology_file_stranger(gpu, topology).empty());
    CHECK(
        topology_file_stranger(R"(<pci busid="ffff:ff:01.0" class="0x060400">)", topology).empty());
    CHECK(topology_file_stranger(R"(<pci busid="0000:0f:00.0" class="0x030200"/>)" + gpu,
                                 topology) == "the GPU 0000:0f:00.0");
    CHECK(topology_file_stranger(gpu + nic, topology) == "the NIC 0102:00:00.0");
    topology.network_interfaces = {{"eth0", true, false, 0, {}, "0102:00:00.0"}};
    CHECK(topology_file_stranger(gpu + nic, topology).empty());
}

TEST_CASE("a profile's RoCE settings need RoCE") {
    const auto oci = find_profile("oci", kFolder);
    const auto roce = machine_with(1, 1, {{"mlx5_0", "sw0", 200, "Ethernet", "15b3:1021", "eth0"}});
    const auto profile = to_nccl_profile(oci, roce, "/topo.xml");
    REQUIRE(profile.set.size() == 3);
    CHECK(profile.set[0].name == "NCCL_IB_TC");
    CHECK(profile.set[0].value == "41");
    CHECK(profile.set[0].source == "profile oci");
    CHECK(profile.set[2].name == "NCCL_TOPO_FILE");
    CHECK(to_nccl_profile(oci, machine_with(1, 1, {{"mlx5_0", "sw0"}}), "").set.empty());
}

TEST_CASE("Google Cloud: what its script sets is left, and people are told about the script once") {
    const auto machine = machine_with(1, 1, {{"mlx5_0", "sw0"}, {"mlx5_1", "root1"}});
    const auto gcp = to_nccl_profile(find_profile("gcp", kFolder), machine, "");
    const auto decide = [&](const EnvironmentMap& found, int nodes) {
        return decide_nccl_environment(
            {.topology = machine, .found = found, .profile = gcp, .node_count = nodes});
    };
    CHECK(decide({}, 2).warnings.size() == 1);
    CHECK(decide({}, 1).warnings.empty());
    CHECK(decide({{"NCCL_NET", "gIB"}}, 2).warnings.empty());
    for (const auto& choice : decide({}, 2).set)
        CHECK(choice.name != "NCCL_IB_HCA");
    CHECK(decide({}, 2).profile == "gcp");
}

}  // namespace nccl_site_test
