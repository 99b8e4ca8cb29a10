#include "plan/launch_plan.hpp"

#include "allocation/kill_wait.hpp"
#include "base/environment.hpp"
#include "base/refuse.hpp"
#include "base/text.hpp"
#include "binding/hca_pairing.hpp"
#include "plan/granted_otherwise.hpp"
#include "plan/job_shape.hpp"
#include "plan/plan_checkpoint.hpp"
#include "plan/rank_environment.hpp"
#include "plan/rank_secrets.hpp"
#include "plan/usable_gpus.hpp"
#include "session/environment.hpp"
#include "spec/rank_words.hpp"
#include "spec/units.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace autolaunch::launcher {
namespace {

std::string absolute(const std::string& path, const std::string& current_dir) {
    const auto whole = (std::filesystem::path(current_dir) / path).lexically_normal();
    return whole.has_filename() ? whole.string() : whole.parent_path().string();
}

std::vector<std::string> command_line(const TrainerSpec& trainer) {
    std::vector<std::string> argv;
    if (!trainer.module.empty())
        argv = {"python", "-m", trainer.module};
    argv.insert(argv.end(), trainer.command.begin(), trainer.command.end());
    if (argv.empty())
        refuse("there is nothing to run",
               "set trainer.command, or give a program after the options");
    return argv;
}

std::string wrap_of(const TrainerSpec& trainer, int rank) {
    std::string command;
    for (const auto& [ranks, wrap] : trainer.wrap) {
        if (!rank_set_from(ranks).value_or(RankSet{}).contains(rank))
            continue;
        if (!command.empty())
            refuse(
                fmt::format("rank {} is wrapped twice: in '{}' and in '{}'", rank, command, wrap),
                "trainer.wrap and --wrap name each rank once; write both commands as one");
        command = wrap;
    }
    return command;
}

// Ranks that the user has named must be there.
void check_named_ranks(const JobSpec& spec, int world_size) {
    const std::string there = fmt::format(", but there are ranks 0 to {}", world_size - 1);
    const InputSpec& input = spec.trainer.input;
    if (input.to == InputSpec::To::rank && input.rank >= world_size)
        refuse(fmt::format("stdin is to go to rank {}{}", input.rank, there),
               "--stdin, or trainer.stdin, names one of them, all or none");
    if (spec.debug_rank.value_or(0) >= world_size)
        refuse(fmt::format("rank {} is to be debugged{}", *spec.debug_rank, there),
               "--debug-rank and --gdb name one of them");
    for (const auto& [ranks, wrap] : spec.trainer.wrap) {
        const auto set = rank_set_from(ranks);
        if (!set || set->highest() >= world_size)
            refuse(fmt::format("'{}' is to be around ranks {}{}", wrap, ranks, there),
                   "trainer.wrap and --wrap name ranks of the job, or all");
    }
}

std::string program_name(const TrainerSpec& trainer) {
    if (!trainer.module.empty())
        return trainer.module;
    return std::filesystem::path(trainer.command.front()).stem().string();
}

BindingMode binding_mode_of(const ResourceSpec& resources) {
    if (!resources.binding_list.empty())
        return BindingMode::list;
    if (const auto mode = binding_mode_from(resources.binding))
        return *mode;
    refuse(fmt::format("'{}' is no way to bind ranks", resources.binding),
           "use node, exclusive, socket, core-complex or none");
}

void place_nodes(LaunchPlan& plan, const Roster& roster) {
    for (const int number : roster.in_rank_order()) {
        const RosterNode& node = roster.nodes[static_cast<std::size_t>(number)];
        plan.node_names.push_back(node.name);
        plan.ranks_per_node.push_back(node.ranks);
    }
    plan.spare_nodes = roster.spares();
    plan.node_count = roster.taking_part();
    plan.node_rank = roster.self;
    plan.group_rank = roster.taking_part_before(roster.self);
    plan.world_size = roster.world_size();
    const auto total = plan.spec.resources.total_ranks;
    if (total && *total != plan.world_size)
        refuse(fmt::format("{} ranks are asked for in all, but {} would be started", *total,
                           plan.world_size),
               "leave -np out, or ask for as many tasks or ranks a node as make that number");
    const int asked = plan.spec.resources.nodes, most = plan.spec.resources.most_nodes;
    if (most > std::max(asked, plan.node_count))
        plan.warnings.push_back(fmt::format(
            "--nnodes {}:{}: the job starts on {}; nodes that come later take part in a later "
            "generation",
            asked, most,
            plan.node_count == 1 ? "this node alone" : fmt::format("{} nodes", plan.node_count)));
    const auto spares = static_cast<int>(plan.spare_nodes.size());
    if (spares < plan.spec.resources.spare_nodes)
        plan.warnings.push_back(fmt::format("{} spare node{} asked for, {} of the {} there {} left",
                                            plan.spec.resources.spare_nodes,
                                            plan.spec.resources.spare_nodes == 1 ? " is" : "s are",
                                            spares == 0 ? "none" : std::to_string(spares),
                                            plan.node_count + spares, spares == 1 ? "is" : "are"));
    if (asked > 1 && std::max(asked, most) < plan.node_count)
        plan.warnings.push_back(fmt::format(
            "{} nodes are asked for, all {} of the allocation are used", asked, plan.node_count));
}

// Programs have their ranks one after another; those of one role may be of several.
void give_program(RankPlan& rank, const std::vector<ProgramSpec>& programs) {
    int first = 0;
    const ProgramSpec* own = &programs.back();
    for (const ProgramSpec& program : programs) {
        if (rank.rank < first + program.ranks) {
            own = &program;
            break;
        }
        first += program.ranks;
    }
    rank.argv = own->command;
    rank.role = own->role;
    rank.role_rank = rank.rank - first;
    rank.role_size = 0;
    for (const ProgramSpec& program : programs) {
        if (&program < own && program.role == own->role)
            rank.role_rank += program.ranks;
        rank.role_size += program.role == own->role ? program.ranks : 0;
    }
}

void name_run(LaunchPlan& plan, const Allocation& allocation, const std::string& current_dir,
              const std::string& run_name) {
    const JobSpec& spec = plan.spec;
    std::string unique = allocation.job_id.empty() ? run_name : allocation.job_id;
    if (unique.ends_with(".0"))
        unique.resize(unique.size() - 2);  // a job's only step, as a rule
    plan.job_name = !spec.name.empty()             ? spec.name
                    : !spec.slurm.job_name.empty() ? spec.slurm.job_name
                                                   : program_name(spec.trainer);
    plan.run_id = spec.run_id.empty() ? unique : spec.run_id;
    const std::string parent = spec.monitoring.log_path.empty() ? "runs" : spec.monitoring.log_path;
    plan.run_dir =
        absolute(spec.run_dir.empty() ? parent + "/" + unique : spec.run_dir, current_dir);
    plan.workdir = absolute(spec.trainer.workdir, current_dir);
}

void check_cores(LaunchPlan& plan, std::size_t core_count) {
    const auto wanted = plan.spec.resources.cpu_cores_per_gpu;
    if (!wanted || plan.gpu_count == 0)
        return;
    const std::size_t needed =
        static_cast<std::size_t>(*wanted) * static_cast<std::size_t>(plan.gpu_count);
    if (needed > core_count)
        plan.warnings.push_back(
            fmt::format("{} cores a GPU are asked for, {} in all, but {} may be used here", *wanted,
                        needed, core_count));
}

// The spec's word, a variable's (a pod cannot ask what its own grace period is), the scheduler's.
std::optional<std::chrono::seconds> choose_kill_wait(const JobSpec& spec,
                                                     const Allocation& allocation,
                                                     const EnvironmentMap& environment) {
    const auto whole = [](std::chrono::milliseconds time) {
        return std::chrono::floor<std::chrono::seconds>(time);
    };
    if (spec.restart.kill_wait.count() > 0)
        return whole(spec.restart.kill_wait);
    if (const auto found = environment.find("AUTOLAUNCH_KILL_WAIT"); found != environment.end()) {
        const auto given = duration_from(found->second);
        if (!given || given->count() <= 0)
            throw Error(ErrorCode::invalid_argument,
                        "AUTOLAUNCH_KILL_WAIT is \"" + found->second + "\", and no duration",
                        "give it as 45s, 2m or a number of seconds: the time between SIGTERM and "
                        "SIGKILL, in a pod its terminationGracePeriodSeconds");
        return whole(*given);
    }
    if (!allocation.kill_wait &&
        (allocation.source == "kubernetes" || allocation.source == "volcano"))
        return kDefaultPodGrace;
    return allocation.kill_wait;
}

// A shorter one ends before Slurm's SIGKILL whatever slurm.conf says, as a rule.
void check_grace_period(LaunchPlan& plan) {
    const auto grace = std::chrono::ceil<std::chrono::seconds>(plan.spec.restart.grace_period);
    if (!plan.slurm_job_id.empty() && !plan.kill_wait && grace >= kDefaultKillWait)
        plan.warnings.push_back(
            fmt::format("restart.grace_period is {} s, and no slurm.conf could be read here: with "
                        "its KillWait (usually {} s) Slurm may send SIGKILL before that is over",
                        grace.count(), kDefaultKillWait.count()));
}

void add_reader_notes(LaunchPlan& plan) {
    const CheckpointSpec& checkpoint = plan.spec.checkpoint;
    if (const std::string keys = keys_without_library(plan.spec); !keys.empty())
        plan.warnings.push_back(
            keys +
            ": the library does it, and the program is one of Python's, which has to do it "
            "itself (it finds the section in AUTOLAUNCH_TRAINER_CONFIG)");
    if (checkpoint.recipients.empty())
        return;
    plan.notes.push_back(fmt::format(
        "checkpoints that the library writes are encrypted for {} recipient{}; what a trainer "
        "writes by itself (torch.save) is not",
        checkpoint.recipients.size(), checkpoint.recipients.size() == 1 ? "" : "s"));
    if (checkpoint.identity_file.empty() && checkpoint.identity_secret.empty())
        plan.notes.emplace_back(
            "checkpoint.identity_file is not set: a restart goes on from an encrypted checkpoint "
            "only where the trainer itself names the secret key");
}

std::uint64_t usable_memory(const NodeTopology& topology) {
    std::uint64_t bytes = 0;
    for (const NumaNode& node : topology.numa_nodes)
        bytes += node.memory_bytes;
    const auto limit = topology.memory_limit_bytes;
    return limit && (bytes == 0 || *limit < bytes) ? *limit : bytes;
}

void check_cpu_quota(LaunchPlan& plan, const NodeTopology& topology) {
    const auto cpu_count = topology.allowed_cpus.size();
    if (!topology.cpu_quota || *topology.cpu_quota >= static_cast<double>(cpu_count))
        return;
    plan.cpu_quota = topology.cpu_quota;
    plan.warnings.push_back(fmt::format(
        "the cgroup allows {:g} CPUs' worth of time on {} CPUs: ranks that use more are stopped "
        "for part "
        "of every period; ask for {} CPUs, or for no limit (cpu.max, Kubernetes' limits.cpu)",
        *topology.cpu_quota, cpu_count, cpu_count));
}

void say_where_from(const JobSpec& spec, const EnvironmentMap& found, VariableChoice& kept) {
    if (!found.contains(kept.name))
        return;  // nccl.conf's, which says so itself
    if (spec.trainer.env.contains(kept.name)) {
        kept.source = "trainer.env";
    } else if (spec.nccl.env.contains(kept.name)) {
        kept.source = "nccl.env";
    } else {
        kept.source = "environment";
    }
    kept.reason = kept.source == "environment" ? "from your environment" : "from " + kept.source;
}

NcclEnvironment plan_nccl(const LaunchPlan& plan, const NodeTopology& topology,
                          const EnvironmentMap& environment, const NcclSite& site) {
    if (plan.gpu_count == 0)
        return {};
    const EnvironmentMap found = settings_of_user(plan.spec, environment);
    auto nccl = decide_nccl_environment({.topology = topology,
                                         .found = found,
                                         .conf = site.conf,
                                         .profile = site.profile,
                                         .node_count = plan.node_count,
                                         .rendezvous_interface = site.rendezvous_interface,
                                         .warnings = site.warnings,
                                         .rendezvous_is_ipv6_only = site.rendezvous_is_ipv6_only,
                                         .manage = plan.spec.nccl.manage});
    for (VariableChoice& kept : nccl.kept)
        say_where_from(plan.spec, found, kept);
    return nccl;
}

void pair_with_hcas(LaunchPlan& plan, const NodeTopology& topology, const UsableGpus& gpus,
                    const Allocation& allocation) {
    if (topology.hcas.empty())
        return;
    std::vector<HcaSeeker> seekers;
    for (const RankPlan& rank : plan.ranks) {
        const auto task = static_cast<std::size_t>(rank.local_rank);
        HcaSeeker seeker;
        if (rank.binding.gpu)
            seeker.gpu = gpus.positions[static_cast<std::size_t>(*rank.binding.gpu)];
        seeker.cpus = !rank.binding.cpus.empty()           ? rank.binding.cpus
                      : task < allocation.task_cpus.size() ? allocation.task_cpus[task]
                                                           : topology.allowed_cpus;
        seekers.push_back(std::move(seeker));
    }
    const auto pairings = pair_hcas(topology, seekers, plan.nccl.compute_hcas);
    for (std::size_t i = 0; i < pairings.size(); ++i) {
        if (!pairings[i])
            continue;
        const Hca& hca = topology.hcas[static_cast<std::size_t>(pairings[i]->hca)];
        plan.ranks[i].hca = RankHca{hca.name, hca.bdf, pairings[i]->path, pairings[i]->reason};
        for (const int further : pairings[i]->further)
            plan.ranks[i].hca->further.push_back(
                topology.hcas[static_cast<std::size_t>(further)].name);
    }
    for (std::string& sentence : describe_dead_hcas(topology, seekers, pairings))
        plan.warnings.push_back(std::move(sentence));
}

// Without a scheduler nobody keeps them for this job.
void keep_unused_gpus(LaunchPlan& plan, const NodeTopology& topology, const UsableGpus& gpus,
                      const Allocation& allocation) {
    if (!allocation.gpus.names && !allocation.rocm_gpus.names)
        return;
    if (allocation.source == "local" || allocation.source == "static")
        return;
    for (std::size_t at = 0; at < gpus.positions.size(); ++at)
        if (std::none_of(plan.ranks.begin(), plan.ranks.end(), [&](const RankPlan& rank) {
                return rank.binding.gpu == static_cast<int>(at);
            }))
            plan.unused_gpus.push_back(topology.gpus[static_cast<std::size_t>(gpus.positions[at])]);
}

void predict_memory(LaunchPlan& plan, const NodeTopology& topology, const UsableGpus& gpus) {
    RankPlaces places{plan.world_size, static_cast<int>(plan.ranks.size()), {}};
    for (const RankPlan& rank : plan.ranks) {
        if (!rank.binding.gpu)
            continue;
        const int position = gpus.positions[static_cast<std::size_t>(*rank.binding.gpu)];
        places.gpus.push_back(&topology.gpus[static_cast<std::size_t>(position)]);
    }
    plan.memory = forecast_memory(plan.spec, places, topology);
    if (plan.memory && !plan.memory->warning.empty())
        plan.warnings.push_back(plan.memory->warning);
}

/// A key of the spec that nothing in this version acts on.
struct UnusedSetting {
    const char* key;
    bool (*given)(const JobSpec& spec);
};

constexpr UnusedSetting kUnused[] = {
    {"resource_management.memory_per_gpu",
     [](const JobSpec& s) { return s.resources.memory_per_gpu_bytes && !s.model_size.parameters; }},
    {"monitoring.slurm_integration",
     [](const JobSpec& s) { return s.monitoring.slurm_integration; }},
};

// So that nobody relies on them unknowingly. What the trainer reads (distributed, checkpoint) and
// what a scheduler has already granted (slurm_config) is not among them.
std::vector<std::string> unused_settings(const JobSpec& spec) {
    std::vector<std::string> keys;
    for (const UnusedSetting& setting : kUnused)
        if (setting.given(spec))
            keys.emplace_back(setting.key);
    return keys;
}

// What the spec asks of measurements in vain.
std::vector<std::string> monitoring_warnings(const MonitoringSpec& monitoring) {
    constexpr double kFewestSeconds = 1;
    std::vector<std::string> warnings;
    const bool is_off = !monitoring.resource_tracking.value_or(true);
    if (is_off && (!monitoring.textfile_directory.empty() || !monitoring.metrics_listen.empty()))
        warnings.emplace_back(
            "monitoring.resource_tracking is false: there is nothing for "
            "monitoring.textfile_directory and monitoring.metrics_listen to tell");
    if (monitoring.metrics_listen.empty() &&
        (monitoring.metrics_port || !monitoring.metrics_targets_directory.empty()))
        warnings.emplace_back(
            "monitoring.metrics_port and monitoring.metrics_targets_directory have no effect "
            "without monitoring.metrics_listen: control");
    if (!is_off && monitoring.interval_seconds.value_or(kFewestSeconds) < kFewestSeconds)
        warnings.emplace_back(
            "monitoring.interval_seconds is below 1: nodes are measured once a "
            "second, which is the most");
    return warnings;
}

// One that is in the environment, too, would reach every rank, and be another value.
void note_inherited_secrets(LaunchPlan& plan, const EnvironmentMap& environment) {
    for (const SecretSpec& secret : plan.spec.given_secrets)
        if (environment.contains(secret.name))
            plan.notes.push_back(fmt::format(
                "{} is in your environment, too: ranks get it as secrets.{} says, and no other way",
                secret.name, secret.name));
}

std::string inside_a_rank(const EnvironmentMap& environment, int nodes) {
    return fmt::format("started inside rank {} of another autolaunch: this is a job of its own{}",
                       value_of(environment, env::kRank), nodes == 1 ? ", on this node alone" : "");
}

}  // namespace

EnvironmentMap settings_of_user(const JobSpec& spec, const EnvironmentMap& environment) {
    EnvironmentMap found = environment;
    for (const auto* section : {&spec.nccl.env, &spec.trainer.env})
        for (const auto& [name, value] : *section)
            found[name] = value;
    return found;
}

LaunchPlan make_plan(const JobSpec& spec, const Allocation& allocation,
                     const NodeTopology& topology, const Roster& roster,
                     const EnvironmentMap& environment, const std::string& current_dir,
                     const NcclSite& nccl) {
    LaunchPlan plan;
    plan.spec = spec;
    const auto argv = command_line(spec.trainer);
    place_nodes(plan, roster);
    check_named_ranks(spec, plan.world_size);
    check_secrets(spec, plan.world_size);
    name_run(plan, allocation, current_dir, roster.run_name);
    plan.tasks_here = std::max(allocation.tasks_on_node.value_or(1), 1);
    plan.ends_at = allocation.ends_at;
    plan.kill_wait = choose_kill_wait(spec, allocation, environment);
    plan.scheduler = allocation.source;
    plan.restart_count = allocation.restart_count;
    plan.warnings.insert(plan.warnings.end(), allocation.notes.begin(), allocation.notes.end());
    if (allocation.source == "slurm") {
        const std::size_t dot = std::min(allocation.job_id.find('.'), allocation.job_id.size());
        plan.slurm_job_id = allocation.job_id.substr(0, dot);
        plan.slurm_step_id = allocation.job_id.substr(std::min(dot + 1, allocation.job_id.size()));
    }
    plan.hostname = topology.hostname;
    plan.numa_node_count = static_cast<int>(topology.numa_nodes.size());
    plan.allowed_cpu_count = static_cast<int>(topology.allowed_cpus.size());
    plan.binding_mode = binding_mode_of(spec.resources);
    check_grace_period(plan);
    plan.uncompared_time_limit = uncompared_time_limit(spec.slurm, environment);
    if (allocation.inside_a_rank)
        plan.warnings.push_back(inside_a_rank(environment, plan.node_count));
    for (auto& warning : granted_otherwise(spec.slurm, environment))
        plan.warnings.push_back(std::move(warning));
    // What a file does not tell is no fault of the machine; GPUs that a live one hides may be.
    auto& said = topology.source == kThisMachine ? plan.warnings : plan.notes;
    said.insert(said.end(), topology.notes.begin(), topology.notes.end());

    const UsableGpus gpus = choose_usable_gpus(topology, allocation, spec.resources);
    plan.warnings.insert(plan.warnings.end(), gpus.warnings.begin(), gpus.warnings.end());
    plan.notes.insert(plan.notes.end(), gpus.notes.begin(), gpus.notes.end());
    plan.gpu_count = static_cast<int>(gpus.positions.size());
    plan.gpu_mask = gpus.mask;
    plan.gpu_mask_variable = gpus.mask_variable;
    plan.gpu_mask_each = gpus.mask_each;
    if (topology.cores_are_told)
        check_cores(plan, topology.cores.size());
    check_cpu_quota(plan, topology);
    plan.node_memory_bytes = usable_memory(topology);
    add_reader_notes(plan);
    if (const auto unused = unused_settings(spec); !unused.empty())
        plan.warnings.push_back("no effect in this version: " + join(unused, ", "));
    const RosterNode& self = roster.nodes[static_cast<std::size_t>(roster.self)];
    const int local_ranks = self.ranks > 0 ? self.ranks : self.held_back;  // a spare is ready
    const int first_rank = roster.first_rank(roster.self);
    plan.nccl = plan_nccl(plan, topology, environment, nccl);

    BindingPlan binding = bind_ranks(topology, gpus.positions, local_ranks, plan.binding_mode,
                                     allocation.task_cpus, spec.resources.binding_list);
    plan.warnings.insert(plan.warnings.end(), binding.warnings.begin(), binding.warnings.end());
    plan.notes.insert(plan.notes.begin(), binding.notes.begin(), binding.notes.end());
    for (int local_rank = 0; local_rank < local_ranks; ++local_rank) {
        RankPlan rank;
        rank.local_rank = local_rank;
        rank.rank = first_rank + local_rank;
        rank.argv = argv;
        rank.wrap = wrap_of(spec.trainer, rank.rank);
        rank.role = spec.role;
        rank.role_rank = rank.rank;
        rank.role_size = plan.world_size;
        if (!spec.programs.empty())
            give_program(rank, spec.programs);
        rank.secrets = secrets_of_rank(spec, rank.rank, rank.role);
        rank.binding = std::move(binding.ranks[static_cast<std::size_t>(local_rank)]);
        if (rank.binding.gpu) {
            const int position = gpus.positions[static_cast<std::size_t>(*rank.binding.gpu)];
            rank.gpu = topology.gpus[static_cast<std::size_t>(position)];
        }
        plan.ranks.push_back(std::move(rank));
    }
    keep_unused_gpus(plan, topology, gpus, allocation);
    pair_with_hcas(plan, topology, gpus, allocation);
    predict_memory(plan, topology, gpus);
    for (RankPlan& rank : plan.ranks)
        rank.environment = planned_environment(plan, rank, environment);
    note_inherited_secrets(plan, environment);
    for (std::string& warning : monitoring_warnings(spec.monitoring))
        plan.warnings.push_back(std::move(warning));
    for (std::string& warning : exposed_arguments(plan))
        plan.warnings.push_back(std::move(warning));
    for (std::string& warning : overridden_contract(spec.trainer.env))
        plan.warnings.push_back(std::move(warning));
    return plan;
}

LaunchPlan plan_saved_machine(const JobSpec& spec, const NodeTopology& topology,
                              const std::string& file, const EnvironmentMap& environment,
                              const std::string& current_dir, const NcclSite& nccl) {
    Allocation allocation;
    allocation.node_names.resize(static_cast<std::size_t>(std::max(spec.resources.nodes, 1)));
    allocation.node_names.front() = topology.hostname;
    const JobShape shape = decide_shape(spec, allocation, topology);
    const Roster roster = assume_alike(allocation, shape.ranks_here, "saved-machine");
    LaunchPlan plan = make_plan(spec, allocation, topology, roster, environment, current_dir, nccl);
    plan.saved_machine = file;
    return plan;
}

std::string describe_placement(const LaunchPlan& plan) {
    const auto plural = [](int count, const char* noun) {
        return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
    };
    return fmt::format("{} of {} ranks here · mode {} · {} · {}", plan.ranks.size(),
                       plan.world_size, binding_mode_name(plan.binding_mode),
                       plural(plan.numa_node_count, "NUMA node"),
                       plan.gpu_count == 0 ? "no GPUs" : plural(plan.gpu_count, "GPU"));
}

}  // namespace autolaunch::launcher
