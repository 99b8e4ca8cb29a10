// Where checkpoints go, and whether there is time for the last one.

#include "base/text.hpp"
#include "lint/launch_edits.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool mentions(std::string_view text, std::initializer_list<std::string_view> words) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return std::any_of(words.begin(), words.end(),
                       [&](auto word) { return lower.find(word) != std::string::npos; });
}

bool is_checkpoint_name(std::string_view text) {
    return mentions(text, {"checkpoint", "ckpt", "save_dir", "save-dir"});
}

/// Line and text of each place that names where checkpoints go.
std::vector<std::pair<int, std::string>> checkpoint_places(const Subject& subject) {
    std::vector<std::pair<int, std::string>> places;
    const auto& script = subject.script;
    for (const auto& assignment : script.shell.assignments)
        if (is_checkpoint_name(assignment.name))
            places.emplace_back(assignment.value.line, script.resolved(assignment.value));
    for (const auto& launch : subject.launches)
        for (std::size_t i = 0; i < launch.program.size(); ++i) {
            const Word& word = launch.program[i];
            const std::size_t equals = word.value.find('=');
            if (!is_checkpoint_name(word.value.substr(0, equals)) || !word.value.starts_with('-'))
                continue;
            if (equals == std::string::npos && i + 1 == launch.program.size())
                continue;
            const Word& value = equals == std::string::npos ? launch.program[i + 1] : word;
            const bool by_variable =
                std::any_of(value.expansions.begin(), value.expansions.end(), is_checkpoint_name);
            if (!by_variable)
                places.emplace_back(word.line, script.resolved(value).substr(
                                                   equals == std::string::npos ? 0 : equals + 1));
        }
    if (subject.spec.readable()) {
        const auto& spec = subject.spec.result.spec;
        const int line = subject.spec.line_of("checkpoint.checkpoint_dir");
        const auto& lines = subject.spec.lines;
        // As written: the environment has replaced ${SLURM_JOB_ID} in what was read.
        if (!spec.checkpoint.checkpoint_dir.empty() &&
            static_cast<std::size_t>(line) <= lines.size()) {
            const std::string& written = lines[static_cast<std::size_t>(line) - 1];
            const bool by_job = written.find("SLURM_JOB") != std::string::npos;
            places.emplace_back(
                line, by_job ? std::string(trim(written)) : spec.checkpoint.checkpoint_dir);
        }
    }
    return places;
}

RuleHits checkpoint_in_job_folder(const Subject& subject) {
    RuleHits hits;
    for (const auto& [line, text] : checkpoint_places(subject))
        for (const char* name : {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID"})
            if (text.find(name) != std::string::npos) {
                hits.push_back(
                    {line,
                     fmt::format(
                         "checkpoints under {}: a job that is submitted again does not find them",
                         name)});
                break;
            }
    return hits;
}

RuleHits checkpoint_on_node(const Subject& subject) {
    RuleHits hits;
    for (const auto& [line, text] : checkpoint_places(subject))
        for (const char* place : {"/tmp", "/dev/shm", "/var/tmp", "$TMPDIR", "${TMPDIR",
                                  "$SLURM_TMPDIR", "${SLURM_TMPDIR"})
            if (text.starts_with(place)) {
                hits.push_back(
                    {line,
                     fmt::format(
                         "checkpoints on the node's own disk or memory ({}): gone with the node",
                         place)});
                break;
            }
    return hits;
}

RuleHits signal_no_lead(const Subject& subject) {
    const auto& script = subject.script;
    const SlurmOption* time = script.option("time");
    if (time == nullptr || script.has("signal"))
        return {};
    const bool saves =
        std::any_of(subject.launches.begin(), subject.launches.end(), [](const Launch& launch) {
            return std::any_of(launch.program.begin(), launch.program.end(), [](const Word& word) {
                return word.value.starts_with('-') && is_checkpoint_name(word.value);
            });
        });
    if (!saves)
        return {};
    const bool all_save =  // at SIGTERM: others would end 120 s earlier, and no better
        std::all_of(subject.launches.begin(), subject.launches.end(), [](const Launch& launch) {
            return launch.by_srun && launch.tool == Tool::autolaunch;
        });
    return {{time->line,
             "a time limit and checkpoints, but no signal in time for the last one",
             {},
             all_save ? add_directive(subject, *time, "--signal=TERM@120") : Edits{}}};
}

constexpr std::array<Rule, 3> kCheckpointRules = {{
    {"checkpoint-in-job-folder", LintSeverity::warning,
     "checkpoints in a folder named after the job's number",
     "A requeued job keeps its number; one that is submitted again has a new one and starts from "
     "nothing.",
     "name the folder after the experiment", checkpoint_in_job_folder},
    {"checkpoint-on-node", LintSeverity::warning, "checkpoints on a node's own disk",
     "A restart on other nodes does not find them, and Slurm may clean the folder when the job "
     "ends.",
     "save on a file system that all nodes share", checkpoint_on_node},
    {"signal-no-lead", LintSeverity::info, "a time limit without a signal before it",
     "At the limit Slurm sends SIGTERM and, KillWait (30 s) later, SIGKILL: often too late to "
     "save.",
     "#SBATCH --signal=TERM@120; for another signal autolaunch --signals-to-handle "
     "SIGUSR1,SIGTERM, too",
     signal_no_lead},
}};

}  // namespace

std::span<const Rule> checkpoint_rules() { return kCheckpointRules; }

}  // namespace autolaunch::launcher
