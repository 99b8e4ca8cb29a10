#include "warm_processes/environment_change.hpp"

#include "session/environment.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr const char* kWaysIntoTheJob[] = {
    env::kMasterAddr, env::kMasterPort, env::kSocket, env::kStore,
    env::kStoreToken, env::kErrorFile,  env::kStdout,
};

std::map<std::string, std::string> by_name(const std::vector<std::string>& environment) {
    std::map<std::string, std::string> named;
    for (const std::string& variable : environment)
        if (const std::size_t equals = variable.find('=', 1); equals != std::string::npos)
            named[variable.substr(0, equals)] = variable.substr(equals + 1);
    return named;
}

}  // namespace

EnvironmentChange change_between(const std::vector<std::string>& from,
                                 const std::vector<std::string>& to) {
    const auto before = by_name(from), after = by_name(to);
    EnvironmentChange change;
    for (const auto& [name, value] : after) {
        const auto found = before.find(name);
        if (found == before.end() || found->second != value)
            change.set[name] = value;
    }
    for (const auto& [name, value] : before)
        if (!after.contains(name))
            change.unset.push_back(name);
    return change;
}

std::vector<std::string> environment_of_spare(std::vector<std::string> rank) {
    std::erase_if(rank, [](std::string_view variable) {
        const std::string_view name = variable.substr(0, variable.find('='));
        return std::any_of(std::begin(kWaysIntoTheJob), std::end(kWaysIntoTheJob),
                           [name](const char* way) { return name == way; });
    });
    return rank;
}

}  // namespace autolaunch::launcher
