#pragma once
#include "secrets/secrets.hpp"
#include "spec/value.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Applies `restart.max_restarts=3` to `root`, creating mappings on the way. The value is YAML. A
/// number in the path picks an item of a list that is there. What cannot be done goes to `errors`,
/// which name the override.
void apply_override(Value& root, const std::string& text, Secrets secrets,
                    std::vector<SpecError>& errors);

/// The same, of a value that was read already: errors name `at`.
void set_path(Value& root, const std::string& path, Value value, const Origin& at,
              std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
