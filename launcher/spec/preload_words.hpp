#pragma once
#include "spec/job_spec.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// "torch.nn": names of ASCII between dots. Pure.
bool is_module_name(std::string_view text);
/// "auto" or "off". Pure.
std::optional<PreloadSpec> preload_word(std::string_view text);
/// The same, or modules between commas, as --preload has them. Pure.
std::optional<PreloadSpec> preload_from(const std::string& text);

}  // namespace autolaunch::launcher
