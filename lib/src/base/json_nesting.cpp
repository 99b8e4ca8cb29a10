#include "base/json_nesting.hpp"

#include <cstddef>

namespace autolaunch {

bool nests_at_most(std::string_view json, int levels) {
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (quoted && c == '\\')
            ++i;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{') && ++depth > levels)
            return false;
        else if (!quoted && (c == ']' || c == '}'))
            --depth;
    }
    return true;
}

}  // namespace autolaunch
