#include "base/text.hpp"
#include "plan/hidden_values.hpp"
#include "plan/launch_plan.hpp"
#include "plan/plan_checkpoint.hpp"
#include "plan/rank_secrets.hpp"
#include "plan/store_exposure.hpp"
#include "restart_policy/cause_policy.hpp"
#include "restart_policy/hang_limit.hpp"
#include "restart_policy/node_limits.hpp"
#include "site/site_text.hpp"
#include "topology/path_class.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace autolaunch::launcher {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell, two blanks between; the last column is not padded. Cells
// are ASCII but for model names and paths, where a column may come out wider than needed.
std::string format_rows(const std::vector<Row>& rows, const std::string& indent) {
    std::vector<std::size_t> widths;
    for (const Row& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const Row& row : rows) {
        std::string line = indent;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], widths[i]);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
    }
    return text;
}

std::string numa_text(const RankPlan& rank) {
    if (!rank.binding.memory_nodes.empty())
        return format_list(rank.binding.memory_nodes);
    if (rank.binding.cpus.empty() && rank.gpu && rank.gpu->numa_node)
        return std::to_string(*rank.gpu->numa_node);
    return "-";
}

std::string gpu_text(const RankPlan& rank) {
    if (!rank.gpu)
        return "-";
    std::string text = std::to_string(rank.binding.gpu.value_or(0));
    if (!rank.gpu->bdf.empty())
        text += " " + rank.gpu->bdf;
    if (!rank.gpu->model.empty())
        text += " " + rank.gpu->model;
    if (!rank.gpu->partition_of.empty())
        text += " (a part of it)";
    return text;
}

std::string hca_text(const RankPlan& rank) {
    if (!rank.hca)
        return "-";
    std::vector<std::string> names = rank.hca->further;
    names.insert(names.begin(), rank.hca->name);
    return fmt::format("{} {}", join(names, "+"), path_class_name(rank.hca->path));
}

std::string ranks_section(const LaunchPlan& plan) {
    const bool has_hcas =
        std::any_of(plan.ranks.begin(), plan.ranks.end(), [](const auto& r) { return r.hca; });
    std::vector<Row> rows = {{"RANK", "LOCAL", "GPU", "NUMA", "CPUS", "CORES"}};
    if (has_hcas)
        rows.front().push_back("HCA");
    rows.front().push_back("WHY");
    for (const RankPlan& rank : plan.ranks) {
        const auto& binding = rank.binding;
        rows.push_back({std::to_string(rank.rank), std::to_string(rank.local_rank), gpu_text(rank),
                        numa_text(rank),
                        binding.cpus.empty() ? "as inherited" : format_list(binding.cpus),
                        binding.physical_cores > 0 ? std::to_string(binding.physical_cores) : "?"});
        if (has_hcas)
            rows.back().push_back(hca_text(rank));
        rows.back().push_back(binding.reason);
    }
    return format_rows(rows, "  ");
}

// A variable that has one value for all ranks is one row; one that counts with the ranks is one row
// with its range.
std::string environment_section(const LaunchPlan& plan) {
    std::vector<Row> rows;
    const RankPlan& first = plan.ranks.front();
    for (const VariableChoice& choice : first.environment) {
        Row values;
        for (const RankPlan& rank : plan.ranks)
            for (const VariableChoice& other : rank.environment)
                if (other.name == choice.name)
                    values.push_back(other.value);
        const bool same = std::all_of(values.begin(), values.end(),
                                      [&](const auto& v) { return v == values[0]; });
        std::string shown = same ? choice.value : values.front() + " … " + values.back();
        rows.push_back({choice.name, shown, choice.reason});
    }
    rows.push_back({"MASTER_ADDR, MASTER_PORT", "at start", "a socket that listens already"});
    for (const VariableChoice& choice : plan.nccl.at_start)
        rows.push_back({choice.name, choice.value, choice.reason});
    rows.push_back({"AUTOLAUNCH_SOCKET", "at start", "the launcher's socket"});
    rows.push_back(
        {"AUTOLAUNCH_STORE_TOKEN", "at start", "a secret: what keys of autolaunch begin with"});
    if (!plan.output.preload.empty())
        rows.push_back({"AUTOLAUNCH_STDOUT", "at start", "the log, for the preloaded library"});
    rows.push_back({"AUTOLAUNCH_GENERATION", "at start",
                    "attempt number, from 0; also TORCHELASTIC_RESTART_COUNT"});
    rows.push_back(
        {"AUTOLAUNCH_TRAINER_CONFIG", "at start", "file with the free-form part of the spec"});
    rows.push_back({"TORCHELASTIC_ERROR_FILE", "at start", "where the rank may say why it failed"});
    return format_rows(rows, "  ");
}

std::string secrets_section(const LaunchPlan& plan) {
    std::vector<Row> rows;
    for (const SecretSpec& secret : plan.spec.given_secrets)
        rows.push_back({secret.name, describe_way(secret), describe_receivers(secret),
                        describe_source(secret)});
    return format_rows(rows, "  ");
}

std::string staging_section(const StagingChoice& staging) {
    std::vector<Row> rows{{"scratch", staging.scratch, staging.reason}};
    if (!staging.shared.folder.empty())
        rows.push_back({"shared cache", staging.shared.folder, staging.shared.reason});
    for (const StagedItem& item : staging.items)
        rows.push_back({item.variable, item.shown,
                        (item.found.empty() ? "seen when the job starts" : item.found) +
                            (item.verify.empty() ? "" : " · verified by " + item.verify) +
                            (item.unpack.empty() ? "" : " · unpacked as " + item.unpack) +
                            (item.streams ? " · ranks start before it is whole" : "")});
    return format_rows(rows, "  ");
}

std::string out_section(const StagingChoice& staging) {
    std::vector<Row> rows;
    if (staging.items.empty())
        rows.push_back({"scratch", staging.scratch, staging.reason});
    for (const OutItem& item : staging.out)
        rows.push_back({item.variable, "to " + item.to,
                        std::string(item.on_success ? "if all ranks succeed" : "at every end") +
                            (item.by_node ? " · a folder a node" : "") +
                            (item.may_overwrite ? " · what is there is replaced" : "") +
                            (item.found.empty() ? "" : " · " + item.found)});
    if (staging.out_time.count() > 0)
        rows.push_back(
            {"time for it",
             fmt::format("{:g} s", std::chrono::duration<double>(staging.out_time).count()),
             "kept before the time limit and a scheduler's SIGKILL"});
    return format_rows(rows, "  ");
}

std::string store_section(const LaunchPlan& plan) {
    const StoreExposure store = store_exposure(plan);
    return format_rows(
        {{"listens", store.listens}, {"admits", store.admits}, {"open to", store.open}}, "  ");
}

std::string way_section(const LaunchPlan& plan) {
    return format_rows({{"by TLS 1.3", "agents, and files that they hand from node to node"},
                        {"in the clear", sent_in_the_clear(plan.node_count, plan.spec.rendezvous)}},
                       "  ");
}

// Sources that say more than the reason does: a profile's name, a line of nccl.conf.
std::string with_source(const VariableChoice& choice) {
    const bool says_more =
        choice.source.starts_with("profile ") || choice.source.find(':') != std::string::npos;
    return says_more ? fmt::format("{} ({})", choice.reason, choice.source) : choice.reason;
}

std::string nccl_section(const LaunchPlan& plan) {
    const NcclEnvironment& nccl = plan.nccl;
    std::vector<Row> rows, others;
    if (!nccl.profile.empty())
        others.push_back({"profile", nccl.profile, "nccl.profile"});
    for (const VariableChoice& choice : nccl.set)
        rows.push_back({"set", choice.name + "=" + choice.value, with_source(choice)});
    for (const VariableChoice& choice : nccl.kept)
        rows.push_back({"kept", choice.name + "=" + choice.value, with_source(choice)});
    if (!nccl.compute_hcas.empty() && !nccl.excluded_hcas.empty())
        others.push_back({"hcas", join(nccl.compute_hcas, ", "), "for computing"});
    for (const VariableChoice& hca : nccl.excluded_hcas)
        others.push_back({"not used", hca.name, hca.reason});
    // What somebody else sets is told one by one; NCCL's own defaults are nothing to read here.
    std::vector<std::string> defaults;
    for (const VariableChoice& choice : nccl.left)
        if (choice.value.empty())
            others.push_back({"left", choice.name, with_source(choice)});
        else
            defaults.push_back(choice.name);
    if (!defaults.empty())
        others.push_back({"left", fmt::format("{} more", defaults.size()),
                          "often set, and NCCL's defaults are right here: --json names them"});
    return format_rows(rows, "  ") + format_rows(others, "  ");
}

// What a rank keeps, an item a line; those that are nothing are left out.
std::string memory_section(const MemoryForecast& memory) {
    const fsdp::MemoryPlan& plan = memory.plan;
    const auto bytes = [](std::int64_t count) {
        return format_binary(static_cast<std::uint64_t>(count));
    };
    std::vector<Row> rows;
    const auto add = [&](const char* what, std::int64_t count, std::string note) {
        if (count > 0)
            rows.push_back({what, bytes(count), std::move(note)});
    };
    add("parameters", plan.parameters, "what ranks compute with, between uses");
    add("masters", plan.masters, "what the optimizer updates");
    add("gradients", plan.gradients, "");
    add("optimizer", plan.optimizer, std::string(fsdp::name_of(memory.options.optimizer)));
    add("gather slots", plan.gather_slots,
        "buckets, about a layer each, that are whole for their turn");
    add("reduce slots", plan.reduce_slots, "whole gradients of a bucket, until they are summed");
    add("gradient trees", plan.gradient_trees, "sums of micro-batches in one order");
    add("gradient parts", plan.gradient_exchange,
        "what other GPUs send, to be summed in that order");
    rows.push_back({"in all", bytes(plan.total()), ""});
    if (memory.limit.bytes > 0)
        rows.back()[2] =
            fmt::format("of {} ({})", format_binary(memory.limit.bytes), memory.limit.of);
    add("on the host", plan.on_host,
        "masters, the optimizer's state and copies, in the CPU's memory");
    std::vector<Row> remarks{{"mostly", fsdp::what_dominates(plan, memory.options.strategy)}};
    for (const std::string& assumption : memory.assumptions)
        remarks.push_back({"assumed", assumption});
    return format_rows(rows, "  ") + format_rows(remarks, "  ");
}

// The command around each rank's is known at its start; here is what it is made of.
std::string container_section(const ContainerChoice& container) {
    std::vector<Row> rows{
        {"image", container.image,
         container.file_digest.empty() ? "" : "must have " + container.file_digest},
        {"runtime", container.wraps() ? container.program : container.runtime, container.reason}};
    if (!container.wraps())
        return format_rows(rows, "  ");
    rows.push_back({"workdir", container.workdir.empty() ? "the image's own" : container.workdir,
                    container.workdir.empty() ? "yours is not bound" : "bound, see below"});
    for (const ContainerBind& bind : container.binds)
        rows.push_back(
            {bind.writable ? "rw" : "ro",
             bind.source == bind.target ? bind.source : bind.source + " at " + bind.target,
             bind.reason});
    rows.push_back({"rw", "at start", "the agent's sockets; files of secrets, read-only"});
    rows.push_back({"variables", "all of a rank's, by name",
                    "but PATH, HOME, LD_LIBRARY_PATH and others that are of the node"});
    for (const std::string& option : container.options)
        rows.push_back({"option", option});
    return format_rows(rows, "  ");
}

std::string describe_mpi(const MpiChoice& mpi) {
    return fmt::format("{}: {}", mpi_mode_name(mpi.mode), mpi.reason);
}

std::string describe_output(const LaunchPlan& plan) {
    if (plan.spec.logging.stdio == "pty")
        return "pty: " + plan.output.reason;
    const std::string file = "file, ";
    if (!plan.output.by_lines)
        return file + "as programs buffer it: " + plan.output.reason;
    return file + (plan.output.preload.empty() ? "nothing preloaded: " : "by lines: ") +
           plan.output.reason;
}

std::string describe_preload(const PreloadChoice& preload) {
    if (preload.imports.empty())
        return (preload.automatic ? "not known yet: " : "nothing: ") + preload.reason;
    std::vector<std::string> statements;
    for (const PreloadedImport& import : preload.imports)
        statements.push_back(import.statement);
    return join(statements, "; ") + ": " + preload.reason;
}

// "./a x : 3 of ./b" where there are several programs.
std::string describe_command(const LaunchPlan& plan) {
    if (plan.spec.programs.empty())
        return join(plan.ranks.front().argv, " ");
    std::vector<std::string> programs;
    for (const ProgramSpec& program : plan.spec.programs)
        programs.push_back(fmt::format("{} of {}", program.ranks, join(program.command, " ")));
    return join(programs, " : ");
}

std::string head(const LaunchPlan& plan) {
    std::string text = fmt::format("{}   run {}\n", plan.job_name, plan.run_id);
    std::string node =
        fmt::format("{}, {} of {}", plan.hostname.empty() ? "unnamed" : plan.hostname,
                    plan.node_rank + 1, plan.node_count);
    if (!plan.saved_machine.empty())
        node += ", as saved in " + plan.saved_machine;
    std::vector<Row> rows{{"node", node},
                          {"placement", describe_placement(plan)},
                          {"mpi", describe_mpi(plan.mpi)},
                          {"output", describe_output(plan)},
                          {"preload", describe_preload(plan.preload)},
                          {"command", describe_command(plan)},
                          {"workdir", plan.workdir},
                          {"run dir", plan.run_dir}};
    for (const auto& [ranks, command] : plan.spec.trainer.wrap)
        rows.push_back({"wrap", fmt::format("{} around rank {}", command, ranks)});
    return text + format_rows(rows, "  ");
}

}  // namespace

std::string plan_table(const LaunchPlan& given, Secrets secrets) {
    const LaunchPlan plan = secrets == Secrets::show ? given : without_secrets(given);
    std::string text = head(plan);
    text += "\nranks\n" + ranks_section(plan);
    text += "\nenvironment, on top of the inherited one\n" + environment_section(plan);
    if (!plan.container.runtime.empty())
        text += "\ncontainer of each rank\n" + container_section(plan.container);
    if (const auto checkpoints = checkpoint_rows(plan); !checkpoints.empty())
        text += "\ncheckpoints of the library, by the spec\n" + format_rows(checkpoints, "  ");
    if (!plan.spec.given_secrets.empty())
        text += "\nsecrets of ranks, read when a generation starts\n" + secrets_section(plan);
    if (!plan.staging.items.empty())
        text +=
            "\ndata on this node's own disk, before ranks start\n" + staging_section(plan.staging);
    if (!plan.staging.out.empty())
        text +=
            "\nwhat ranks write on this node's own disk, and where it goes when the job ends\n" +
            out_section(plan.staging);
    text += "\nstore of the ranks\n" + store_section(plan);
    if (plan.node_count > 1)
        text += "\nbetween the nodes\n" + way_section(plan);
    text += "\nwhen a generation fails, by its cause\n" + policy_table(plan.spec.restart);
    text += "  a job that stands still is " + describe_hang_limit(plan.spec) + "\n";
    if (plan.world_size > 1)
        text += "  " + describe_straggler_policy(plan.spec) + "\n";
    if (const std::string limits = describe_node_limits(plan.spec, plan.node_count,
                                                        static_cast<int>(plan.spare_nodes.size()));
        !limits.empty())
        text += "  " + limits + "\n";
    if (plan.gpu_count > 0)
        text += "\nnccl\n" + nccl_section(plan);
    if (plan.memory)
        text += fmt::format("\nmemory of a rank before activations, {} on {} rank{}\n{}",
                            fsdp::name_of(plan.memory->options.strategy), plan.world_size,
                            plan.world_size == 1 ? "" : "s", memory_section(*plan.memory));
    if (plan.spec.site)
        text += "\nwhat the site says of this job\n" + site_table(*plan.spec.site);
    if (!plan.warnings.empty() || !plan.nccl.warnings.empty()) {
        text += "\nwarnings\n";
        for (const auto* list : {&plan.warnings, &plan.nccl.warnings})
            for (const std::string& warning : *list)
                text += "  ! " + warning + "\n";
    }
    if (!plan.notes.empty()) {
        text += "\nnotes\n";
        for (const std::string& note : plan.notes)
            text += "  - " + note + "\n";
    }
    return secrets == Secrets::show ? text : mask_secrets(text, plan.spec.secrets);
}

}  // namespace autolaunch::launcher
