#pragma once
#include <autolaunch/export.hpp>

#include <string_view>

namespace autolaunch {

/// Whether brackets of JSON text are nested at most `levels` deep. Parsing deep nesting is safe,
/// but copying and printing what came of it recurses, and a file of 1 MB can be 500,000 deep: ask
/// this first of all JSON from outside. What is no JSON gets some answer.
AUTOLAUNCH_API bool nests_at_most(std::string_view json, int levels);

}  // namespace autolaunch
