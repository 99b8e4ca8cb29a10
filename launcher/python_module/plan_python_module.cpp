#include "python_module/plan_python_module.hpp"

#include "base/text.hpp"
#include "python_module/python_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPythonPath = "PYTHONPATH";

fs::path module_folder() {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    return (program.parent_path() / kPythonFromProgram).lexically_normal();
}

}  // namespace

std::optional<std::string> python_path(const std::string& users, const std::string& folder) {
    if (folder.find(':') != std::string::npos)
        return std::nullopt;
    const std::vector<std::string> entries = split(users, ':');
    if (std::find(entries.begin(), entries.end(), folder) != entries.end())
        return users;  // of an outer launch
    return users.empty() ? folder : users + ':' + folder;
}

std::string python_module_folder() {
    const fs::path folder = module_folder();
    const bool is_there = ::access((folder / "autolaunch" / "__init__.py").c_str(), R_OK) == 0;
    return is_there ? folder.string() : std::string();
}

void plan_python_module(LaunchPlan& plan, const EnvironmentMap& environment) {
    const std::string folder = python_module_folder();
    if (folder.empty()) {
        plan.warnings.push_back(
            fmt::format("Python ranks cannot `import autolaunch`: {} has no such package",
                        module_folder().string()));
        return;
    }
    const EnvironmentMap found = settings_of_user(plan.spec, environment);
    const auto users = found.find(kPythonPath);
    const auto path = python_path(users == found.end() ? "" : users->second, folder);
    if (!path) {
        plan.warnings.push_back(
            fmt::format("Python ranks cannot `import autolaunch`: {} has a colon, which PYTHONPATH "
                        "cannot hold",
                        folder));
        return;
    }
    for (RankPlan& rank : plan.ranks) {
        std::erase_if(rank.environment,
                      [](const VariableChoice& old) { return old.name == kPythonPath; });
        rank.environment.push_back(
            {kPythonPath, *path, "Python ranks can `import autolaunch`, behind all that is yours"});
    }
}

}  // namespace autolaunch::launcher
