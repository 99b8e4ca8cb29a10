#include "doctor/comparison.hpp"

#include "doctor/check.hpp"

#include "allocation/hostlist.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

namespace autolaunch::launcher {

namespace {

using enum Severity;

constexpr std::array kFacts = {
    ComparedFact{"gpu.count", "GPU count", "gpus", fail},
    ComparedFact{"gpu.models", "GPU model", "gpus", fail},
    ComparedFact{"gpu.driver", "driver", "gpus", fail},
    ComparedFact{"gpu.clique", "NVLink clique", "fabric", warn},
    ComparedFact{"nccl", "NCCL", "nccl", fail},
    ComparedFact{"hca.count", "active HCAs", "ports", fail},
    ComparedFact{"hca.order", "HCA order", "ports", fail},
    ComparedFact{"hca.rates", "HCA rates", "rates", fail},
    ComparedFact{"hca.mtu", "MTU", "mtu", warn},
    ComparedFact{"hca.pcie", "PCIe links of HCAs", "nic_pcie", warn},
    ComparedFact{"gid.family", "GID family", "gid", fail},
    ComparedFact{"gpudirect", "GPUDirect RDMA by", "gpudirect", warn},
    ComparedFact{"memlock", "", "memlock", warn},
    ComparedFact{"nofile", "open files", "nofile", warn},
    ComparedFact{"shm", "/dev/shm", "shm", warn},
    ComparedFact{"numa_balancing", "NUMA balancing", "numa_balancing", warn},
    ComparedFact{"iommu", "IOMMU", "iommu", warn},
    ComparedFact{"governor", "governor", "governor", hint},
    ComparedFact{"names", "peers' addresses:", "names", warn},
    ComparedFact{"storage.checkpoints", "checkpoint folder on", "storage", warn},
    ComparedFact{"storage.run directory", "run directory on", "storage", warn},
    ComparedFact{"storage.scratch", "scratch folder on", "storage", hint},
    ComparedFact{"kernel", "kernel", "machine", warn},
    ComparedFact{"shape", "machine with", "machine", warn},
    ComparedFact{"memory", "memory", "machine", warn},
    ComparedFact{"hugepages", "huge pages:", "machine", hint},
};

constexpr auto kMostSkew = std::chrono::milliseconds(100);
constexpr std::size_t kMostNodeText = 60;

using Nodes = std::vector<std::string>;

std::string fix_of(std::string_view check) {
    const Check* found = find_check(check);
    return found == nullptr ? "" : std::string(found->fix);
}

std::string others_have(std::size_t count, const std::string& value) {
    return count == 1 ? fmt::format("the other has {}", value)
                      : fmt::format("{} others have {}", count, value);
}

void compare(const ComparedFact& fact, std::span<const NodeReport> reports,
             std::vector<NodesFinding>& findings) {
    std::map<std::string, Nodes> by_value;
    for (const NodeReport& report : reports)
        if (const auto found = report.facts.find(std::string(fact.key));
            found != report.facts.end())
            by_value[found->second].push_back(report.node);
    if (by_value.size() < 2)
        return;
    const auto most = std::max_element(
        by_value.begin(), by_value.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const auto as_many = std::count_if(by_value.begin(), by_value.end(), [&](const auto& entry) {
        return entry.second.size() == most->second.size();
    });
    for (const auto& [value, nodes] : by_value) {
        std::string what = fact.label.empty() ? value : fmt::format("{} {}", fact.label, value);
        if (as_many == 1) {
            if (value == most->first)
                continue;
            what += " where " + others_have(most->second.size(), most->first);
        } else {
            what += ", and the nodes disagree";
        }
        findings.push_back(
            {nodes, {std::string(fact.check), fact.severity, what, fix_of(fact.check)}});
    }
}

}  // namespace

std::span<const ComparedFact> compared_facts() { return kFacts; }

std::vector<NodesFinding> compare_nodes(std::span<const NodeReport> reports) {
    std::vector<NodesFinding> findings;
    if (reports.size() > 1)
        for (const ComparedFact& fact : kFacts)
            compare(fact, reports, findings);
    return findings;
}

// The head's own clock may be the wrong one: then all others are off by the same.
std::vector<NodesFinding> compare_clocks(std::span<const NodeReport> reports,
                                         std::span<const std::optional<ClockReading>> clocks) {
    std::vector<NodesFinding> findings;
    for (std::size_t node = 0; node < reports.size() && node < clocks.size(); ++node) {
        if (!clocks[node])
            continue;
        const auto off = std::chrono::abs(clocks[node]->offset);
        if (off - clocks[node]->uncertainty <= kMostSkew)
            continue;
        const double seconds = std::chrono::duration<double>(off).count();
        findings.push_back(
            {{reports[node].node},
             {"clock", warn,
              fmt::format("its clock is {:.{}f} s {} of the head's", seconds, seconds < 10 ? 1 : 0,
                          clocks[node]->offset.count() > 0 ? "ahead" : "behind"),
              fix_of("clock")}});
    }
    return findings;
}

std::vector<NodesFinding> gather_findings(std::span<const NodeReport> reports) {
    using Key = std::tuple<std::string, Severity, std::string, std::string>;
    std::map<Key, std::size_t> place;
    std::vector<NodesFinding> gathered;
    for (const NodeReport& report : reports)
        for (const Finding& finding : report.findings) {
            const auto [entry, is_new] = place.emplace(
                Key(finding.check, finding.severity, finding.what, finding.fix), gathered.size());
            if (is_new)
                gathered.push_back({{}, finding});
            Nodes& nodes = gathered[entry->second].nodes;
            if (nodes.empty() || nodes.back() != report.node)
                nodes.push_back(report.node);
        }
    return gathered;
}

void sort_worst_first(std::vector<NodesFinding>& findings) {
    std::stable_sort(findings.begin(), findings.end(),
                     [](const NodesFinding& a, const NodesFinding& b) {
                         return a.finding.severity > b.finding.severity;
                     });
}

std::string name_nodes(std::span<const std::string> nodes) {
    if (nodes.empty())
        return {};
    std::string text;
    try {
        text = compress_hostlist(nodes);
    } catch (const Error&) {
        text = nodes.front();  // a name that no list can hold
        if (nodes.size() > 1)
            return fmt::format("{} and {} others", text, nodes.size() - 1);
    }
    if (text.size() <= kMostNodeText)
        return text;
    return fmt::format("{} and {} others", nodes.front(), nodes.size() - 1);
}

}  // namespace autolaunch::launcher
