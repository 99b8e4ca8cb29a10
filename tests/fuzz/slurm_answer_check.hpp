#pragma once
#include "allocation/hostlist.hpp"
#include "allocation/slurm_time.hpp"
#include "policy/policy_diff.hpp"
#include "site/site_facts.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What Slurm's commands print, as anything: it is read, or refused by an Error. How much was.
inline std::size_t check_slurm_bytes(std::string_view bytes) {
    std::size_t found = parse_slurm_config(bytes).size() + parse_qos(bytes).size() +
                        parse_associations(bytes).size();
    found += parse_slurm_time(bytes) ? 1 : 0;
    try {
        found += expand_hostlist(bytes).size();
    } catch (const Error&) {
    }
    try {
        found += expand_counts(bytes).size();
    } catch (const Error&) {
    }
    return found;
}

}  // namespace autolaunch::launcher
