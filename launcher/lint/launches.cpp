#include "lint/launches.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>

namespace autolaunch::launcher {

namespace {

bool is_python(const std::string& name) {
    return name.starts_with("python") &&
           name.find_first_not_of("0123456789.", 6) == std::string::npos;
}

Tool tool_of(const std::vector<Word>& words, std::size_t at) {
    const std::string name = program_name(words[at].value);
    if (name == "torchrun")
        return Tool::torchrun;
    if (name == "autolaunch")
        return at + 1 < words.size() && is_own_subcommand(words[at + 1].value) ? Tool::other
                                                                               : Tool::autolaunch;
    if (name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "mpirun.openmpi")
        return Tool::mpirun;
    if (!is_python(name))
        return Tool::other;
    for (std::size_t i = at + 1; i < words.size() && words[i].value.starts_with('-'); ++i) {
        if (words[i].value != "-m" || i + 1 >= words.size())
            continue;
        const std::string& module = words[i + 1].value;
        if (module == "torch.distributed.run")
            return Tool::torchrun;
        if (module == "torch.distributed.launch")
            return Tool::torch_launch;
        return Tool::python;
    }
    // python -c, --version and the like train nothing.
    const bool script = at + 1 < words.size() &&
                        (!words[at + 1].value.starts_with('-') || words[at + 1].value == "-u");
    return script ? Tool::python : Tool::other;
}

/// How many words of `words` from `at` are a wrapper and its options; 0: none.
std::size_t wrapper_length(const std::vector<Word>& words, std::size_t at) {
    static const std::set<std::string> kBare = {"exec",    "time",    "nohup", "command", "setsid",
                                                "sudo",    "stdbuf",  "nice",  "ionice",  "env",
                                                "numactl", "timeout", "nsys",  "taskset"};
    const std::string name = program_name(words[at].value);
    if (!kBare.contains(name))
        return 0;
    std::size_t end = at + 1;
    while (end < words.size() &&
           (words[end].value.starts_with('-') || !assigned_name(words[end].value).empty()))
        ++end;
    if ((name == "timeout" || name == "taskset" || name == "nsys") && end < words.size())
        ++end;
    if (name == "nsys")
        while (end < words.size() && words[end].value.starts_with('-'))
            ++end;
    return end - at;
}

/// Programs that start the rest of their words, behind options that are not known here.
bool carries_program(const std::string& name) {
    static const std::set<std::string> kCarriers = {
        "singularity", "apptainer", "docker", "podman",     "conda", "uv",
        "poetry",      "shifter",   "enroot", "micromamba", "mamba"};
    return kCarriers.contains(name);
}

bool is_shell(const std::string& name) { return name == "bash" || name == "sh" || name == "zsh"; }

/// The string behind -c (or -lc and so on), where there is one.
const Word* shell_text(const std::vector<Word>& words, std::size_t at) {
    for (std::size_t i = at + 1; i + 1 < words.size() && words[i].value.starts_with('-'); ++i)
        if (!words[i].value.starts_with("--") && words[i].value.ends_with('c'))
            return &words[i + 1];
    return nullptr;
}

void find_tool(Launch& launch) {
    auto& words = launch.program;
    std::size_t at = 0;
    for (std::size_t length = 1; at < words.size() && length > 0; at += length) {
        length = wrapper_length(words, at);
        launch.by_exec = launch.by_exec || (length > 0 && words[at].value == "exec");
    }
    if (at >= words.size())
        return;
    const std::size_t last = carries_program(program_name(words[at].value)) ? words.size() : at + 1;
    for (; at < last; ++at) {
        launch.tool = tool_of(words, at);
        launch.tool_at = at;
        if (launch.tool != Tool::other)
            return;
    }
}

/// bash -c '…' becomes the words of the first command in it that starts something.
void look_into_shell(Launch& launch, const SbatchScript& script) {
    std::size_t at = 0;
    const auto& words = launch.program;
    if (words.empty() || !is_shell(program_name(words[at].value))) {
        const auto shell = std::find_if(words.begin(), words.end(), [](const Word& word) {
            return is_shell(program_name(word.value));
        });
        if (words.empty() || shell == words.end() || !carries_program(program_name(words[0].value)))
            return;
        at = static_cast<std::size_t>(shell - words.begin());
    }
    const Word* text = shell_text(words, at);
    if (text == nullptr)
        return;
    launch.inner_shell = true;
    const std::vector<std::string> outer = text->expansions;
    const ShellScript inner = parse_shell(script.resolved(*text), text->line);
    for (const auto& command : inner.commands) {
        Launch candidate;
        candidate.program = command.words;
        for (auto& word :
             candidate.program)  // what this shell has replaced already, the inner one does not see
            std::erase_if(word.expansions, [&](const auto& name) {
                return std::find(outer.begin(), outer.end(), name) == outer.end();
            });
        find_tool(candidate);
        if (candidate.tool == Tool::other)
            continue;
        launch.program = std::move(candidate.program);
        launch.tool = candidate.tool;
        launch.tool_at = candidate.tool_at;
        return;
    }
}

Launch launch_of(const ShellCommand& command, const SbatchScript& script) {
    Launch launch;
    launch.command = &command;
    launch.line = command.line;
    std::vector<Word> words = script.expanded(command.words);
    std::size_t at = 0;
    while (at < words.size()) {
        const std::size_t length = wrapper_length(words, at);
        if (length == 0)
            break;
        launch.by_exec = launch.by_exec || words[at].value == "exec";
        at += length;
    }
    if (at < words.size() && program_name(words[at].value) == "srun") {
        launch.by_srun = true;
        const auto parsed =
            parse_slurm_options(std::span(words).subspan(at + 1), SlurmProgram::srun);
        launch.srun_options = parsed.options;
        launch.of_plugins = parsed.of_plugins;
        at += 1 + parsed.rest;
    }
    launch.program.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size())),
                          words.end());
    find_tool(launch);
    if (launch.tool == Tool::other)
        look_into_shell(launch, script);
    return launch;
}

/// autolaunch plan and the like start no ranks.
bool starts_nothing(const Launch& launch) {
    static const std::set<std::string> kQuestions = {"plan",      "validate", "schema", "lint",
                                                     "--version", "--help",   "-h"};
    const bool is_launcher = launch.tool != Tool::other && launch.tool != Tool::python;
    return is_launcher && launch.tool_at + 1 < launch.program.size() &&
           kQuestions.contains(launch.program[launch.tool_at + 1].value);
}

std::string with_dashes(std::string text) {
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
}

bool ends_options(const std::string& value) { return value == "--" || value.ends_with(".py"); }

}  // namespace

std::string program_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}  // npos + 1 is 0

const SlurmOption* Launch::srun_option(std::string_view name) const {
    const auto found = std::find_if(srun_options.rbegin(), srun_options.rend(),
                                    [&](const auto& o) { return o.name == name; });
    return found == srun_options.rend() ? nullptr : &*found;
}

const Word* Launch::option_word(std::string_view name) const {
    if (tool == Tool::other)
        return nullptr;
    for (std::size_t i = tool_at + 1; i < program.size() && !ends_options(program[i].value); ++i) {
        const std::string& value = program[i].value;
        if (with_dashes(value.substr(0, value.find('='))) == name)
            return &program[i];
    }
    return nullptr;
}

const Word* Launch::value_word(std::string_view name) const {
    const Word* word = option_word(name);
    if (word == nullptr || word->raw.find('=') != std::string::npos)
        return word;
    const std::size_t next = static_cast<std::size_t>(word - program.data()) + 1;
    return next < program.size() ? &program[next] : nullptr;
}

bool Launch::has_unknown_options() const {
    for (std::size_t i = tool_at + 1; i < program.size() && !ends_options(program[i].value); ++i) {
        const std::string& value = program[i].value;
        const bool of_option = i > tool_at + 1 && program[i - 1].value.starts_with("--") &&
                               program[i - 1].value.find('=') == std::string::npos;
        if (value.starts_with('$') && !of_option)
            return true;
    }
    return false;
}

const Word* Launch::started() const {
    static const std::set<std::string> kFlags = {"--standalone", "--no-python", "--module",
                                                 "--run-path",   "-m",          "--use-env",
                                                 "--no-prefix",  "--quiet",     "--dry-run"};
    const bool module = program[tool_at].value.find("python") != std::string::npos;
    for (std::size_t i = tool_at + (module ? 3 : 1); i < program.size(); ++i) {
        const std::string& value = program[i].value;
        if (!value.starts_with('-'))
            return &program[i];
        if (value == "--")
            return i + 1 < program.size() ? &program[i + 1] : nullptr;
        if (value.find('=') == std::string::npos && !kFlags.contains(with_dashes(value)))
            ++i;
    }
    return nullptr;
}

std::optional<std::string> Launch::option(std::string_view name, const SbatchScript& script) const {
    const Word* word = option_word(name);
    if (word == nullptr)
        return std::nullopt;
    const std::string text = script.resolved(*word);
    if (const std::size_t equals = text.find('='); equals != std::string::npos)
        return text.substr(equals + 1);
    const std::size_t next = static_cast<std::size_t>(word - program.data()) + 1;
    return next < program.size() ? std::optional(script.resolved(program[next])) : std::nullopt;
}

bool is_own_subcommand(const std::string& word) {
    static const std::set<std::string> kSubcommands = {
        "plan",  "validate", "schema", "topo",  "lint",   "doctor",    "ckpt",
        "gc",    "report",   "clean",  "drain", "attach", "policy",    "audit",
        "login", "submit",   "sweep",  "top",   "render", "stage-out", "stage-in"};
    return kSubcommands.contains(word);
}

std::vector<Launch> find_launches(const SbatchScript& script) {
    std::vector<Launch> launches;
    for (const auto& command : script.shell.commands) {
        if (command.in_substitution)
            continue;
        Launch launch = launch_of(command, script);
        if (launch.starts_training() && !starts_nothing(launch))
            launches.push_back(std::move(launch));
    }
    return launches;
}

std::optional<long long> nodes_of(const Launch& launch, const SbatchScript& script) {
    const SlurmOption* own = launch.srun_option("nodes");
    if (own == nullptr)
        return launch.srun_option("nodelist") != nullptr ? std::nullopt : script.nodes();
    const std::string text = script.resolved(own->value);
    return whole_number(text.substr(0, text.find('-')));
}

std::optional<long long> tasks_per_node_of(const Launch& launch, const SbatchScript& script) {
    if (const auto* own = launch.srun_option("ntasks-per-node"))
        return whole_number(script.resolved(own->value));
    if (const auto* own = launch.srun_option("ntasks")) {
        const auto tasks = whole_number(script.resolved(own->value));
        const auto machines = nodes_of(launch, script);
        if (!tasks || !machines || *machines <= 0 || *tasks % *machines != 0)
            return std::nullopt;
        return *tasks / *machines;
    }
    return script.tasks_per_node();
}

std::optional<long long> ranks_per_launcher(const Launch& launch, const SbatchScript& script) {
    const auto written = launch.option("--nproc-per-node", script);
    if (!written)
        return std::nullopt;
    if (*written == "gpu" || *written == "auto")
        return script.gpus_per_node();
    return whole_number(*written);
}

const char* name_of(Tool tool) {
    constexpr std::array<const char*, 6> kNames = {
        "the program", "torchrun", "torch.distributed.launch", "autolaunch", "mpirun", "python"};
    return kNames.at(static_cast<std::size_t>(tool));
}

}  // namespace autolaunch::launcher
