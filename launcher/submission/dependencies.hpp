#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// The jobs that --dependency names, by their numbers: of "afterok:4711_3,singleton" 4711. Nothing:
/// it is none that sbatch knows; `why` says in words what is wrong. Pure.
std::optional<std::vector<std::string>> parse_dependency(std::string_view text, std::string& why);

}  // namespace autolaunch::launcher
