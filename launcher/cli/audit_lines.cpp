#include "cli/audit_lines.hpp"

#include "audit/trail_record.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/owned_folder.hpp"
#include "secrets/secrets.hpp"
#include "site/audit_kinds.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
void set_if_any(Json& json, const char* key, const T& value) {
    if (!value.empty())
        json[key] = value;
}

Json start_of(const LaunchPlan& plan, std::optional<int> requeue) {
    Json json = {
        {"run_dir", plan.run_dir},         {"node_rank", plan.node_rank},
        {"nodes", plan.node_count},        {"world_size", plan.world_size},
        {"ranks_here", plan.ranks.size()}, {"spec_digest", hex64(plan.spec.source_digest)}};
    set_if_any(json, "spec", plan.spec.spec_file);
    if (!plan.ranks.empty() && !plan.ranks.front().argv.empty())
        json["command"] = mask_arguments(plan.ranks.front().argv, plan.spec.secrets);
    if (requeue)
        json["requeue"] = *requeue;
    return json;
}

Json grants_of(const LaunchPlan& plan) {
    std::set<std::string> gpus, hcas;
    for (const RankPlan& rank : plan.ranks) {
        if (rank.gpu)
            gpus.insert(rank.gpu->uuid.empty() ? rank.gpu->bdf : rank.gpu->uuid);
        if (rank.hca)
            hcas.insert(rank.hca->name);
    }
    Json paths = {{"run_dir", plan.run_dir}};
    set_if_any(paths, "checkpoints", plan.spec.checkpoint.checkpoint_dir);
    set_if_any(paths, "restore_from", plan.spec.checkpoint.restore_from);
    set_if_any(paths, "workdir", plan.spec.trainer.workdir);
    return {{"gpus", gpus}, {"hcas", hcas}, {"paths", paths}};
}

// Names alone.
Json secrets_of(const LaunchPlan& plan) {
    std::set<std::string> names;
    for (const RankPlan& rank : plan.ranks)
        for (const VariableChoice& variable : rank.environment)
            if (names_secret(variable.name))
                names.insert(variable.name);
    return names;
}

void keep_record(AuditTrail& trail, const LaunchPlan& plan) {
    const auto head = trail.head();
    if (!head)
        return;
    try {
        keep_trail_record(OwnedFolder::open(plan.run_dir), plan.node_rank,
                          absolute_path(trail.path()), *head, plan.run_id);
    } catch (const Error&) {  // the trail itself is there; `audit verify` takes its path
    }
}

void record(AuditTrail& trail, const CheckpointPublished& checkpoint) {
    trail.record(audit_kind::kWritten,
                 {{"step", checkpoint.step}, {"path", checkpoint.path}, {"rank", checkpoint.rank}});
}

void record(AuditTrail& trail, const CheckpointLoaded& checkpoint) {
    trail.record(audit_kind::kRead,
                 {{"step", checkpoint.step}, {"path", checkpoint.path}, {"rank", checkpoint.rank}});
}

void record(AuditTrail& trail, const CheckpointDeleted& checkpoint) {
    trail.record(audit_kind::kDeleted, {{"path", checkpoint.path}, {"rank", checkpoint.rank}});
}

void record(AuditTrail& trail, const JobAsked& asked) {
    Json json = {{"what", asked.what}, {"who", asked.who}};
    set_if_any(json, "node", asked.node);
    trail.record(audit_kind::kAsked, std::move(json));
}

template <class Other>
void record(AuditTrail&, const Other&) {}

void begin(AuditTrail& trail, const LaunchPlan& plan, const std::string& key_source,
           std::optional<int> requeue) {
    trail.after_split();
    trail.set_job(plan.run_id);
    trail.set_secrets(plan.spec.secrets);
    trail.require(audit_kind::kGrants, grants_of(plan));
    if (!key_source.empty())
        trail.require(audit_kind::kKeyUse, {{"key", "job key"}, {"source", key_source}});
    if (Json names = secrets_of(plan); !names.empty())
        trail.require(audit_kind::kKeyUse, {{"key", "variables of ranks"}, {"names", names}});
    trail.require(audit_kind::kStart, start_of(plan, requeue), true);
    keep_record(trail, plan);
    trail.set_on_failure([] { ::raise(SIGTERM); });
}

// The head's last line names the heads of the other nodes' trails, as the run directory has them.
int end(AuditTrail& trail, const LaunchPlan& plan, int exit_code, std::string& why) {
    trail.set_on_failure({});
    Json json = {{"exit_code", exit_code}};
    if (plan.node_rank == 0 && plan.node_count > 1)
        json["other_heads"] = other_heads(plan.run_dir, plan.node_rank);
    trail.record(audit_kind::kEnd, std::move(json), true);
    keep_record(trail, plan);
    if (!trail.failed())
        return exit_code;
    why = AuditMissing(trail.why_lost()).what();
    return exit_code::kCannotCreate;
}

}  // namespace

JobWitness audit_witness(AuditTrail& trail) {
    if (!trail.enabled())
        return {};
    return {
        .begins = [&trail](const LaunchPlan& plan, const std::string& key_source,
                           std::optional<int> requeue) { begin(trail, plan, key_source, requeue); },
        .happens =
            [&trail](const Event& event) {
                std::visit([&trail](const auto& what) { record(trail, what); }, event.what);
            },
        .ends = [&trail](const LaunchPlan& plan, int exit_code,
                         std::string& why) { return end(trail, plan, exit_code, why); }};
}

}  // namespace autolaunch::launcher
