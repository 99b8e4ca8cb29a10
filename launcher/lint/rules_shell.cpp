// What the batch script's shell does with a job: its exit code, its signals, its environment.

#include "base/text.hpp"
#include "lint/launch_edits.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace autolaunch::launcher {

namespace {

/// `set -e`, `set -euo pipefail`, `#!/bin/bash -e`, also the long names.
bool has_shell_option(const SbatchScript& script, char letter, const std::string& name) {
    if (!script.lines.empty() && script.lines[0].starts_with("#!")) {
        const std::size_t option = script.lines[0].find(" -");
        if (option != std::string::npos &&
            script.lines[0].find(letter, option) != std::string::npos)
            return true;
    }
    for (const auto& command : script.shell.commands) {
        if (!command.is("set"))
            continue;
        for (std::size_t i = 1; i < command.words.size(); ++i) {
            const std::string& word = command.words[i].value;
            if (word == name || (letter != 0 && word.starts_with('-') && !word.starts_with("--") &&
                                 word.find(letter) != std::string::npos))
                return true;
        }
    }
    return false;
}

bool is_training(const Launch& launch) { return launch.by_srun || launch.tool != Tool::other; }

const Launch* last_launch(const Subject& subject) {
    const Launch* last = nullptr;
    for (const auto& launch : subject.launches)
        if (is_training(launch) && !launch.command->in_function)
            last = &launch;
    return last;
}

RuleHits background_without_wait(const Subject& subject) {
    RuleHits hits;
    if (!subject.script.is_batch)
        return hits;    // outside of a job nothing is ended with the script
    int last_wait = 0;  // or what the script stays for while a server runs behind it
    for (const auto& command : subject.script.shell.commands)
        if (command.is("wait") || command.is("fg") || command.is("tail") || command.is("sleep"))
            last_wait = std::max(last_wait, command.line);
    for (const auto& launch : subject.launches)
        if (!launch.command->background)
            last_wait = std::max(last_wait, launch.line);
    for (const auto& launch : subject.launches)
        if (launch.command->background && !launch.command->in_function && last_wait < launch.line)
            hits.push_back(
                {launch.line,
                 "started with &, and no wait follows: the script ends, and Slurm kills it",
                 {},
                 append_line(subject.source, "wait")});
    return hits;
}

/// Whether what comes after `launch` may end the script with 0 although the launch failed; the line
/// that does.
std::optional<int> hides_status(const Subject& subject, const Launch& launch) {
    const auto& script = subject.script;
    if (launch.command->guarded || launch.by_exec || launch.command->background)
        return std::nullopt;
    const ShellCommand* last = nullptr;
    for (const auto& assignment : script.shell.assignments)
        if (assignment.value.line >= launch.line && assignment.value.expands("?"))
            return std::nullopt;
    for (const auto& command : script.shell.commands) {
        if (&command <= launch.command || command.in_substitution || command.in_function)
            continue;
        for (const auto& word : command.words)
            if (word.expands("?") || word.expands("PIPESTATUS"))
                return std::nullopt;
        last = &command;
    }
    if (last == nullptr || last->depth > 0 || last->guarded || last->piped)
        return std::nullopt;
    const bool harmless = last->is("echo") || last->is("printf") || last->is("date") ||
                          last->is("sleep") || last->is("true") || last->is(":") ||
                          last->is("rm") || last->is("cp") || last->is("sync");
    if (harmless)
        return last->line;
    if (last->is("exit") && last->words.size() == 2 && last->words[1].value == "0")
        return last->line;
    return std::nullopt;
}

RuleHits status_lost(const Subject& subject) {
    RuleHits hits;
    const auto& script = subject.script;
    const Launch* launch = last_launch(subject);
    if (launch == nullptr || !script.is_batch || has_shell_option(script, 'e', "errexit"))
        return hits;
    if (const auto line = hides_status(subject, *launch))
        hits.push_back(
            {*line,
             fmt::format("the script ends with 0 here, also when line {} has failed", launch->line),
             {},
             insert_line(subject.source, launch->line, "set -e")});
    return hits;
}

RuleHits pipe_hides_status(const Subject& subject) {
    RuleHits hits;
    if (has_shell_option(subject.script, 0, "pipefail") || !subject.script.is_batch)
        return hits;
    for (const auto& command : subject.script.shell.commands)
        for (const auto& word : command.words)
            if (word.expands("PIPESTATUS"))
                return hits;
    for (const auto& launch : subject.launches)
        if (launch.command->piped && !launch.command->in_function)
            hits.push_back(
                {launch.line,
                 "its output goes through a pipe, whose last command gives the exit code",
                 {},
                 insert_line(subject.source, launch.line, "set -o pipefail")});
    return hits;
}

/// USR1 of "B:SIGUSR1@120"; `to_shell` is for B:.
struct LeadSignal {
    std::string name;
    bool to_shell = false;
    int line = 0;
};
std::optional<LeadSignal> lead_signal(const SbatchScript& script) {
    const SlurmOption* option = script.option("signal");
    if (option == nullptr || !option->has_value)
        return std::nullopt;
    LeadSignal signal{option->value.value, false, option->line};
    signal.name = signal.name.substr(0, signal.name.find('@'));
    while (signal.name.size() > 2 && signal.name[1] == ':') {
        signal.to_shell = signal.to_shell || signal.name[0] == 'B' || signal.name[0] == 'b';
        signal.name = signal.name.substr(2);
    }
    if (signal.name.starts_with("RB:") || signal.name.starts_with("BR:")) {
        signal.to_shell = true;
        signal.name = signal.name.substr(3);
    }
    if (signal.name.starts_with("SIG"))
        signal.name = signal.name.substr(3);
    return signal;
}

bool same_signal(std::string word, const std::string& name) {
    if (word.starts_with("SIG"))
        word = word.substr(3);
    const auto by_number = [](const std::string& text) -> std::string {
        if (const auto number = whole_number(text); number && *number > 0 && *number < 65)
            return signal_name(static_cast<int>(*number)).substr(3);
        return text;
    };
    return equals_ignoring_case(by_number(word), by_number(name));
}

/// The script's trap for that signal: its line.
std::optional<int> trap_line(const SbatchScript& script, const std::string& signal) {
    for (const auto& command : script.shell.commands) {
        if (!command.is("trap"))
            continue;
        for (std::size_t i = 2; i < command.words.size(); ++i)
            if (same_signal(command.words[i].value, signal))
                return command.line;
    }
    return std::nullopt;
}

/// Without B:, and so that autolaunch knows what to do at it; empty where others get it, too.
Edits to_the_steps(const Subject& subject, const LeadSignal& signal) {
    const SlurmOption& option = *subject.script.option("signal");
    if (!option.value.value.starts_with("B:"))
        return {};
    Edits edits = set_option_value(subject.source, option, option.value.value.substr(2));
    for (const auto& launch : subject.launches) {
        if (launch.tool != Tool::autolaunch)
            return {};
        if (signal.name != "TERM" && launch.option_word("--signals-to-handle") == nullptr)
            edits = together(std::move(edits),
                             set_tool_option(subject, launch, "--signals-to-handle",
                                             fmt::format("SIG{},SIGTERM", signal.name)));
    }
    return edits;
}

RuleHits signal_without_trap(const Subject& subject) {
    const auto signal = lead_signal(subject.script);
    if (!signal || !signal->to_shell || trap_line(subject.script, signal->name))
        return {};
    const bool by_exec = std::any_of(subject.launches.begin(), subject.launches.end(),
                                     [](const Launch& launch) { return launch.by_exec; });
    if (by_exec)
        return {};
    return {{signal->line,
             fmt::format(
                 "--signal=B:{} goes to the batch shell alone, which has no trap for it: it dies",
                 signal->name),
             {},
             to_the_steps(subject, *signal)}};
}

RuleHits trap_blocked(const Subject& subject) {
    const auto signal = lead_signal(subject.script);
    if (!signal || !signal->to_shell || !trap_line(subject.script, signal->name))
        return {};
    RuleHits hits;
    for (const auto& launch : subject.launches) {
        const ShellCommand& command = *launch.command;
        if (command.in_function || command.background || launch.by_exec || !launch.by_srun)
            continue;
        hits.push_back(
            {launch.line,
             fmt::format("the trap for {} only runs when this command has ended", signal->name)});
    }
    return hits;
}

RuleHits trap_unreached(const Subject& subject) {
    const auto signal = lead_signal(subject.script);
    if (!signal || signal->to_shell)
        return {};
    const auto line = trap_line(subject.script, signal->name);
    if (!line)
        return {};
    const SlurmOption& option = *subject.script.option("signal");
    const bool waits =
        std::none_of(subject.launches.begin(), subject.launches.end(), [](const Launch& launch) {
            return launch.by_srun && !launch.command->background && !launch.by_exec;
        });  // else the trap would be blocked
    return {
        {*line,
         fmt::format("--signal={} without B: goes to the job's steps, never to this shell",
                     signal->name),
         {},
         waits ? set_option_value(subject.source, option, "B:" + option.value.value) : Edits{}}};
}

RuleHits visible_devices(const Subject& subject) {
    RuleHits hits;
    for (const auto& setting : subject.environment)
        if (setting.exported && setting.name == "CUDA_VISIBLE_DEVICES" && setting.literal &&
            !setting.value.empty())
            hits.push_back({setting.line,
                            fmt::format("CUDA_VISIBLE_DEVICES={} is set by hand", setting.value),
                            {},
                            remove_assignment(subject.source, setting.line, setting.name)});
    return hits;
}

RuleHits omp_threads(const Subject& subject) {
    RuleHits hits;
    for (const auto& setting : subject.environment)
        if (setting.exported && setting.name == "OMP_NUM_THREADS" && setting.value == "1")
            hits.push_back(
                {setting.line,
                 "OMP_NUM_THREADS=1: the loader and the CPU's part of a step use one core",
                 {},
                 remove_assignment(subject.source, setting.line, setting.name)});
    return hits;
}

bool alone_in_line(const SourceLines& source, const ShellCommand& command) {
    std::vector<std::string> words;
    for (const auto& word : command.words)
        words.push_back(word.raw);
    const std::string* text = source.at(command.line);
    return text != nullptr && trim(*text) == join(words, " ");
}

RuleHits memlock(const Subject& subject) {
    RuleHits hits;
    for (const auto& command : subject.script.shell.commands) {
        if (!command.is("ulimit"))
            continue;
        for (const auto& word : command.words)
            if (word.value.starts_with('-') && word.value.find('l') != std::string::npos)
                hits.push_back({command.line,
                                "ulimit -l in a job cannot go above slurmd's own limit",
                                {},
                                alone_in_line(subject.source, command)
                                    ? remove_line(subject.source, command.line)
                                    : Edits{}});
    }
    return hits;
}

constexpr std::array<Rule, 9> kShellRules = {{
    {"background-without-wait", LintSeverity::error, "training in the background, and no wait",
     "When the batch script ends, the job ends, with everything that it has started.",
     "add wait at the end", background_without_wait},
    {"status-lost", LintSeverity::warning, "the script ends with 0 although training failed",
     "A script's exit code is its last command's, so Slurm shows COMPLETED, nothing is requeued, "
     "and jobs that depend "
     "on it start.",
     "set -e at the top, exec in front of the last srun, or keep its code: code=$?; …; exit $code",
     status_lost},
    {"pipe-hides-status", LintSeverity::warning, "training in front of a pipe, without pipefail",
     "The exit code of a pipe is its last command's, and tee nearly always succeeds.",
     "set -o pipefail, or leave tee out: Slurm and autolaunch keep the output", pipe_hides_status},
    {"signal-without-trap", LintSeverity::warning, "--signal=B: and no trap for it",
     "B: sends the signal to the batch shell only. Without a trap it ends there, and the job with "
     "it, unsaved.",
     "leave B: out, so that srun's tasks get it (autolaunch --signals-to-handle SIGUSR1), or add a "
     "trap",
     signal_without_trap},
    {"trap-blocked", LintSeverity::warning, "a trap that waits for srun to end",
     "A shell runs traps between commands, not while one runs in the foreground.",
     "srun … & wait, or exec srun, or leave B: out", trap_blocked},
    {"trap-unreached", LintSeverity::warning,
     "a trap for a signal that never comes to the batch shell",
     "Without B:, Slurm sends the signal to the steps and leaves the batch shell out.",
     "add B: to --signal, or handle the signal in the trainer and remove the trap", trap_unreached},
    {"cuda-visible-devices", LintSeverity::warning, "CUDA_VISIBLE_DEVICES is set by hand",
     "Slurm sets it for what was granted; another value names GPUs of other jobs, or none.",
     "remove it", visible_devices},
    {"omp-threads", LintSeverity::info, "OMP_NUM_THREADS=1",
     "It silences torchrun's note, and leaves the cores that were asked for idle.",
     "remove it: autolaunch sets it to the cores that the rank has", omp_threads},
    {"memlock", LintSeverity::info, "ulimit -l in the script",
     "The hard limit is slurmd's; RDMA needs it unlimited there, on every node.",
     "LimitMEMLOCK=infinity for slurmd, and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
     memlock},
}};

}  // namespace

std::span<const Rule> shell_rules() { return kShellRules; }

}  // namespace autolaunch::launcher
