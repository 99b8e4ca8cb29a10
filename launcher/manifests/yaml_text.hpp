#pragma once
#include "spec/value.hpp"

#include <string>

namespace autolaunch::launcher {

/// `root`, a mapping, as a document of YAML that both 1.1 and 1.2 read as the same tree: what is
/// plain stays plain, other text is quoted where one of them would take it for something else, and
/// text of several lines is a block. It is ASCII. Pure.
std::string yaml_text(const Value& root);

}  // namespace autolaunch::launcher
