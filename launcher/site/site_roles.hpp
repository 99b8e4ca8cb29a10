#pragma once
#include "spec/value.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A limit with the place where it was written.
template <class T>
struct SiteLimit {
    T value{};
    std::string text;  ///< as written: "512GB"
    Origin at;
};

/// What one group of the system may do. A limit that is not there does not limit.
struct SiteRole {
    std::string name;  ///< of the group
    Origin at;
    std::optional<SiteLimit<std::vector<std::string>>> permissions;
    std::optional<SiteLimit<std::int64_t>> max_gpus;
    std::optional<SiteLimit<std::int64_t>> max_memory;  ///< bytes, of all nodes together
    std::optional<SiteLimit<std::chrono::seconds>> max_time;
};

/// user_groups (or roles): a list of mappings with a name, or a mapping of names to them. Limits
/// stand in the role or below its resource_limits. Pure.
std::vector<SiteRole> read_site_roles(const Value& value, const std::string& path,
                                      std::vector<SpecError>& errors);

/// "site.yaml:12"
std::string place_of(const Origin& at);

}  // namespace autolaunch::launcher
