#pragma once
#include "lint/sbatch_script.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

enum class Tool { other, torchrun, torch_launch, autolaunch, mpirun, python };

/// One command that starts training: perhaps through srun, perhaps through torchrun or its like.
struct Launch {
    const ShellCommand* command = nullptr;
    int line = 0;
    bool by_srun = false;
    bool by_exec = false;
    bool inner_shell = false;  ///< bash -c '…': its text is read by a shell in each task
    std::vector<SlurmOption> srun_options;
    std::vector<PluginOption> of_plugins;  ///< of srun's
    std::vector<Word> program;  ///< without srun and its options, variables of one's own replaced
    Tool tool = Tool::other;
    std::size_t tool_at = 0;  ///< index in program, where tool is not `other`

    const SlurmOption* srun_option(std::string_view name) const;
    /// Of the tool, with dashes: --nproc-per-node also finds --nproc_per_node.
    const Word* option_word(std::string_view name) const;
    std::optional<std::string> option(std::string_view name, const SbatchScript& script) const;
    /// The word that has the option's value: its own, with =, or the next one.
    const Word* value_word(std::string_view name) const;

    /// Words of the tool that are variables and not known here: any option may be in them.
    bool has_unknown_options() const;
    /// What the launcher starts: its first word that is neither an option nor the value of one.
    const Word* started() const;

    bool starts_training() const { return by_srun || tool != Tool::other; }
};

/// Of all commands, in order, also inside functions; those within $(…) are left out.
std::vector<Launch> find_launches(const SbatchScript& script);

// What one launch has of everything: srun's own options win over the directives.
std::optional<long long> nodes_of(const Launch& launch, const SbatchScript& script);
std::optional<long long> tasks_per_node_of(const Launch& launch, const SbatchScript& script);
/// Ranks that one torchrun or autolaunch starts, where it says so.
std::optional<long long> ranks_per_launcher(const Launch& launch, const SbatchScript& script);

/// Whether `autolaunch WORD …` is one of its subcommands, which start no ranks: ckpt, doctor, plan.
/// All but `run` of those that cli knows.
bool is_own_subcommand(const std::string& word);

const char* name_of(Tool tool);
std::string program_name(const std::string& path);  ///< without its folder

}  // namespace autolaunch::launcher
