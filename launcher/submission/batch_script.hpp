#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// One option of sbatch's or srun's, by its long name without dashes.
struct BatchOption {
    std::string name;
    std::optional<std::string> value = {};

    bool operator==(const BatchOption&) const = default;
};

/// What `autolaunch submit` hands to sbatch, before it is text. Plain data; render_batch_script()
/// is sound for what check_batch_text() finds nothing in.
struct BatchScript {
    std::vector<std::string> remarks;  ///< comments at its top, a line each
    std::vector<BatchOption> options;  ///< #SBATCH lines
    std::vector<std::string> modules;
    std::string venv;                  ///< the folder; empty: none
    std::string conda;                 ///< its name or folder; empty: none
    std::vector<std::string> setup;    ///< lines of shell, as the user wrote them
    std::vector<BatchOption> srun;     ///< those of plugins last
    std::vector<std::string> program;  ///< autolaunch and its arguments

    const BatchOption* option(std::string_view name) const;
    bool operator==(const BatchScript&) const = default;
};

/// Why a value cannot stand in a #SBATCH line, which no shell reads: quotes, backslashes, what
/// looks like a variable, control characters, more than sbatch takes. Empty: it can. Pure.
std::string why_no_directive(std::string_view value);
/// Why text cannot be a word or a line of the script at all. Empty: it can. Pure.
std::string why_no_script_text(std::string_view text);

/// A word that any POSIX shell reads as exactly this text. Pure.
std::string shell_word(std::string_view text);

/// The text. Pure.
std::string render_batch_script(const BatchScript& script);
/// What a rendered text says; of any other text what can be made out. Pure.
BatchScript read_batch_script(const std::string& text);
/// Whether a shell that reads all of it comes to `exec srun … autolaunch`: the user's own lines may
/// have a quote or an `if` that is not closed. Pure.
bool comes_to_autolaunch(const std::string& text);

}  // namespace autolaunch::launcher
