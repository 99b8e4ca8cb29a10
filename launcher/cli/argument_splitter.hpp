#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// An option as the splitter needs to know it.
struct OptionShape {
    std::string long_name;  ///< "--nproc-per-node"
    bool takes_value = false;
};
/// What an option of another launcher is here: the error's hint.
using ForeignOptions = std::map<std::string_view, std::string_view>;
/// By every name it has: long ones with dashes, short ones such as "-r".
using OptionShapes = std::map<std::string, OptionShape>;

struct SplitArguments {
    std::vector<std::string> options;    ///< "--name=value" or "--name", dashes, long names
    std::vector<std::string> overrides;  ///< KEY=VALUE, only after --config
    std::vector<std::string> program;    ///< PROGRAM and its arguments, untouched
    bool separated = false;              ///< by `--`: PROGRAM is what comes next, whatever it is
};

/// Finds where the launcher's own arguments end: at `--`, or at the first word that is neither an
/// option, its value nor an override. Underscores in long names count as dashes, and a long name
/// may be shortened while it is the only one that begins so. Pure; throws UsageError for unknown
/// options (saying what `foreign` says, or naming the nearest) and for values that are missing.
SplitArguments split_arguments(const std::vector<std::string>& arguments,
                               const OptionShapes& shapes, const ForeignOptions& foreign = {});

}  // namespace autolaunch::launcher
