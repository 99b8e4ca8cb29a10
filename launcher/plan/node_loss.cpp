#include "plan/node_loss.hpp"

#include "allocation/adapters.hpp"
#include "allocation/kill_wait.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "restart_policy/node_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostConfBytes = std::size_t{64} << 20;

/// An option of srun's command line, as getopt_long takes it: a unique beginning is enough.
struct SrunOption {
    std::string_view name;  ///< "no-kill"
    std::size_t shortest;   ///< of its beginnings
    char letter;            ///< 'k'
    bool value_follows;     ///< --wait 60
};
constexpr SrunOption kNoKill{"no-kill", 4, 'k', false}, kBadExit{"kill-on-bad-exit", 2, 'K', false},
    kWait{"wait", 3, 'W', true};

bool is_program(const std::string& word) {
    return std::string_view(word).substr(word.rfind('/') + 1) == "autolaunch";
}

// Its value; empty: it was given without; nothing: it was not given. The last counts.
std::optional<std::string> option_of(const std::vector<std::string>& words,
                                     const SrunOption& option) {
    std::optional<std::string> found;
    for (std::size_t i = 1; i < words.size() && !is_program(words[i]) && words[i] != "--"; ++i) {
        const std::string_view word = words[i];
        const std::string_view name = word.substr(0, word.find('='));
        if (name.starts_with("--") && name.size() - 2 >= option.shortest &&
            option.name.starts_with(name.substr(2))) {
            found = name.size() < word.size() ? std::string(word.substr(name.size() + 1)) : "";
            if (option.value_follows && name.size() == word.size() && i + 1 < words.size())
                found = words[i + 1];
        } else if (word.size() > 1 && word[0] == '-' && word[1] == option.letter) {
            found = std::string(word.substr(2));
            if (option.value_follows && found->empty() && i + 1 < words.size())
                found = words[i + 1];
        }
    }
    return found;
}

/// Of srun: its option, else its variable (or ours, which were its), else slurm.conf.
std::optional<std::string> told(const StepStart& step, const EnvironmentMap& environment,
                                const SrunOption& option, const char* variable) {
    if (step.srun) {
        if (auto given = option_of(step.srun->words, option))
            return given;
        if (auto set = lookup(step.srun->environment, variable))
            return set;
    }
    return lookup(environment, variable);
}

bool is_on(const std::optional<std::string>& value) {
    return value && *value != "0" && *value != "off" && *value != "no";
}

void add_no_kill(NodeLossWords& words, const StepStart& step, const EnvironmentMap& environment) {
    if (is_on(told(step, environment, kNoKill, "SLURM_NO_KILL")))
        return;
    if (step.srun)
        words.warnings.push_back(
            "srun was not told --no-kill: Slurm ends the step when it notices a lost node; srun "
            "--no-kill autolaunch …");
    else
        words.notes.push_back(
            "srun runs on another machine: whether it was told --no-kill, without which Slurm ends "
            "the step, is not known");
}

std::optional<std::string> bad_exit(const StepStart& step, const EnvironmentMap& environment) {
    auto value = told(step, environment, kBadExit, "SLURM_KILL_BAD_EXIT");
    const bool by_conf = !value && step.kill_on_bad_exit.value_or(0) > 0;
    if (!by_conf && !is_on(value))
        return std::nullopt;
    return fmt::format(
        "{}: srun ends the step with the task of a lost node; srun "
        "--kill-on-bad-exit=0 autolaunch …",
        by_conf ? "slurm.conf has KillOnBadExit=1" : "srun was told -K");
}

std::optional<std::string> wait_time(const StepStart& step, const EnvironmentMap& environment) {
    const auto value = told(step, environment, kWait, "SLURM_WAIT");
    long long seconds = step.wait_time.value_or(0);
    if (value && !parse_integer(*value, seconds))
        return std::nullopt;
    if (seconds <= 0)
        return std::nullopt;
    return fmt::format(
        "{}: srun ends the step {} s after the first task has ended, that of a lost "
        "node too; srun --wait=0 autolaunch …",
        value ? "srun was told --wait" : "slurm.conf has WaitTime", seconds);
}

// "#SBATCH --no-kill", or -k.
bool asks_no_kill(const std::string& script) {
    for (const std::string& line : split(script, '\n')) {
        if (!line.starts_with("#SBATCH"))
            continue;
        for (const std::string& word : split(line, ' '))
            if (word.starts_with("--no-k") || word == "-k")
                return true;
    }
    return false;
}

// Slurm shows of a job neither --no-kill nor sbatch's command line; of its script it does.
void add_job_no_kill(NodeLossWords& words, const StepStart& step,
                     const EnvironmentMap& environment) {
    if (step.srun && !step.srun->environment.empty() &&
        !step.srun->environment.contains("SLURM_JOB_ID"))
        return;  // srun made the job, and its own option is the job's
    if (is_on(lookup(environment, "SBATCH_NO_KILL")) ||
        is_on(lookup(environment, "SALLOC_NO_KILL")) ||
        (step.batch_script && asks_no_kill(*step.batch_script)))
        return;
    if (step.batch_script)
        words.warnings.push_back(
            "the job's script does not ask for it, so that Slurm ends the job when it notices a "
            "lost node (unless sbatch was told on its command line): #SBATCH --no-kill");
    else
        words.notes.push_back(
            "whether salloc or sbatch was told --no-kill, without which Slurm ends the job, is not "
            "known");
}

NodeLossWords of_slurm(const Allocation& allocation, const EnvironmentMap& environment,
                       const StepStart& step) {
    if (!allocation.on_every_node)  // a plan in the batch script
        return {{}, {"start it with srun --no-kill --wait=0, in a job with #SBATCH --no-kill"}};
    NodeLossWords words;
    add_job_no_kill(words, step, environment);
    add_no_kill(words, step, environment);
    for (const auto check : {bad_exit, wait_time})
        if (auto line = check(step, environment))
            words.warnings.push_back(std::move(*line));
    return words;
}

struct Keeper {
    std::string_view source;
    const char* what;
};
// Of what is not Slurm. A job of pods or of a host list outlives a node without further ado.
constexpr std::array kOthers = {
    Keeper{"mpirun",
           "mpirun ends all agents when it loses a node, or one of them (Open MPI 4.1 a node even "
           "with --enable-recovery): the job does not go on; start an agent on each node with "
           "--node-rank and --master-addr, or with --rdzv-endpoint"},
    Keeper{"pbs",
           "PBS ends a job that has lost a node, unless it was submitted with -W "
           "tolerate_node_failures=all; and started by mpirun, mpirun does: use pbsdsh"},
    Keeper{"lsf",
           "LSF may end a job that has lost a host: whether it does is the cluster's to say, and "
           "is not known here"},
    Keeper{
        "volcano",
        "a policy of the Volcano job may restart or end all pods when one fails: leave PodFailed "
        "and PodEvicted out of spec.policies"},
};

}  // namespace

StepStart look_at_step(const EnvironmentMap& environment) {
    if (lookup(environment, "SLURM_JOB_ID").value_or("").empty())
        return {};
    const FileReader read = [](const std::string& path) {
        return read_regular_file(path, kMostConfBytes);
    };
    return {find_srun(environment),
            {},
            slurm_conf_number("KillOnBadExit", environment, read),
            slurm_conf_number("WaitTime", environment, read)};
}

std::vector<std::string> batch_script_question(const EnvironmentMap& environment) {
    const std::string job = lookup(environment, "SLURM_JOB_ID").value_or("");
    return job.empty() ? std::vector<std::string>()
                       : std::vector<std::string>{"scontrol", "write", "batch_script", job, "-"};
}

NodeLossWords node_loss_words(const JobSpec& spec, int nodes, const Allocation& allocation,
                              const EnvironmentMap& environment, const StepStart& step) {
    if (!fewest_nodes(spec) || nodes < 2)
        return {};
    NodeLossWords words;
    if (allocation.source == "slurm")
        words = of_slurm(allocation, environment, step);
    for (const Keeper& other : kOthers)
        if (allocation.source == other.source)
            words.warnings.emplace_back(other.what);
    for (auto* lines : {&words.warnings, &words.notes})
        for (std::string& line : *lines)
            line.insert(0, "a lost node: ");
    return words;
}

}  // namespace autolaunch::launcher
