#include "placement_watch/gpu_drift.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {
namespace {

constexpr std::size_t kNamedGpus = 2;

// PCI addresses are told by all; a MIG device shares its GPU's.
bool is_it(const ComputeProcess& seen, const PlannedGpu& planned) {
    if (planned.is_part || planned.bdf.empty() || seen.bdf.empty())
        return !planned.uuid.empty() && planned.uuid == seen.uuid;
    return planned.bdf == seen.bdf;
}

bool same_place(const ComputeProcess& a, const ComputeProcess& b) {
    return a.bdf == b.bdf && (a.uuid == b.uuid || !(a.on_part || b.on_part));
}

std::string address_of(const std::string& bdf, const std::string& uuid, bool is_part) {
    return is_part || bdf.empty() ? uuid : bdf;
}

// By the number that ranks use where the plan gives it to one of them, and always by what it is.
std::string name_of(const ComputeProcess& seen, const std::vector<PlannedGpu>& planned) {
    const std::string address = address_of(seen.bdf, seen.uuid, seen.on_part);
    for (const PlannedGpu& gpu : planned)
        if (is_it(seen, gpu))
            return fmt::format("GPU {} ({})", gpu.ordinal, address);
    return "GPU " + address;
}

std::string describe(const std::vector<const ComputeProcess*>& elsewhere, bool on_own,
                     const PlannedGpu& own, const std::vector<PlannedGpu>& planned) {
    std::vector<std::string> names;
    bool all_numbered = true;
    for (const ComputeProcess* seen : elsewhere) {
        names.push_back(name_of(*seen, planned));
        all_numbered = all_numbered && names.back().ends_with(')');
    }
    std::string text = on_own ? "also computes on " : "computes on ";
    text +=
        join(std::vector<std::string>(
                 names.begin(),
                 names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamedGpus))),
             " and ");
    if (names.size() > kNamedGpus)
        text += fmt::format(" and {} more", names.size() - kNamedGpus);
    text += fmt::format(", planned was GPU {}", own.ordinal);
    if (!all_numbered)
        text += " (" + address_of(own.bdf, own.uuid, own.is_part) + ")";
    return text;
}

}  // namespace

GpuFindings find_gpu_drift(const ComputeProcesses& seen, const std::vector<pid_t>& pids,
                           const std::vector<PlannedGpu>& planned) {
    GpuFindings findings;
    if (!seen.trouble.empty()) {
        findings.cannot_tell = seen.trouble;
        return findings;
    }
    for (std::size_t i = 0; i < pids.size(); ++i) {
        std::vector<const ComputeProcess*> elsewhere;
        bool on_own = false;
        for (const ComputeProcess& process : seen.processes) {
            if (process.rank_pid != pids[i])
                continue;
            const bool known = std::any_of(
                elsewhere.begin(), elsewhere.end(),
                [&](const ComputeProcess* other) { return same_place(*other, process); });
            if (is_it(process, planned[i])) {
                on_own = true;
            } else if (!known) {
                elsewhere.push_back(&process);
            }
        }
        if (!elsewhere.empty()) {
            findings.drifts.push_back({i, describe(elsewhere, on_own, planned[i], planned)});
        } else if (on_own) {
            ++findings.as_planned;
        }
    }
    const auto elsewhere = static_cast<int>(findings.drifts.size());
    if (seen.host_namespace || seen.processes.empty() || findings.as_planned > elsewhere)
        return findings;
    return {{},
            0,
            "the driver tells the host's process numbers, and this is a PID namespace of its own"};
}

}  // namespace autolaunch::launcher
