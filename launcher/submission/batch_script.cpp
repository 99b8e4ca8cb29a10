#include "submission/batch_script.hpp"

#include "base/text.hpp"
#include "lint/launches.hpp"
#include "lint/sbatch_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostDirective = 4000;  // sbatch keeps a word in 8 KiB
constexpr std::string_view kRemark = "# ", kSetup = "# setup, lines: ";
constexpr std::string_view kActivate = "/bin/activate";

bool is_safe(char c, std::string_view others) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x80 && (std::isalnum(byte) != 0 || others.find(c) != std::string_view::npos);
}

bool is_safe_text(std::string_view text, std::string_view others) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [&](char c) { return is_safe(c, others); });
}

std::string directive_word(const std::string& value) {
    return is_safe_text(value, "_-.,:/@%+=[]*()&|!?") ? value : '"' + value + '"';
}

std::string setup_of_environment(const BatchScript& script) {
    std::string text;
    for (const std::string& module : script.modules)
        text += "module load " + shell_word(module) + '\n';
    if (!script.venv.empty())
        text += "source " + shell_word(script.venv + std::string(kActivate)) + '\n';
    if (!script.conda.empty())
        text +=
            "eval \"$(conda shell.bash hook)\"\nconda activate " + shell_word(script.conda) + '\n';
    if (!script.setup.empty())
        text += fmt::format("{}{}\n{}\n", kSetup, script.setup.size(), join(script.setup, "\n"));
    return text;
}

BatchOption option_from(const SlurmOption& option) {
    return {option.name,
            option.has_value ? std::optional(option.value.value) : std::optional<std::string>()};
}

/// Takes the user's own lines out, so that nothing in them is taken for ours.
std::string without_setup(const std::string& text, std::vector<std::string>& setup) {
    auto lines = split(text, '\n');
    const auto mark = std::find_if(lines.begin(), lines.end(),
                                   [](const auto& line) { return line.starts_with(kSetup); });
    long long count = 0;
    if (mark == lines.end() || !parse_integer(mark->substr(kSetup.size()), count) || count < 1 ||
        count >= lines.end() - mark)
        return text;
    const auto end = mark + 1 + static_cast<std::ptrdiff_t>(count);
    setup.assign(mark + 1, end);
    lines.erase(mark, end);
    return join(lines, "\n");
}

void read_environment(const SbatchScript& parsed, BatchScript& script) {
    for (const ShellCommand& command : parsed.shell.commands) {
        const auto& words = command.words;
        if (command.in_substitution || words.size() < 2)
            continue;
        if (command.is("module") && words.size() == 3)
            script.modules.push_back(words[2].value);
        if (command.is("source") && words[1].value.ends_with(kActivate))
            script.venv = words[1].value.substr(0, words[1].value.size() - kActivate.size());
        if (command.is("conda") && words.size() == 3)
            script.conda = words[2].value;
    }
}

}  // namespace

const BatchOption* BatchScript::option(std::string_view name) const {
    const auto found = std::find_if(options.begin(), options.end(),
                                    [&](const BatchOption& one) { return one.name == name; });
    return found == options.end() ? nullptr : &*found;
}

std::string why_no_script_text(std::string_view text) {
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '\n' || c == '\r')
            return "holds a line's end; a batch script has it on one line";
        if (byte < 0x20 || byte == 0x7F)
            return fmt::format("holds the control character \\x{:02x}", byte);
    }
    return {};
}

std::string why_no_directive(std::string_view value) {
    if (const std::string why = why_no_script_text(value); !why.empty())
        return why;
    for (const char c : value) {
        if (c == '"' || c == '\'' || c == '\\')
            return fmt::format("holds {}, which sbatch would take for a quote of its own", c);
        if (c == '$' || c == '`')
            return fmt::format(
                "holds {}: no shell reads #SBATCH lines; write the value, or sbatch's %j, %x, %a "
                "or %u",
                c);
    }
    if (value.size() > kMostDirective)
        return "has more than 4000 bytes, which sbatch does not read";
    return {};
}

std::string shell_word(std::string_view text) {
    if (is_safe_text(text, "_-.,:/@%+="))
        return std::string(text);
    std::string word = "'";
    for (const char c : text)
        word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + '\'';
}

std::string render_batch_script(const BatchScript& script) {
    // What defines `module` is a login shell's.
    std::string text = script.modules.empty() ? "#!/bin/bash\n" : "#!/bin/bash -l\n";
    for (const std::string& remark : script.remarks)
        text += std::string(kRemark) + remark + '\n';
    for (const BatchOption& option : script.options)
        text += "#SBATCH --" + option.name +
                (option.value ? '=' + directive_word(*option.value) : std::string()) + '\n';
    text += "\nset -e\n" + setup_of_environment(script) + "exec srun";
    for (const BatchOption& option : script.srun)
        text += " --" + option.name + (option.value ? '=' + shell_word(*option.value) : "");
    for (const std::string& word : script.program)
        text += ' ' + shell_word(word);
    return text + '\n';
}

BatchScript read_batch_script(const std::string& text) {
    BatchScript script;
    const SbatchScript parsed = parse_sbatch_script(without_setup(text, script.setup));
    for (const std::string& line : parsed.lines)
        if (line.starts_with(kRemark))
            script.remarks.push_back(line.substr(kRemark.size()));
    for (const SlurmOption& option : parsed.options)
        script.options.push_back(option_from(option));
    read_environment(parsed, script);
    for (const Launch& launch : find_launches(parsed)) {
        if (!launch.by_srun || !launch.by_exec)
            continue;
        for (const SlurmOption& option : launch.srun_options)
            script.srun.push_back(option_from(option));
        for (const PluginOption& option : launch.of_plugins)
            script.srun.push_back({option.name, option.value});
        for (const Word& word : launch.program)
            script.program.push_back(word.value);
    }
    return script;
}

bool comes_to_autolaunch(const std::string& text) {
    const SbatchScript parsed = parse_sbatch_script(text);
    const auto launches = find_launches(parsed);
    return std::any_of(launches.begin(), launches.end(), [](const Launch& launch) {
        const ShellCommand& command = *launch.command;
        return launch.by_srun && launch.by_exec && launch.tool == Tool::autolaunch &&
               command.depth == 0 && !command.in_function && !command.guarded && !command.piped;
    });
}

}  // namespace autolaunch::launcher
