#pragma once
#include "allocation/hostlist.hpp"
#include "allocation/slurm_time.hpp"
#include "policy/policy_diff.hpp"
#include "quota/quota_use.hpp"
#include "require.hpp"
#include "site/site_facts.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// Hosts that are written as a list that reads the same. Of few alone, so that a run is of many.
inline std::size_t check_hostlist(std::string_view bytes) {
    constexpr std::size_t kMost = 512;
    try {
        const auto names = expand_hostlist(bytes, kMost);
        fuzz::require(names.size() <= kMost &&
                      expand_hostlist(compress_hostlist(names), kMost) == names);
        return names.size();
    } catch (const Error&) {
        return 0;
    }
}

/// Quotas are numbers of which a share can be told.
inline std::size_t check_quotas(std::string_view bytes) {
    const auto uses = parse_quotas(bytes);
    for (const QuotaUse& use : uses)
        fuzz::require(quota_words(use).size() < 200);
    return uses.size();
}

/// What Slurm's commands, quota and lfs print, as anything: it is read, or refused by an Error. How much was.
inline std::size_t check_slurm_bytes(std::string_view bytes) {
    std::size_t found = parse_slurm_config(bytes).size() + parse_qos(bytes).size() +
                        parse_associations(bytes).size();
    found += parse_slurm_time(bytes) ? 1 : 0;
    found += check_hostlist(bytes) + check_quotas(bytes);
    try {
        found += expand_counts(bytes).size();
    } catch (const Error&) {
    }
    return found;
}

}  // namespace autolaunch::launcher
