#pragma once
#include "lint/shell_script.hpp"
#include "lint/slurm_options.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// An sbatch script, or any shell script that starts training: what it asks of Slurm and what its
/// shell does. Built once; the rules only read it.
struct SbatchScript {
    std::vector<std::string> lines;        ///< as written, carriage returns kept
    std::vector<SlurmOption> options;      ///< of #SBATCH lines, in their order
    std::vector<UnknownOption> unknown;    ///< of #SBATCH lines
    std::vector<PluginOption> of_plugins;  ///< of #SBATCH lines
    std::vector<int>
        late_directives;  ///< #SBATCH lines behind the first command: Slurm does not read them
    std::vector<int>
        disguised_directives;  ///< "# SBATCH --x" and " #SBATCH --x": comments to Slurm
    ShellScript shell;
    bool is_batch =
        false;  ///< has #SBATCH lines or srun: not a script that srun starts for each task

    /// By variable: its only assignment, an index into shell.assignments; nothing where there are
    /// several, or one that may not be made.
    std::map<std::string, std::optional<std::size_t>, std::less<>> variables;

    /// NAME=(…), the only assignment of that name: an index into shell.assignments.
    std::map<std::string, std::size_t, std::less<>> lists;

    const SlurmOption* option(std::string_view name) const;  ///< the last of that name
    bool has(std::string_view name) const { return option(name) != nullptr; }
    std::string text(std::string_view name) const;  ///< its value; empty without
    std::optional<long long> number(std::string_view name) const;

    /// The value of a variable that the script sets to one text only, outside functions and
    /// branches.
    std::optional<std::string> variable(std::string_view name) const;
    const ShellAssignment* only_assignment(std::string_view name) const;
    /// `word` with the variables replaced that variable() knows, and those of Slurm that follow
    /// from the directives.
    std::string resolved(const Word& word) const;
    /// A word that is one variable as a whole becomes the words of its value, and "${LIST[@]}" its
    /// items; others stay.
    std::vector<Word> expanded(const std::vector<Word>& words) const;

    std::optional<long long> nodes() const;           ///< the least that --nodes may give
    std::optional<long long> tasks_per_node() const;  ///< as far as it follows from the directives
    std::optional<long long> gpus_per_node() const;
};

/// Of a script that another interpreter runs (#!/usr/bin/python3) only the directives are read.
SbatchScript parse_sbatch_script(const std::string& text, int first_line = 1);
/// Whether a shell runs it: what its first line names, or no line says otherwise.
bool is_run_by_shell(std::string_view text);

/// N of "N", "TYPE:N" and of lists of them, summed; nothing where it is no number.
std::optional<long long> gpu_count(std::string_view text);
/// Of --gres=gpu:TYPE:N,…; nothing where no GPU is named.
std::optional<long long> gres_gpu_count(std::string_view text);
std::optional<long long> whole_number(std::string_view text);

}  // namespace autolaunch::launcher
