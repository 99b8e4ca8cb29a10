// What hwloc is not given: it trusts its files, and a number in one can make it take all memory.

#include "base/text.hpp"
#include "topology/capture_parts.hpp"
#include "topology/hwloc_topology.hpp"
#include "topology/printable.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <cstddef>
#include <string_view>

namespace autolaunch::launcher {
namespace {

constexpr long long kMostVersion = HWLOC_API_VERSION >> 16;
constexpr long long kMostNumaNodes = 65536, kMostMatrix = 4096;
constexpr std::size_t kMostObjects = 65536, kMostPciDevices = 8192;
constexpr std::size_t kLongestSet = kMostNumaNodes / 32 * 11;  // "0x00000000," for 32 of them

class Bounds {
public:
    explicit Bounds(const std::string& file) : file_(file) {}

    void look_at(const XmlElement& element) {
        const std::string* type = element.find("type");
        if (element.name == "object" && type != nullptr)
            count(element, *type);
        for (const auto& [name, value] : element.attributes)
            if (name.ends_with("cpuset") || name.ends_with("nodeset"))
                check_set(element, name, value);
        check_number(element, "nbobjs", kMostMatrix);
        // hwloc takes what it does not understand for 0000:00:00.0.
        const std::string* address = element.find("pci_busid");
        if (address != nullptr && !is_pci_address(sysfs_bdf(*address)))
            refuse(element,
                   fmt::format("pci_busid '{:.40}' is no PCI address", printable(*address)));
        for (const XmlElement& child : element.children)
            look_at(child);
    }

private:
    [[noreturn]] void refuse(const XmlElement& at, const std::string& what) const {
        refuse_capture(file_, at.line, what, "save it again: lstopo --whole-system file.xml");
    }
    void check_most(const XmlElement& at, std::size_t seen, std::size_t most, const char* what) {
        if (seen > most)
            refuse(at, fmt::format("it has more than {} {}", most, what));
    }
    // hwloc keeps a set as an array up to its highest member.
    void check_set(const XmlElement& at, const std::string& name, const std::string& value) {
        if (value.size() > kLongestSet)
            refuse(at, fmt::format("{} has more than {} members", name, kMostNumaNodes));
    }
    void check_number(const XmlElement& at, const char* name, long long most) {
        const std::string* text = at.find(name);
        long long number = 0;
        if (text != nullptr && (!parse_integer(*text, number) || number < -1 || number > most))
            refuse(at, fmt::format("{} is '{}', expected a number up to {}", name, printable(*text),
                                   most));
    }
    void count(const XmlElement& at, const std::string& type) {
        check_most(at, ++objects_, kMostObjects, "objects");
        if (type == "PU")
            check_number(at, "os_index", kMostCpus - 1);
        if (type == "NUMANode")
            check_number(at, "os_index", kMostNumaNodes - 1);
        if (type == "PCIDev")
            check_most(at, ++devices_, kMostPciDevices, "PCI devices");
        const std::string* pci = at.find("pci_type");
        const bool is_gpu = pci != nullptr && (pci->starts_with("03") || pci->starts_with("12")) &&
                            (pci->find("[10de") != pci->npos || pci->find("[1002") != pci->npos);
        if (type == "PCIDev" && is_gpu)
            check_most(at, ++gpus_, kMostGpus, "GPUs");
        const std::string* os = at.find("osdev_type");
        if (type == "OSDev" && os != nullptr && *os == "3")
            check_most(at, ++hcas_, kMostHcas, "HCAs");
    }

    const std::string& file_;
    std::size_t objects_ = 0, devices_ = 0, gpus_ = 0, hcas_ = 0;
};

}  // namespace

void check_hwloc_bounds(const XmlElement& root, const std::string& file) {
    const std::string* version = root.find("version");
    long long major = 0;
    if (version != nullptr && parse_integer(version->substr(0, version->find('.')), major) &&
        major > kMostVersion)
        refuse_capture(file, root.line,
                       fmt::format("it is of hwloc {}, and versions up to {} are read",
                                   printable(*version), kMostVersion),
                       "save it there in the older form: lstopo --whole-system "
                       "--export-xml-flags v2 file.xml");
    Bounds(file).look_at(root);
}

}  // namespace autolaunch::launcher
