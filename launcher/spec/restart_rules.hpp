#pragma once
#include "spec/job_spec.hpp"
#include "spec/spec_error.hpp"
#include "spec/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// "3 per 6h"; nothing for other text. Pure.
std::optional<WindowLimit> window_from(std::string_view text);

/// restart.on: what follows from each cause. What this version cannot do is refused. False when the
/// value is no mapping.
bool read_restart_rules(const Value& value, const std::string& path, RestartRules& rules,
                        std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
