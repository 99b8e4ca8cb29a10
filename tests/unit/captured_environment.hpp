#pragma once
// Environments that real tasks saw: tests/data/allocation/NAME.env, "NAME=value" lines after a
// comment that says what was started.

#include "allocation/allocation.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <string>

namespace autolaunch::launcher::testing {

inline EnvironmentMap captured(const std::string& name) {
    EnvironmentMap environment;
    for (const auto& line :
         split(read_file(AUTOLAUNCH_SOURCE_DIR "/tests/data/allocation/" + name + ".env"), '\n')) {
        const auto equals = line.find('=');
        if (!line.starts_with('#') && equals != std::string::npos)
            environment[line.substr(0, equals)] = line.substr(equals + 1);
    }
    return environment;
}

inline EnvironmentMap with(EnvironmentMap environment, const EnvironmentMap& changes) {
    for (const auto& [name, value] : changes)
        environment[name] = value;
    return environment;
}

inline EnvironmentMap without(EnvironmentMap environment, const std::vector<std::string>& names) {
    for (const auto& name : names)
        environment.erase(name);
    return environment;
}

/// "what (hint)" of the error, or "no error".
template <typename Call>
std::string error_of(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return std::string(error.what()) + (error.hint().empty() ? "" : " (" + error.hint() + ")");
    }
    return "no error";
}

}  // namespace autolaunch::launcher::testing
