#pragma once
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// Whether DCGM has such a field, or its exporter such a metric of its own. Pure.
bool is_dcgm_field(std::string_view name);
/// The name that may be meant; empty where none is near.
std::string nearest_dcgm_field(std::string_view name);

}  // namespace autolaunch::launcher
