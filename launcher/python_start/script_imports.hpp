#pragma once
#include "plan/preload_choice.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// The imports that a Python script begins with, in order, up to the first statement that is
/// anything else or imports what `is_local` names (a module beside the script). Only what is
/// certain: one import a line or in parentheses, no semicolons, no continued lines, ASCII. Pure.
std::vector<PreloadedImport> leading_imports(
    std::string_view script, const std::function<bool(const std::string&)>& is_local);

/// "torch" of "from torch.nn import functional"; empty for what is no such statement. Pure.
std::string imported_package(std::string_view statement);

}  // namespace autolaunch::launcher
