#include "allocation/allocation.hpp"

#include "allocation/adapters.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

namespace autolaunch::launcher {

std::optional<std::string> lookup(const EnvironmentMap& environment, std::string_view name) {
    const auto found = environment.find(std::string(name));
    if (found == environment.end()) return std::nullopt;
    return found->second;
}

std::optional<long long> lookup_count(const EnvironmentMap& environment, std::string_view name) {
    const auto value = lookup(environment, name);
    if (!value) return std::nullopt;
    long long number = 0;
    if (!parse_integer(*value, number) || number < 0) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}={} is not a whole number from 0 up", name, *value),
                    "the scheduler sets it; unset it if it is left over from another job");
    }
    return number;
}

Allocation read_allocation(const EnvironmentMap& environment, const std::string& hostname) {
    if (auto allocation = read_slurm_allocation(environment, hostname)) return *allocation;
    return read_local_allocation(environment, hostname);
}

}  // namespace autolaunch::launcher
