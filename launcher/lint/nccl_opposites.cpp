#include "lint/nccl_opposites.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostSettings = 200;  // that are compared with one another

using Setting = EnvironmentSetting;

bool turns_on(const Setting& setting) { return !setting.value.empty() && setting.value != "0"; }

/// While `name` has `value` ("on": anything but 0; "off": 0), the others say nothing.
struct Opposite {
    std::string_view name, value;
    std::string_view without_effect;  ///< names, between blanks; NAME_* for all that begin so
};
constexpr std::array<Opposite, 9> kOpposites = {{
    {"NCCL_IB_DISABLE", "on", "NCCL_IB_*"},  // GPUDirect's settings also go to other networks
    {"NCCL_NET", "Socket", "NCCL_IB_* NCCL_NET_GDR_* NCCL_DMABUF_ENABLE"},
    {"NCCL_P2P_DISABLE", "on", "NCCL_P2P_LEVEL NCCL_P2P_DIRECT_DISABLE NCCL_P2P_READ_ENABLE"},
    {"NCCL_SHM_DISABLE", "on", "NCCL_SHM_LOCALITY NCCL_SHM_USE_CUDA_MEMCPY NCCL_SHM_MEMCPY_MODE"},
    {"NCCL_NVLS_ENABLE", "off", "NCCL_NVLS_NCHANNELS NCCL_NVLS_CHUNKSIZE"},
    {"NCCL_PXN_DISABLE", "on", "NCCL_P2P_PXN_LEVEL NCCL_PXN_C2C"},
    {"NCCL_COLLNET_ENABLE", "off", "NCCL_COLLNET_NODE_THRESHOLD"},
    {"NCCL_RAS_ENABLE", "off", "NCCL_RAS_ADDR NCCL_RAS_TIMEOUT_FACTOR"},
    {"TORCH_NCCL_BLOCKING_WAIT", "on", "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
}};

bool holds(const Opposite& opposite, const Setting& setting) {
    if (setting.name != opposite.name)
        return false;
    if (opposite.value == "on")
        return turns_on(setting);
    return opposite.value == "off" ? setting.value == "0"
                                   : equals_ignoring_case(setting.value, opposite.value);
}

bool is_named(const Opposite& opposite, const std::string& name) {
    const auto names = split(opposite.without_effect, ' ');
    return name != opposite.name &&
           std::any_of(names.begin(), names.end(), [&](const std::string& one) {
               return one == name ||
                      (one.ends_with('*') && name.starts_with(one.substr(0, one.size() - 1)));
           });
}

/// Turned off beside what turns it off is no contradiction.
bool asks_for_something(const Setting& setting) {
    const bool disables = setting.name.find("DISABLE") != std::string::npos;
    const bool enables = setting.name.ends_with("_ENABLE") || setting.name.ends_with("_HANDLING");
    return !setting.value.empty() && !(disables && turns_on(setting)) &&
           !(enables && setting.value == "0");
}

/// Whether both hold for one program, without doubt.
bool meet(const Setting& a, const Setting& b) {
    return (a.everywhere && b.everywhere) || a.line == b.line;
}

Edits without(const Subject& subject, const Setting& setting) {
    return remove_assignment(subject.source, setting.line, setting.name);
}

void compare_pair(const Subject& subject, const Setting& off, const Setting& other,
                  RuleHits& hits) {
    if (!meet(off, other))
        return;
    for (const auto& opposite : kOpposites)
        if (holds(opposite, off) && is_named(opposite, other.name) && asks_for_something(other))
            hits.push_back({other.line,
                            fmt::format("{}={} has no effect beside {}={} (line {})", other.name,
                                        other.value, off.name, off.value, off.line),
                            fmt::format("remove {}, or what turns it off", other.name),
                            without(subject, other)});
    if (off.name == "NCCL_IB_DISABLE" && turns_on(off) && other.name == "NCCL_NET" &&
        equals_ignoring_case(other.value, "IB"))
        hits.push_back({other.line,
                        fmt::format("NCCL_NET={}, and NCCL_IB_DISABLE={} (line {}) turns that off: "
                                    "NCCL finds no network and stops",
                                    other.value, off.value, off.line),
                        "remove one of them", without(subject, other)});
}

/// NCCL_MIN_X above NCCL_MAX_X.
void compare_bounds(const Subject& subject, const Setting& least, const Setting& most,
                    RuleHits& hits) {
    if (!least.name.starts_with("NCCL_MIN_") || !most.name.starts_with("NCCL_MAX_") ||
        least.name.substr(9) != most.name.substr(9) || !meet(least, most))
        return;
    const auto low = whole_number(least.value), high = whole_number(most.value);
    if (low && high && *low > *high)
        hits.push_back({least.line,
                        fmt::format("{}={} is above {}={} (line {})", least.name, *low, most.name,
                                    *high, most.line),
                        "remove both", together(without(subject, least), without(subject, most))});
}

/// One name with two values, and nothing started in between.
void compare_with_earlier(const Subject& subject, const std::vector<const Setting*>& settings,
                          RuleHits& hits) {
    std::map<std::string, const Setting*> earlier;
    for (const Setting* setting : settings) {
        if (!setting->everywhere || !setting->literal)
            continue;
        const auto [before, fresh] = earlier.try_emplace(setting->name, setting);
        const Setting* other = std::exchange(before->second, setting);
        if (fresh || other->value == setting->value)
            continue;
        const bool used = std::any_of(
            subject.launches.begin(), subject.launches.end(), [&](const Launch& launch) {
                return launch.line >= other->line && launch.line <= setting->line;
            });
        if (!used)
            hits.push_back(
                {setting->line,
                 fmt::format("{}={}, and {} in line {}: the last one counts", setting->name,
                             setting->value, other->value, other->line),
                 fmt::format("remove one of them: that of line {} has no effect", other->line),
                 without(subject, *other)});
    }
}

}  // namespace

RuleHits nccl_opposites(const Subject& subject) {
    RuleHits hits;
    std::vector<const Setting*> settings;
    for (const auto& setting : subject.environment)
        if (setting.exported && settings.size() < kMostSettings &&
            (setting.name.starts_with("NCCL_") || setting.name.starts_with("TORCH_NCCL_")))
            settings.push_back(&setting);
    for (const Setting* one : settings)
        for (const Setting* other : settings) {
            compare_pair(subject, *one, *other, hits);
            compare_bounds(subject, *one, *other, hits);
        }
    if (!subject.excerpt)  // a document may list what one can write
        compare_with_earlier(subject, settings, hits);
    return hits;
}

}  // namespace autolaunch::launcher
