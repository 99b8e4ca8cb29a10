#include "nccl_env/kinds_of_hcas.hpp"

#include "base/text.hpp"
#include "topology/path_class.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace autolaunch::launcher {
namespace {

using Hcas = std::vector<const Hca*>;

double rate_of(const Hca& hca) {
    double rate = 0;
    for (const Hca::Port& port : hca.ports)
        rate = std::max(rate, port.active ? port.rate_gbps : 0);
    return rate;
}

// What tells cards apart: another product, another speed. Unknown: no word.
std::string kind_of(const Hca& hca) {
    std::vector<std::string> words;
    if (!hca.pci_id.empty())
        words.push_back(hca.pci_id);
    if (const double rate = rate_of(hca); rate > 0)
        words.push_back(fmt::format("{:g} Gb/s", rate));
    return join(words, ", ");
}

std::string path_kind_of(const Paths& paths, const Hca& hca) {
    const PathClass best = paths.nearest_gpu(hca);
    return best == PathClass::unknown ? "" : std::string(path_class_name(best));
}

// Functions of one card are one.
std::size_t count_cards(const Hcas& hcas) {
    std::set<std::string> cards;
    for (const Hca* hca : hcas)
        cards.insert(hca->bdf.empty() ? hca->name : hca->bdf.substr(0, hca->bdf.rfind('.')));
    return cards.size();
}

std::string names_of(const Hcas& hcas) {
    std::vector<std::string> names;
    for (const Hca* hca : hcas)
        names.push_back(hca->name);
    return join(names, ",");
}

bool fits_gpus(const Hcas& hcas, std::size_t gpus) {
    const std::size_t cards = count_cards(hcas);
    return cards > 0 && (cards % gpus == 0 || gpus % cards == 0);
}

struct Split {
    Hcas most, others;
    std::string what;  ///< of the others
};

// The commonest kind and the rest; nothing where there is one kind, none is commonest, or one is
// not told.
Split split_by(const std::map<std::string, Hcas>& kinds) {
    Split split;
    if (kinds.size() < 2 || kinds.contains(""))
        return split;
    const auto most = std::max_element(
        kinds.begin(), kinds.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    std::vector<std::string> whats;
    for (const auto& [kind, hcas] : kinds) {
        if (kind == most->first)
            continue;
        if (hcas.size() >= most->second.size())
            return {};
        split.others.insert(split.others.end(), hcas.begin(), hcas.end());
        whats.push_back(kind);
    }
    split.most = most->second;
    split.what =
        fmt::format("{}; the other {}: {}", join(whats, " and "), most->second.size(), most->first);
    return split;
}

}  // namespace

std::string ask_about_odd_hcas(const NodeTopology& topology, const Hcas& hcas) {
    const std::size_t gpus = topology.gpus.size();
    if (gpus == 0 || hcas.size() < 3)
        return {};
    const Paths paths(topology);
    std::map<std::string, Hcas> by_kind, by_path;
    for (const Hca* hca : hcas) {
        by_kind[kind_of(*hca)].push_back(hca);
        by_path[path_kind_of(paths, *hca)].push_back(hca);
    }
    Split split = split_by(by_kind);
    if (split.others.empty() && !fits_gpus(hcas, gpus)) {
        split = split_by(by_path);
        if (!fits_gpus(split.most, gpus))
            split = {};
    }
    if (!split.others.empty())
        return fmt::format(
            "{} ({}): if they serve storage or management, set NCCL_IB_HCA=={}, else "
            "NCCL_IB_HCA=={}",
            names_of(split.others), split.what, names_of(split.most), names_of(hcas));
    if (count_cards(hcas) > gpus && !fits_gpus(hcas, gpus))
        return fmt::format(
            "{} HCAs for {} GPUs, and nothing tells whether some serve storage or management ({}): "
            "if so, name the others in NCCL_IB_HCA, with a leading =",
            hcas.size(), gpus, names_of(hcas));
    return {};
}

}  // namespace autolaunch::launcher
