// Every saved topology of a real machine is read and compared with facts.json, which a second
// implementation drew from the same files. What differs is listed with its reason in
// tests/data/topology_disagreements.json: a difference that is not listed fails, and so does a
// listed one that is no more.

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "captures.hpp"
#include "topology/capture.hpp"
#include "topology/path_class.hpp"
#include "topology/system_files.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace capture_matrix_test {

namespace fs = std::filesystem;
using namespace autolaunch;
using namespace autolaunch::launcher;
using Json = nlohmann::json;

namespace {

/// capture, device, what of it, ours, theirs
using Difference = std::tuple<std::string, std::string, std::string, std::string, std::string>;
using Names = std::set<std::string>;

std::string text_of(const Json& value) {
    return value.is_string() ? value.get<std::string>() : std::string();
}

std::string numa_text(const std::optional<int>& node) { return node ? std::to_string(*node) : ""; }

std::string list_text(const Names& names) {
    const std::vector<std::string> sorted(names.begin(), names.end());
    return join(sorted, ",");
}

// "@0000:10:1b.0" is a NIC that the file does not name.
std::string without_at(const std::string& name) {
    return name.starts_with('@') ? name.substr(1) : name;
}

Names names_in(const Json& list) {
    Names names;
    for (const Json& name : list)
        names.insert(without_at(name));
    return names;
}

/// Counts what was compared, so that a test that compares nothing fails.
struct Tally {
    int captures = 0, gpus = 0, nics = 0, paths = 0, speeds = 0;
};

class Comparison {
public:
    Comparison(std::string capture, const NodeTopology& topology, std::set<Difference>& differences,
               Tally& tally)
        : capture_(std::move(capture)),
          topology_(topology),
          differences_(differences),
          tally_(tally) {}

    void compare(const Json& fact) {
        ++tally_.captures;
        std::size_t expected_gpus = 0;
        for (const Json& gpu : fact["gpus"])
            expected_gpus += compare_gpu(gpu);
        differ("all", "GPU count", std::to_string(topology_.gpus.size()),
               std::to_string(expected_gpus));
        if (fact.contains("nics"))
            for (const Json& nic : fact["nics"])
                compare_nic(nic);
    }

private:
    void differ(const std::string& device, const std::string& what, const std::string& ours,
                const std::string& theirs) {
        if (ours != theirs)
            differences_.insert({capture_, device, what, ours, theirs});
    }

    // How many GPUs of ours the entry stands for: partitions share an address.
    std::size_t compare_gpu(const Json& fact) {
        const std::string name = fact.contains("pci") ? text_of(fact["pci"]) : text_of(fact["gpu"]);
        std::size_t found = 0;
        for (const Gpu& gpu : topology_.gpus) {
            if ((gpu.bdf.empty() ? "GPU" + std::to_string(gpu.index) : gpu.bdf) != name)
                continue;
            ++found;
            ++tally_.gpus;
            differ(name, "NUMA node", numa_text(gpu.numa_node), text_of(fact["numa"]));
            const auto cpus = parse_list(text_of(fact["cpus"]));
            differ(name, "CPUs", format_list(gpu.local_cpus),
                   cpus ? format_list(*cpus) : "malformed");
            compare_paths(name, gpu, fact);
        }
        const std::string names = text_of(fact["gpu"]);
        const auto expected =
            1 + static_cast<std::size_t>(std::count(names.begin(), names.end(), '/'));
        if (names.starts_with("rsmi"))
            differ(name, "partitions", std::to_string(found), std::to_string(expected));
        if (found == 0)
            differ(name, "GPU", "missing", "present");
        return names.starts_with("rsmi") ? expected : 1;
    }

    // The nearest NICs and how near. Interfaces that are no HCAs have no path of ours; where they
    // are the nearest of theirs, there is nothing to compare.
    void compare_paths(const std::string& name, const Gpu& gpu, const Json& fact) {
        PathClass nearest = PathClass::unknown;
        Names ours;
        for (const Hca& hca : topology_.hcas) {
            const PathClass path = path_between(topology_, gpu, hca);
            if (path < nearest)
                ours.clear();
            nearest = std::min(nearest, path);
            if (path == nearest)
                ours.insert(hca.name);
        }
        const Names theirs = names_in(fact["nic"]);
        const bool are_interfaces =
            !theirs.empty() && std::all_of(theirs.begin(), theirs.end(),
                                           [&](const auto& nic) { return is_interface(nic); });
        if (are_interfaces && ours.empty())
            return;
        ++tally_.paths;
        differ(name, "nearest NICs", list_text(ours), list_text(theirs));
        const std::string path = ours.empty() ? "" : std::string(path_class_name(nearest));
        differ(name, "path", path, text_of(fact["path"]));
    }

    void compare_nic(const Json& fact) {
        const Json& names = fact["nic"];
        for (std::size_t i = 0; i < names.size(); ++i) {
            const std::string name = without_at(names[i]);
            const std::string bdf = text_of(fact["pci"]) == "(cpu)" ? "" : text_of(fact["pci"]);
            const Json& speeds = fact["speed"];
            const std::string speed =
                speeds.is_array() && i < speeds.size() ? text_of(speeds[i]) : "";
            ++tally_.nics;
            if (!speed.empty())
                ++tally_.speeds;
            if (const Hca* hca = find(topology_.hcas, name)) {
                differ(name, "NUMA node", numa_text(hca->numa_node), text_of(fact["numa"]));
                differ(name, "address", hca->bdf, bdf);
                compare_speed(name, hca->ports.empty() ? 0 : hca->ports.front().rate_gbps, speed);
            } else if (const auto* interface = find(topology_.network_interfaces, name)) {
                differ(name, "address", interface->bdf, bdf);
                compare_speed(name, interface->rate_gbps, speed);
            } else {
                differ(name, "NIC", "missing", "present");
            }
        }
    }

    void compare_speed(const std::string& name, double gbps, const std::string& mbps) {
        differ(name, "speed", gbps > 0 ? fmt::format("{:.0f}", gbps * 1000) : "", mbps);
    }

    template <class Device>
    static const Device* find(const std::vector<Device>& devices, const std::string& name) {
        const auto found = std::find_if(devices.begin(), devices.end(),
                                        [&](const Device& device) { return device.name == name; });
        return found == devices.end() ? nullptr : &*found;
    }

    bool is_interface(const std::string& name) const {
        return find(topology_.network_interfaces, name) != nullptr;
    }

    std::string capture_;
    const NodeTopology& topology_;
    std::set<Difference>& differences_;
    Tally& tally_;
};

std::string sentence(const Difference& difference) {
    const auto& [capture, device, what, ours, theirs] = difference;
    return fmt::format("{} {}: {} is '{}', theirs '{}'", capture, device, what, ours, theirs);
}

/// An entry speaks of one device or of several.
std::set<Difference> listed_differences() {
    std::set<Difference> listed;
    const Json file = Json::parse(
        read_file(fs::path(AUTOLAUNCH_SOURCE_DIR) / "tests/data/topology_disagreements.json"));
    for (const Json& entry : file) {
        CHECK_MESSAGE(!text_of(entry["why"]).empty(), entry.dump());
        CHECK_MESSAGE(
            (entry["right"] == "ours" || entry["right"] == "theirs" || entry["right"] == "both"),
            entry.dump());
        for (const Json& device : entry["devices"])
            listed.insert(
                {entry["capture"], device, entry["what"], entry["ours"], entry["theirs"]});
    }
    return listed;
}

}  // namespace

TEST_CASE("the comparison finds each kind of difference") {
    const std::string name = "nccl.xml";
    const NodeTopology topology =
        read_capture(fs::path(AUTOLAUNCH_SOURCE_DIR) / "tests/data/topology" / name);
    const Json right = Json::parse(R"({
        "gpus": [
            {"gpu": "GPU0", "pci": "0000:0a:00.0", "numa": "0", "cpus": "0-3,8-11", "nic": ["mlx5_0", "mlx5_1"], "path": "PHB"},
            {"gpu": "GPU1", "pci": "0000:2f:00.0", "numa": "0", "cpus": "0-3,8-11", "nic": ["mlx5_0"], "path": "PIX"},
            {"gpu": "GPU2", "pci": "0000:c2:00.0", "numa": "1", "cpus": "4-7,12-15", "nic": ["mlx5_0", "mlx5_1"], "path": "SYS"}],
        "nics": [{"nic": ["mlx5_0"], "pci": "0000:2e:00.0", "numa": "0", "speed": ["400000"]}]})");
    const auto differences = [&](const Json& fact) {
        std::set<Difference> found;
        Tally tally;
        Comparison(name, topology, found, tally).compare(fact);
        return found.size();
    };
    CHECK(differences(right) == 0);
    for (const char* pointer :
         {"/gpus/0/numa", "/gpus/1/cpus", "/gpus/1/nic/0", "/gpus/2/path", "/nics/0/nic/0",
          "/nics/0/pci", "/nics/0/numa", "/nics/0/speed/0"}) {
        INFO(pointer);
        Json wrong = right;
        wrong[Json::json_pointer(pointer)] = "7";
        CHECK(differences(wrong) == 1);
    }
    Json fewer = right;
    fewer["gpus"].erase(2);
    CHECK(differences(fewer) == 1);
}

TEST_CASE(
    "saved topologies: what we read is what a second implementation read, or the difference is "
    "explained") {
    const auto folder = testing::captures_folder("captures of real machines");
    if (!folder)
        return;
    const Json facts = Json::parse(read_file(*folder / "facts.json"));
    std::set<Difference> found;
    Tally tally;
    for (const auto& item : facts.items()) {
        INFO(item.key());
        const NodeTopology topology = read_capture(*folder / item.key());
        Comparison(item.key(), topology, found, tally).compare(item.value());
    }
    const std::set<Difference> listed = listed_differences();
    for (const Difference& difference : found)
        CHECK_MESSAGE(listed.contains(difference), "not listed: " << sentence(difference));
    for (const Difference& difference : listed)
        CHECK_MESSAGE(found.contains(difference), "listed, but no more: " << sentence(difference));
    std::printf(
        "compared %d captures: %d GPUs, %d GPU-NIC paths, %d NICs, %d speeds; %zu differences, all "
        "listed: %s\n",
        tally.captures, tally.gpus, tally.paths, tally.nics, tally.speeds, found.size(),
        found == listed ? "yes" : "no");
    CHECK(tally.captures >= 43);
    CHECK(tally.gpus >= 200);
    CHECK(tally.paths >= 150);
    CHECK(tally.speeds >= 50);
}

TEST_CASE("saved topologies: what hwloc's files tell beyond locality") {
    const auto folder = testing::captures_folder("details of hwloc's files");
    if (!folder)
        return;
    const NodeTopology corona = read_capture(*folder / "hwloc-xml/flux-core-corona.xml");
    REQUIRE(corona.gpus.size() == 8);
    CHECK(corona.gpus[0].memory_bytes == 33538048ULL * 1024);
    CHECK(corona.gpus[0].uuid.starts_with("GPU-"));
    REQUIRE(corona.hcas.size() == 1);
    CHECK(corona.hcas[0].pci_id == "15b3:101b");
    CHECK(corona.hcas[0].pci_path == std::vector<std::string>{"pci0000:c0", "0000:c0:03.1"});
    REQUIRE(corona.hcas[0].ports.size() == 1);
    CHECK(corona.hcas[0].ports[0].link_layer == "InfiniBand");
    CHECK(corona.hcas[0].ports[0].netdev == "hsi0");
    CHECK(corona.hcas[0].ports[0].lid == 0x5d);
    CHECK(corona.hcas[0].ports[0].gids.size() == 1);
    CHECK_FALSE(corona.l3_bytes.empty());

    const NodeTopology cpx = read_capture(*folder / "hwloc-xml/flux-core-tuo.CPX.xml");
    REQUIRE(cpx.gpus.size() == 24);
    for (const Gpu& gpu : cpx.gpus)
        CHECK(gpu.partition_of == gpu.bdf);
    CHECK(path_between(cpx, cpx.gpus[0], cpx.gpus[23]) == PathClass::nvlink);
    CHECK(path_between(cpx, cpx.gpus[0], cpx.gpus[1]) == PathClass::pix);

    const NodeTopology dgx2 = read_capture(*folder / "hwloc-xml/hwloc-nvidiaDGX2.xml");
    REQUIRE(dgx2.gpus.size() == 16);
    for (const Gpu& gpu : dgx2.gpus)
        if (gpu.index > 0)
            CHECK(path_between(dgx2, dgx2.gpus[0], gpu) == PathClass::nvlink);

    const NodeTopology without_devices =
        read_capture(*folder / "hwloc-xml/uliege-nvidia-gh-200.xml");
    CHECK(without_devices.gpus.empty());
    REQUIRE(without_devices.notes.size() == 1);
    CHECK(without_devices.notes[0].starts_with("the file has no PCI devices"));
}

}  // namespace capture_matrix_test
