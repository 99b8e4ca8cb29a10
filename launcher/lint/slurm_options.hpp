#pragma once
#include "lint/shell_script.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// One option of sbatch or srun as it was given, under its long name without dashes.
struct SlurmOption {
    std::string name;
    Word value;
    bool has_value = false;
    bool short_form = false;
    int line = 0;
    std::string written = {};   ///< its word as it stands in the text
    std::string separate = {};  ///< the word of its value, where that is the next one
};

/// An option that sbatch does not know, as written, and the nearest that it knows.
struct UnknownOption {
    std::string written, nearest;
    int line = 0;
};

/// An option of a plugin (SPANK): sbatch and srun know it where the cluster has that plugin.
struct PluginOption {
    std::string written, plugin;  ///< plugin: empty where it is not known
    int line = 0;
    std::string name = {};  ///< long, without dashes
    std::optional<std::string> value = {};
};

struct ParsedOptions {
    std::vector<SlurmOption> options;
    std::vector<PluginOption> of_plugins;
    std::vector<UnknownOption> unknown;
    std::size_t rest = 0;  ///< index of the first word that is no option
};

enum class SlurmProgram { sbatch, srun, salloc };

/// Takes `words` apart as getopt_long does for that program: -N4, -N 4, --nodes=4, --nodes 4,
/// unique beginnings of long names; ends at the first word that is no option, or behind `--`. The
/// options are those of Slurm 22.05's manual pages and what later versions added. Pure.
ParsedOptions parse_slurm_options(std::span<const Word> words, SlurmProgram program);

}  // namespace autolaunch::launcher
