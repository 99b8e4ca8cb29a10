#pragma once
#include "lint/slurm_options.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A change: `old_text` at a line and column (both from 1, columns in bytes) becomes `new_text`.
/// Both may hold a line's end.
struct Edit {
    int line = 0, column = 1;
    std::string old_text, new_text;
};
/// What is changed together. Empty: the change is not known, or not without doubt.
using Edits = std::vector<Edit>;

/// `text` with all of them; nothing where an old text is not where it should be, or two overlap.
std::optional<std::string> apply_edits(std::string_view text, Edits edits);

/// The lines of a file, or of a block in it.
struct SourceLines {
    std::vector<std::string> lines;
    int first_line = 1;

    const std::string* at(int line) const;
};

// Each is empty where what is to be changed is not there exactly once.

/// A whole word, between blanks, quotes and operators.
Edits replace_word(const SourceLines& source, int line, std::string_view word, std::string_view by);
/// With the blanks in front of it.
Edits remove_word(const SourceLines& source, int line, std::string_view word);
/// Any text.
Edits replace_text(const SourceLines& source, int line, std::string_view text, std::string_view by);

/// A name, between what is no letter, digit, _ or :, wherever it stands in the line.
Edits replace_name(const SourceLines& source, int line, std::string_view name, std::string_view by);

/// In a shell's block that would be left empty a `:` takes its place.
Edits remove_line(const SourceLines& source, int line);
/// In front of `line`, indented like it; empty where `line` continues the one before.
Edits insert_line(const SourceLines& source, int line, const std::string& text);
Edits append_line(const SourceLines& source, const std::string& text);

/// NAME=VALUE of a script (alone, behind export, in front of a command, in --export=), or a spec's
/// NAME: VALUE.
Edits remove_assignment(const SourceLines& source, int line, const std::string& name);
/// Its value, as `by` makes it of the old one; without quotes around it.
Edits replace_assignment(const SourceLines& source, int line, const std::string& name,
                         const std::string& by);

/// Of a #SBATCH line or of srun.
Edits replace_option(const SourceLines& source, const SlurmOption& option, const std::string& by);
Edits remove_option(const SourceLines& source, const SlurmOption& option);

/// `key: VALUE` of YAML, block or flow style.
Edits replace_yaml_value(const SourceLines& source, int line, const std::string& key,
                         const std::string& by);
/// A key's line, where others of its section stay.
Edits remove_yaml_line(const SourceLines& source, int line);

Edits together(Edits first, const Edits& second);  ///< empty where one of them is

}  // namespace autolaunch::launcher
