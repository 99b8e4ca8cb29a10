#pragma once
#include <map>
#include <string>

namespace autolaunch::launcher {

/// torchrun's --log-line-prefix-template: $name and ${name} of `values`, and $$ for a dollar; what
/// else there is stays as it is. Pure.
std::string expand_prefix(const std::string& text,
                          const std::map<std::string, std::string>& values);

}  // namespace autolaunch::launcher
