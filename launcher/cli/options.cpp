#include "cli/options.hpp"

#include "cli/option_parser.hpp"
#include "cli/usage_error.hpp"
#include "spec/spec.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace autolaunch::launcher {

namespace {

std::optional<Command> subcommand_from(const std::string& word) {
    static const std::map<std::string, Command> kCommands = {
        {"run", Command::run},   {"plan", Command::plan}, {"validate", Command::validate}, {"schema", Command::schema},
        {"topo", Command::topo}, {"lint", Command::lint}, {"doctor", Command::doctor}};
    const auto found = kCommands.find(word);
    return found == kCommands.end() ? std::nullopt : std::optional(found->second);
}

/// Mistakes that would otherwise end in "program not found".
void check_program(const CommandLine& line, bool separated) {
    if (separated || line.program.empty()) return;
    const std::string& program = line.program[0];
    if (subcommand_from(program))
        throw UsageError("the subcommand comes first: autolaunch " + program + " ...",
                         "to run a program of that name, write -- " + program);
    if (line.spec_file.empty() && is_override(program))
        throw UsageError(program + ": there is no spec to override", "give -c FILE before it");
}

/// PET_NPROC_PER_NODE and so on: torchrun's defaults for options. An empty one counts as not set.
JobOptions options_from_environment(const std::map<std::string, std::string>& environment) {
    std::vector<std::string> options;
    const OptionShapes shapes = OptionParser(Command::run).shapes();
    for (const auto& [name, shape] : shapes) {
        if (!name.starts_with("--") || name == "--config" || name == "--help" || name == "--version") continue;
        std::string variable = "PET" + name.substr(1);
        std::transform(variable.begin(), variable.end(), variable.begin(),
                       [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
        const auto found = environment.find(variable);
        if (found == environment.end() || found->second.empty()) continue;
        options.push_back(name + '=' + found->second);
    }
    OptionParser parser(Command::run);
    CommandLine ignored;
    try {
        parser.parse(options, ignored);
    } catch (const UsageError& error) {
        throw UsageError(std::string("a PET_* variable: ") + error.what(), "unset it, or correct it");
    }
    return parser.job_options();
}

/// `validate FILE` needs no -c.
void take_file_of_validate(CommandLine& line) {
    auto& words = line.program;
    if (line.spec_file.empty() && !words.empty()) {
        line.spec_file = words[0];
        words.erase(words.begin());
    }
    const auto first_other = std::find_if_not(words.begin(), words.end(), is_override);
    line.overrides.insert(line.overrides.end(), words.begin(), first_other);
    words.erase(words.begin(), first_other);
    if (line.spec_file.empty()) throw UsageError("validate needs a file", "autolaunch validate train.yaml");
    // A program, as one would run it with this spec, is no part of what is checked, but a second file is a mistake.
    if (!words.empty()) throw UsageError(words[0] + ": validate takes one file, then KEY=VALUE");
}

/// `topo FILE`: that machine, else this one.
void take_file_of_topo(CommandLine& line) {
    if (line.program.size() > 1) throw UsageError(line.program[1] + ": topo takes one file at most");
    if (!line.program.empty()) line.topology_file = line.program[0];
    if (line.json && line.svg) throw UsageError("--json and --svg exclude each other");
}

void check_lint(const CommandLine& line) {
    if (line.rules != line.program.empty())
        throw UsageError(line.rules ? "--rules takes no file" : "lint needs a file",
                         "autolaunch lint job.sh train.yaml");
    if (line.markdown && !line.rules) throw UsageError("--markdown goes with --rules");
    // Behind the first file, options would be taken for files.
    for (const auto& file : line.program)
        if (file.starts_with("--")) throw UsageError(file + ": options come before the files");
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const std::map<std::string, std::string>& environment) {
    CommandLine line;
    std::vector<std::string> rest = arguments;
    if (const auto command = rest.empty() ? std::nullopt : subcommand_from(rest[0])) {
        line.command = *command;
        rest.erase(rest.begin());
    }
    OptionParser parser(line.command);
    SplitArguments split = split_arguments(rest, parser.shapes());
    const std::size_t before_program = rest.size() - split.program.size();
    const bool separated = before_program > 0 && rest[before_program - 1] == "--";
    parser.parse(split.options, line);
    if (parser.help_wanted() || parser.version_wanted()) {
        line.command = parser.help_wanted() ? Command::help : Command::version;
        line.help = parser.help();
        return line;
    }
    line.overrides = std::move(split.overrides);
    line.program = std::move(split.program);
    line.options = parser.job_options();
    if (line.command == Command::doctor) {
        if (!line.program.empty()) throw UsageError(line.program[0] + ": doctor takes options and KEY=VALUE only");
    } else if (line.command == Command::validate) {
        take_file_of_validate(line);
    } else if (line.command == Command::topo) {
        take_file_of_topo(line);
    } else if (line.command == Command::lint) {
        check_lint(line);
    } else if (line.command == Command::schema) {
        if (!line.program.empty()) throw UsageError(line.program[0] + ": schema takes no arguments");
    } else {
        check_program(line, separated);
        line.defaults = options_from_environment(environment);
    }
    return line;
}

}  // namespace autolaunch::launcher
