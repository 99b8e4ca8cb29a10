#include "topology/printable.hpp"

#include <fmt/format.h>

namespace autolaunch::launcher {
namespace {

constexpr std::size_t kLongest = 512;

void clean(std::string& text) {
    const bool is_fine = text.size() <= kLongest && printable(text) == text;
    if (!is_fine)
        text = printable(text);
}

template <class Texts>
void clean_all(Texts& texts) {
    for (std::string& text : texts)
        clean(text);
}

void clean(Gpu& gpu) {
    for (std::string* text :
         {&gpu.bdf, &gpu.uuid, &gpu.model, &gpu.vendor, &gpu.partition_of, &gpu.numa_source})
        clean(*text);
    clean_all(gpu.pci_path);
}

void clean(Hca& hca) {
    for (std::string* text : {&hca.name, &hca.bdf, &hca.pci_id})
        clean(*text);
    clean_all(hca.pci_path);
    for (Hca::Port& port : hca.ports) {
        clean(port.link_layer);
        clean(port.netdev);
        for (Gid& gid : port.gids)
            clean(gid.netdev);
    }
}

void clean(NetworkInterface& interface) {
    clean(interface.name);
    clean(interface.bdf);
    clean_all(interface.addresses);
}

}  // namespace

std::string printable(std::string_view text) {
    std::string shown;
    for (const char c : text.substr(0, kLongest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f)
            shown += fmt::format("\\x{:02x}", byte);
        else
            shown += c;
    }
    return text.size() > kLongest ? shown + "..." : shown;
}

void make_printable(NodeTopology& topology) {
    for (std::string* text : {&topology.hostname, &topology.cpu_model, &topology.source})
        clean(*text);
    for (Gpu& gpu : topology.gpus)
        clean(gpu);
    for (Hca& hca : topology.hcas)
        clean(hca);
    for (NetworkInterface& interface : topology.network_interfaces)
        clean(interface);
    for (OtherNumaNode& node : topology.other_numa_nodes)
        clean(node.why);
    for (ToldPath& path : topology.told_paths) {
        clean(path.from);
        clean(path.to);
    }
    for (auto& [key, value] : topology.identity)
        clean(value);
    // Notes name devices: they may be longer, and still are one line each.
    for (std::string& note : topology.notes)
        for (std::size_t at = 0; (at = note.find_first_of("\n\r", at)) != note.npos; ++at)
            note[at] = ' ';
}

}  // namespace autolaunch::launcher
