#pragma once
#include "allocation/allocation.hpp"

#include <cstdlib>
#include <string>

namespace autolaunch::launcher {

/// NCCL's variables as NCCL reads them.
///
/// A number, by strtoll(…, 0): a word is 0.
inline long long number_of(const std::string& value) {
    return std::strtoll(value.c_str(), nullptr, 0);
}

/// Null where the variable is not set, or empty.
inline const std::string* find_setting(const EnvironmentMap& settings, const char* name) {
    const auto found = settings.find(name);
    return found == settings.end() || found->second.empty() ? nullptr : &found->second;
}

}  // namespace autolaunch::launcher
