#include "base/environment.hpp"

#include <unistd.h>

#include <string_view>

namespace autolaunch {

Environment environment_of_process() {
    Environment environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::size_t equals = text.find('=', 1);
        if (equals != std::string_view::npos)
            environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return environment;
}

std::string value_of(const Environment& environment, const char* name) {
    const auto found = environment.find(name);
    return found != environment.end() ? found->second : std::string();
}

}  // namespace autolaunch
