#pragma once
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// An option as the splitter needs to know it.
struct OptionShape {
    std::string long_name;  ///< "--nproc-per-node"
    bool takes_value = false;
};
/// By every name it has: long ones with dashes, short ones such as "-r".
using OptionShapes = std::map<std::string, OptionShape>;

struct SplitArguments {
    std::vector<std::string> options;    ///< "--name=value" or "--name", dashes, long names
    std::vector<std::string> overrides;  ///< KEY=VALUE, only after --config
    std::vector<std::string> program;    ///< PROGRAM and its arguments, untouched
};

/// Finds where the launcher's own arguments end: at `--`, or at the first word that is neither an
/// option, its value nor an override. Underscores in long names count as dashes. Pure; throws
/// UsageError for unknown options (naming the nearest) and for values that are missing.
SplitArguments split_arguments(const std::vector<std::string>& arguments,
                               const OptionShapes& shapes);

}  // namespace autolaunch::launcher
