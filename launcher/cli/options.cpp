#include "cli/options.hpp"

#include "base/text.hpp"
#include "cli/option_parser.hpp"
#include "exit_codes/exit_error.hpp"
#include "spec/spec.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace autolaunch::launcher {

namespace {

std::optional<Command> subcommand_from(const std::string& word) {
    static const std::map<std::string, Command> kCommands = {
        {"run", Command::run},       {"plan", Command::plan}, {"validate", Command::validate},
        {"schema", Command::schema}, {"topo", Command::topo}, {"lint", Command::lint},
        {"doctor", Command::doctor}, {"ckpt", Command::ckpt}};
    const auto found = kCommands.find(word);
    return found == kCommands.end() ? std::nullopt : std::optional(found->second);
}

/// Mistakes that would otherwise end in "program not found".
void check_program(const CommandLine& line, bool separated) {
    if (separated || line.program.empty())
        return;
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
        if (!name.starts_with("--") || name == "--config" || name == "--help" ||
            name == "--version")
            continue;
        std::string variable = "PET" + name.substr(1);
        std::transform(variable.begin(), variable.end(), variable.begin(), [](unsigned char c) {
            return c == '-' ? '_' : static_cast<char>(std::toupper(c));
        });
        const auto found = environment.find(variable);
        if (found == environment.end() || found->second.empty())
            continue;
        options.push_back(name + '=' + found->second);
    }
    OptionParser parser(Command::run);
    CommandLine ignored;
    try {
        parser.parse(options, ignored);
    } catch (const UsageError& error) {
        throw UsageError(std::string("a PET_* variable: ") + error.what(),
                         "unset it, or correct it");
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
    if (line.spec_file.empty())
        throw UsageError("validate needs a file", "autolaunch validate train.yaml");
    // A program, as one would run it with this spec, is no part of what is checked, but a second
    // file is a mistake.
    if (!words.empty())
        throw UsageError(words[0] + ": validate takes one file, then KEY=VALUE");
}

/// `topo FILE`: that machine, else this one.
void take_file_of_topo(CommandLine& line) {
    if (line.program.size() > 1)
        throw UsageError(line.program[1] + ": topo takes one file at most");
    if (!line.program.empty())
        line.topology_file = line.program[0];
    if (line.json && line.svg)
        throw UsageError("--json and --svg exclude each other");
}

void check_lint(const CommandLine& line) {
    if (line.rules != line.program.empty())
        throw UsageError(line.rules ? "--rules takes no file" : "lint needs a file",
                         "autolaunch lint job.sh train.yaml");
    if (line.markdown && !line.rules)
        throw UsageError("--markdown goes with --rules");
    // Behind the first file, options would be taken for files.
    for (const auto& file : line.program)
        if (file.starts_with("--"))
            throw UsageError(file + ": options come before the files");
}

struct CheckpointWord {
    const char* word;
    CheckpointAction action;
    std::size_t min_paths, max_paths;
    const char* example;
};
constexpr CheckpointWord kCheckpointWords[] = {
    {"ls", CheckpointAction::list, 1, 1, "autolaunch ckpt ls runs/a/checkpoints"},
    {"show", CheckpointAction::show, 1, 1, "autolaunch ckpt show runs/a/checkpoints"},
    {"verify", CheckpointAction::verify, 1, 1'000'000, "autolaunch ckpt verify runs/a/checkpoints"},
    {"diff", CheckpointAction::diff, 2, 2, "autolaunch ckpt diff step-00001200 step-00001300"},
    {"export", CheckpointAction::export_tensors, 2, 2,
     "autolaunch ckpt export runs/a/checkpoints model.safetensors"},
    {"reshard", CheckpointAction::reshard, 2, 2,
     "autolaunch ckpt reshard runs/a/checkpoints resharded --ranks 8"},
    {"prune", CheckpointAction::prune, 1, 1, "autolaunch ckpt prune runs/a/checkpoints --keep 3"},
    {"convert", CheckpointAction::convert, 2, 2,
     "autolaunch ckpt convert model.safetensors checkpoints"},
    {"keygen", CheckpointAction::new_key, 1, 1, "autolaunch ckpt keygen mac.txt"}};

const CheckpointWord& checkpoint_word(const std::string& word) {
    std::vector<std::string> words;
    for (const auto& known : kCheckpointWords) {
        if (word == known.word)
            return known;
        words.push_back(known.word);
    }
    const std::string close = nearest(word, words);
    throw UsageError(
        word.empty() ? "ckpt needs to know what to do" : word + ": ckpt cannot do that",
        close.empty() ? "one of " + join(words, ", ") : "did you mean " + close + "?");
}

/// Options that one of ckpt's words alone understands.
void check_checkpoint_options(const CheckpointWord& known,
                              const std::vector<std::string>& options) {
    using Action = CheckpointAction;
    static const std::vector<Action> kAuthenticated = {
        Action::list,           Action::show,    Action::verify, Action::diff,
        Action::export_tensors, Action::reshard, Action::convert};
    static const std::map<std::string, std::vector<Action>> kOf = {
        {"--json", {Action::list, Action::show, Action::verify, Action::diff}},
        {"--tensors", {Action::show}},
        {"--only", {Action::show, Action::diff, Action::export_tensors}},
        {"--all", {Action::export_tensors}},
        {"--dtype", {Action::export_tensors, Action::reshard}},
        {"--max-file-size", {Action::export_tensors}},
        {"--ranks", {Action::reshard, Action::convert}},
        {"--keep", {Action::prune}},
        {"--every", {Action::prune}},
        {"--dry-run", {Action::prune}},
        {"--step", {Action::convert}},
        {"--python", {Action::convert}},
        {"--identity", {Action::verify, Action::diff, Action::export_tensors, Action::reshard}},
        {"--identity-command",
         {Action::verify, Action::diff, Action::export_tensors, Action::reshard}},
        // Not prune: with a wrong key it would delete what is right.
        {"--authentication-key", kAuthenticated},
        {"--authentication-key-command", kAuthenticated},
        {"--recipient", {Action::reshard, Action::convert}},
        {"--plain", {Action::reshard}},
        {"--trust-source", {Action::reshard}}};
    const auto given = [&](const std::string& name) {
        return std::any_of(options.begin(), options.end(), [&](const std::string& option) {
            return option.substr(0, option.find('=')) == name;
        });
    };
    for (const auto& [name, actions] : kOf)
        if (given(name) && std::find(actions.begin(), actions.end(), known.action) == actions.end())
            throw UsageError(name + " does not go with ckpt " + known.word,
                             "see autolaunch ckpt --help");
    if (known.action == Action::prune && !given("--keep"))
        throw UsageError("prune needs --keep", "how many of the newest checkpoints stay");
    if (known.action == Action::reshard && !given("--ranks"))
        throw UsageError("reshard needs --ranks", "how many ranks it is for");
}

/// `ckpt WORD` with paths and options in any order.
CommandLine parse_checkpoint_line(std::vector<std::string> rest) {
    CommandLine line;
    line.command = Command::ckpt;
    OptionParser parser(Command::ckpt);
    std::vector<std::string> options, words;
    bool only_words = false;
    while (!rest.empty()) {
        const SplitArguments split =
            only_words ? SplitArguments{{}, {}, rest} : split_arguments(rest, parser.shapes());
        options.insert(options.end(), split.options.begin(), split.options.end());
        words.insert(words.end(), split.overrides.begin(), split.overrides.end());
        const std::size_t before = rest.size() - split.program.size();
        only_words = only_words || (before > 0 && rest[before - 1] == "--");
        if (split.program.empty())
            break;
        words.push_back(split.program[0]);
        rest.assign(split.program.begin() + 1, split.program.end());
    }
    parser.parse(options, line);
    if (parser.help_wanted() || parser.version_wanted()) {
        line.command = parser.help_wanted() ? Command::help : Command::version;
        line.help = parser.help();
        return line;
    }
    const CheckpointWord& known = checkpoint_word(words.empty() ? "" : words[0]);
    words.erase(words.begin());
    if (words.size() < known.min_paths || words.size() > known.max_paths)
        throw UsageError(words.size() < known.min_paths
                             ? std::string("ckpt ") + known.word + " needs a path"
                             : words.back() + ": that is one path too many",
                         known.example);
    check_checkpoint_options(known, options);
    line.checkpoints.action = known.action;
    line.checkpoints.paths = std::move(words);
    return line;
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
    if (line.command == Command::ckpt)
        return parse_checkpoint_line(std::move(rest));
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
        if (!line.program.empty())
            throw UsageError(line.program[0] + ": doctor takes options and KEY=VALUE only");
    } else if (line.command == Command::validate) {
        take_file_of_validate(line);
    } else if (line.command == Command::topo) {
        take_file_of_topo(line);
    } else if (line.command == Command::lint) {
        check_lint(line);
    } else if (line.command == Command::schema) {
        if (!line.program.empty())
            throw UsageError(line.program[0] + ": schema takes no arguments");
    } else {
        check_program(line, separated);
        line.defaults = options_from_environment(environment);
    }
    return line;
}

}  // namespace autolaunch::launcher
