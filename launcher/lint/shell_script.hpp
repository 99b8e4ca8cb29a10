#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A word as the shell would see it before it replaces anything.
struct Word {
    int line = 0;
    std::string raw;    ///< as written
    std::string value;  ///< without quotes; $NAME, ${…} and $(…) stay as written
    std::vector<std::string>
        expansions;  ///< variables that this shell replaces (not those in single quotes, not \$X)
    bool literal = true;  ///< nothing in it is replaced: no variable, command, brace or pattern
    bool array = false;   ///< NAME=(…)
    std::vector<Word> elements = {};  ///< of an array

    bool expands(std::string_view name) const;
};

/// NAME=VALUE, NAME+=VALUE or NAME=(…), alone, in front of a command, or behind export and declare.
struct ShellAssignment {
    std::string name;
    Word value;  ///< without NAME=
    bool append = false;
    bool exported = false;  ///< also by a later `export NAME`, and in front of a command
    bool prefix = false;    ///< in front of a command, for it alone
    bool conditional = false;
};

struct ShellCommand {
    int line = 0;
    std::vector<ShellAssignment> prefix;
    std::vector<Word> words;  ///< redirections are left out
    bool background = false;  ///< followed by &
    bool piped = false;       ///< its output goes to the next command
    bool guarded =
        false;  ///< followed by || or &&, or the condition of if and while: its status is looked at
    bool in_function = false;
    bool in_substitution = false;  ///< inside $(…) or backticks
    int depth = 0;                 ///< in how many of if, for, while, case, ( and { it stands

    bool is(std::string_view name) const { return !words.empty() && words[0].value == name; }
};

struct LineRange {
    int first = 0, last = 0;
};

/// What a POSIX or bash script says, taken apart and never executed. Not a full shell: what it does
/// not know it passes over, and any bytes at all give some result in linear time.
struct ShellScript {
    std::vector<ShellCommand>
        commands;  ///< in the order written, also those of functions and substitutions
    std::vector<ShellAssignment> assignments;  ///< all of them
    std::vector<LineRange> here_documents;     ///< their text, and the line of the delimiter

    bool in_here_document(int line) const;
};

ShellScript parse_shell(std::string_view text, int first_line = 1);

/// NAME of "NAME=…" or "NAME+=…"; empty where `text` does not begin so.
std::string_view assigned_name(std::string_view text);
bool is_identifier(std::string_view text);

}  // namespace autolaunch::launcher
