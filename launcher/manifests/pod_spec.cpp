#include "manifests/pod_spec.hpp"

#include "manifests/tree.hpp"
#include "manifests/yaml_text.hpp"
#include "spec/schema.hpp"
#include "spec/stored_spec.hpp"

#include <fmt/format.h>

#include <utility>

namespace autolaunch::launcher {

namespace {

/// It is read again: what looks like a reference is none any more.
void escape_references(Value& value) {
    std::size_t at = 0;
    while (value.is_scalar() && (at = value.text.find("${", at)) != std::string::npos) {
        value.text.insert(at, 1, '$');
        at += 3;
    }
    for (Value& item : value.items)
        escape_references(item);
    for (Entry& entry : value.entries)
        escape_references(entry.value);
}

void settle_key(const Section& section, bool for_trainer, Entry& entry) {
    const Key* key = section.find(entry.key);
    if (key != nullptr && key->form == Form::of_site)
        return;  // nothing is replaced in it
    escape_references(entry.value);
    if (key == nullptr || key->form == Form::free_form || contains_target(entry.value))
        return;
    const bool typed =
        key->form == Form::boolean || key->form == Form::whole_number || key->form == Form::number;
    if (typed || !for_trainer)
        unquote_replaced(entry.value);
}

void settle_section(Entry& entry) {
    const Section* section = find_section(entry.key);
    if (section != nullptr && section->of_site && !contains_target(entry.value))
        return;
    if (section == nullptr || section->free_form || !entry.value.is_mapping())
        return escape_references(entry.value);
    const bool for_trainer = section->for_trainer || entry.value.find("_target_") != nullptr;
    for (Entry& inner : entry.value.entries)
        settle_key(*section, for_trainer, inner);
}

/// What is for the submission alone.
void leave_out_submission(Value& root, const JobSpec& spec) {
    remove_key(root, "kubernetes");
    remove_key(root, "slurm_config");
    if (Entry* rendezvous = root.find("rendezvous"))
        remove_key(rendezvous->value, "address");
    if (!spec.slurm.job_name.empty())
        set_key(root, "slurm_config", "job_name", text_leaf(spec.slurm.job_name));
}

void set_secrets(Value& root, const KubernetesSpec& spec) {
    Entry* section = root.find("secrets");
    for (const auto& [name, key] : spec.secrets) {
        Entry* secret = section == nullptr ? nullptr : section->value.find(name);
        if (secret == nullptr)
            continue;
        const bool wrapped = secret->value.find("vault_transit") != nullptr;
        for (const char* source : {"file", "command", "vault", "vault_transit"})
            remove_key(secret->value, source);
        secret->value.entries.insert(secret->value.entries.begin(),
                                     Entry{wrapped ? "vault_transit" : "file",
                                           {},
                                           text_leaf(fmt::format("{}/{}", kSecretsFolder, name))});
    }
}

/// An emptyDir is open to all of its pod, which is nobody else's.
void set_workspace(Value& root, const JobSpec& spec, const PodFacts& facts) {
    if (facts.own_runs)
        set_key(root, "monitoring", "log_path", text_leaf(kRunsFolder));
    const auto is_empty_dir = [&](const std::string& path) {
        const KubernetesVolume* volume = volume_of(spec.kubernetes, path);
        return volume != nullptr && volume->source == KubernetesVolume::Source::empty_dir;
    };
    const bool empty_dir = facts.own_runs || is_empty_dir(spec.monitoring.log_path) ||
                           is_empty_dir(spec.storage.scratch);
    if (empty_dir && find_key(root, "workspace", "open_parents") == nullptr)
        set_key(root, "workspace", "open_parents", boolean_leaf(true));
}

}  // namespace

std::string spec_of_pods(const SpecResult& read, const PodFacts& facts) {
    Value root = read.root;
    remove_key(root, "include");
    for (Entry& entry : root.entries)
        settle_section(entry);
    if (find_key(root, "resource_management", "nodes") == nullptr)
        set_key(root, "resource_management", "nodes", number_leaf(facts.pods));
    leave_out_submission(root, read.spec);
    set_key(root, "restart", "kill_wait", text_leaf(fmt::format("{}s", facts.grace.count())));
    set_workspace(root, read.spec, facts);
    set_secrets(root, read.spec.kubernetes);
    return yaml_text(root);
}

// One pod says so: its index alone would look as if others were missing.
std::vector<std::string> command_of_pods(const JobSpec& spec, const PodFacts& facts) {
    std::vector<std::string> command = {spec.kubernetes.autolaunch_path};
    if (facts.pods == 1)
        command.emplace_back("--nnodes=1");
    command.emplace_back("-c");
    command.push_back(fmt::format("{}/{}", kSpecFolder, kSpecFile));
    return command;
}

}  // namespace autolaunch::launcher
