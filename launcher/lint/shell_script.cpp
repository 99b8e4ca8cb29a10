#include "lint/shell_script.hpp"

#include "base/text.hpp"
#include "lint/shell_parser.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace autolaunch::launcher {

namespace {

/// Words of export, declare and their relatives that assign.
void take_declarations(ShellScript& script, std::set<std::string>& exported) {
    static const std::set<std::string> kDeclaring = {"export", "declare", "typeset", "local",
                                                     "readonly"};
    for (const auto& command : script.commands) {
        if (command.words.empty() || !kDeclaring.contains(command.words[0].value))
            continue;
        bool exports = command.is("export");
        for (std::size_t i = 1; i < command.words.size(); ++i) {
            const Word& word = command.words[i];
            if (word.value.starts_with('-'))
                exports = exports || word.value.find('x') != std::string::npos;
            if (exports && is_identifier(word.value))
                exported.insert(word.value);
            if (assigned_name(word.raw).empty())
                continue;
            ShellAssignment assignment = ShellParser::assignment_of(word);
            assignment.exported = exports;
            assignment.conditional = command.depth > 0;
            script.assignments.push_back(std::move(assignment));
        }
    }
}

}  // namespace

bool Word::expands(std::string_view name) const {
    return std::find(expansions.begin(), expansions.end(), name) != expansions.end();
}

bool ShellScript::in_here_document(int line) const {
    return std::any_of(
        here_documents.begin(), here_documents.end(),
        [line](const LineRange& range) { return line >= range.first && line <= range.last; });
}

bool is_identifier(std::string_view text) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0)
        return false;
    return std::all_of(text.begin(), text.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    });
}

std::string_view assigned_name(std::string_view text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0)
        return {};
    std::string_view name = text.substr(0, equals);
    if (name.ends_with('+'))
        name.remove_suffix(1);
    return is_identifier(name) ? name : std::string_view{};
}

ShellScript parse_shell(std::string_view text, int first_line) {
    ShellScript script;
    ShellParser(text, first_line, script).parse();
    std::set<std::string> exported;
    take_declarations(script, exported);
    for (auto& assignment : script.assignments)
        if (exported.contains(assignment.name))
            assignment.exported = true;
    std::stable_sort(script.assignments.begin(), script.assignments.end(),
                     [](const auto& a, const auto& b) { return a.value.line < b.value.line; });
    std::stable_sort(script.commands.begin(), script.commands.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return script;
}

}  // namespace autolaunch::launcher
