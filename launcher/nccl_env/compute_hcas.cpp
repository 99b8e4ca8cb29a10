#include "nccl_env/compute_hcas.hpp"

#include "base/text.hpp"
#include "nccl_env/kinds_of_hcas.hpp"
#include "topology/path_class.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

namespace autolaunch::launcher {
namespace {

// BlueField-2 and -3 with the network chip of a ConnectX: a DPU for storage and management, if
// anything else is there.
constexpr const char* kBlueField[] = {"15b3:a2d6", "15b3:a2dc"};

struct PortView {
    const Hca* hca;
    const Hca::Port* port;
    std::string why_not = {};    // empty: it stays
    bool nccl_skips_it = false;  // without our help
};
using PortViews = std::vector<PortView>;

bool stays(const PortView& view) { return view.why_not.empty(); }

std::vector<PortView*> staying(PortViews& ports) {
    std::vector<PortView*> list;
    for (PortView& view : ports)
        if (stays(view))
            list.push_back(&view);
    return list;
}

// Whoever reads GIDs or any interface of a port has read the interfaces of all.
bool knows_interfaces(const NodeTopology& topology) {
    for (const Hca& hca : topology.hcas)
        for (const Hca::Port& port : hca.ports)
            if (!port.netdev.empty() || !port.gids.empty())
                return true;
    return false;
}

void check_usable(PortView& view, bool interfaces_known) {
    const auto refuse = [&](std::string why, bool nccl_skips_it) {
        view.why_not = std::move(why);
        view.nccl_skips_it = nccl_skips_it;
    };
    const std::string& link = view.port->link_layer;
    if (!view.hca->can_open)
        return refuse("its device file may not be opened", true);
    if (!view.port->active)
        return refuse("its port is not active", true);
    if (link == kSlingshot)
        return refuse("NCCL reaches Slingshot through its OFI plugin alone", true);
    if (!link.empty() && link != "InfiniBand" && link != "Ethernet")
        return refuse(fmt::format("NCCL's own transport does not speak its link layer ({})", link),
                      true);
    if (link == "Ethernet" && interfaces_known && view.port->netdev.empty())
        return refuse("its network interface is in another network namespace", false);
}

// True if the PCI tree told which ones are for computing.
bool keep_near_ones(const NodeTopology& topology, PortViews& ports) {
    const Paths machine(topology);
    std::map<const Hca*, PathClass> paths;
    bool any = false;
    for (const PortView* view : staying(ports)) {
        const PathClass path =
            paths.try_emplace(view->hca, machine.nearest_gpu(*view->hca)).first->second;
        any |= path <= PathClass::pxb;
    }
    if (!any)
        return false;
    for (PortView* view : staying(ports)) {
        const PathClass path = paths.at(view->hca);
        if (path > PathClass::pxb)
            view->why_not =
                fmt::format("no GPU is near ({}); others share a PCIe switch with one",
                            path == PathClass::unknown ? "unknown path" : path_class_name(path));
    }
    return true;
}

std::string what_it_is(const NodeTopology& topology, const PortView& view) {
    const std::string& netdev = view.port->netdev;
    if (view.hca->name.find("bond") != std::string::npos || netdev.starts_with("bond"))
        return "a bond, and ";
    for (const NetworkInterface& interface : topology.network_interfaces)
        if (!netdev.empty() && interface.name == netdev && interface.has_default_route)
            return "on the default route, and ";
    return {};
}

void keep_fastest(const NodeTopology& topology, PortViews& ports) {
    double top = 0;
    for (const PortView* view : staying(ports))
        top = std::max(top, view->port->rate_gbps);
    for (PortView* view : staying(ports)) {
        const double rate = view->port->rate_gbps;
        if (rate > 0 && rate < top)
            view->why_not = fmt::format("{}slower than others: {:g} of {:g} Gb/s",
                                        what_it_is(topology, *view), rate, top);
    }
}

// Keeps the commonest of what `property` says; those that are equally common all stay. Nothing is
// dropped where the property of one is unknown.
void keep_commonest(PortViews& ports, const std::function<std::string(const PortView&)>& property,
                    const char* name) {
    std::map<std::string, int> counts;
    for (const PortView* view : staying(ports))
        ++counts[property(*view)];
    if (counts.size() < 2 || counts.contains(""))
        return;
    int most = 0;
    for (const auto& [value, count] : counts)
        most = std::max(most, count);
    for (PortView* view : staying(ports)) {
        const std::string value = property(*view);
        if (counts.at(value) < most)
            view->why_not = fmt::format("its {} ({}) is not that of most", name, value);
    }
}

void drop_blue_field(PortViews& ports) {
    const auto is_dpu = [](const PortView* view) {
        return std::find(std::begin(kBlueField), std::end(kBlueField), view->hca->pci_id) !=
               std::end(kBlueField);
    };
    const auto list = staying(ports);
    if (std::all_of(list.begin(), list.end(), is_dpu))
        return;
    for (PortView* view : list)
        if (is_dpu(view))
            view->why_not = "a BlueField DPU, and there are other HCAs";
}

void tell(const PortViews& ports, const NodeTopology& topology, ComputeHcas& chosen) {
    std::vector<std::string> list;
    bool narrowed = false;
    for (const Hca& hca : topology.hcas) {
        std::vector<const PortView*> of_hca;
        for (const PortView& view : ports)
            if (view.hca == &hca)
                of_hca.push_back(&view);
        const auto stay = std::count_if(of_hca.begin(), of_hca.end(),
                                        [](const auto* view) { return stays(*view); });
        bool whole = true;
        for (const PortView* view : of_hca) {
            if (stays(*view)) {
                chosen.ports.push_back(view->port);
            } else {
                whole &= view->nccl_skips_it;
                if (stay > 0)
                    chosen.excluded.push_back({fmt::format("{}:{}", hca.name, view->port->number),
                                               "", view->why_not, "rule"});
            }
        }
        narrowed |= !whole;
        if (stay == 0) {
            // Of several ports the one that might have worked is told about.
            const auto told = std::find_if(of_hca.begin(), of_hca.end(),
                                           [](auto* view) { return !view->nccl_skips_it; });
            const auto* view =
                told != of_hca.end() ? *told : (of_hca.empty() ? nullptr : of_hca.front());
            chosen.excluded.push_back(
                {hca.name, "", view != nullptr ? view->why_not : "it has no port", "rule"});
            continue;
        }
        chosen.hcas.push_back(&hca);
        if (whole)
            list.push_back(hca.name);
        for (const PortView* view : of_hca)
            if (!whole && stays(*view))
                list.push_back(fmt::format("{}:{}", hca.name, view->port->number));
    }
    if (narrowed && !list.empty())
        chosen.nccl_list = "=" + join(list, ",");
    if (narrowed && list.empty())
        chosen.warnings.push_back(
            "no active HCA has its network interface here, and NCCL may try one nevertheless: "
            "start the container in "
            "the host's network namespace, or set NCCL_IB_DISABLE=1");
}

// A filter by a name that stands for another would leave out all.
void check_names(const NodeTopology& topology, ComputeHcas& chosen) {
    const auto nameless = std::find_if(topology.hcas.begin(), topology.hcas.end(),
                                       [](const Hca& hca) { return !hca.is_named; });
    if (chosen.nccl_list.empty() || nameless == topology.hcas.end())
        return;
    chosen.nccl_list.clear();
    chosen.warnings.push_back(fmt::format(
        "NCCL_IB_HCA is not set, though not all NICs are for computing: {} is not told by what "
        "name NCCL knows it; save the machine with its NICs' names",
        nameless->name));
}

}  // namespace

ComputeHcas choose_compute_hcas(const NodeTopology& topology) {
    PortViews ports;
    const bool interfaces_known = knows_interfaces(topology);
    for (const Hca& hca : topology.hcas)
        for (const Hca::Port& port : hca.ports)
            check_usable(ports.emplace_back(PortView{&hca, &port}), interfaces_known);

    const bool near = keep_near_ones(topology, ports);
    if (!near) {
        keep_fastest(topology, ports);
        keep_commonest(
            ports, [](const PortView& view) { return view.port->link_layer; }, "link layer");
        keep_commonest(
            ports, [](const PortView& view) { return view.hca->pci_id; }, "device");
        drop_blue_field(ports);
    }
    ComputeHcas chosen;
    tell(ports, topology, chosen);
    chosen.reason =
        fmt::format("{} of {} HCAs are for computing: {}", chosen.hcas.size(), topology.hcas.size(),
                    near ? "they share a PCIe switch with a GPU" : "the fastest of one kind");
    if (chosen.ports.size() > kMostNcclPorts)
        chosen.warnings.push_back(fmt::format(
            "{} ports of HCAs are for computing and NCCL takes {}: name the ones it shall use in "
            "NCCL_IB_HCA, with a leading =",
            chosen.ports.size(), kMostNcclPorts));
    if (std::string question = ask_about_odd_hcas(topology, chosen.hcas); !question.empty())
        chosen.warnings.push_back(std::move(question));
    check_names(topology, chosen);
    return chosen;
}

}  // namespace autolaunch::launcher
