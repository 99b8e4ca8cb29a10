#include "cli/hidden_arguments.hpp"

#include "secrets/secrets.hpp"

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace autolaunch::launcher {

void hide_arguments(int argc, char** argv) {
    const std::vector<std::string> given(argv, argv + argc);
    const std::vector<std::string> safe = mask_arguments(given);
    for (std::size_t at = 0; at < given.size(); ++at) {
        if (safe[at] == given[at])
            continue;
        std::string shown = safe[at];
        shown.resize(given[at].size(), '*');
        std::memcpy(argv[at], shown.data(), shown.size());
    }
}

}  // namespace autolaunch::launcher
