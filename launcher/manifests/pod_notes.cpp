#include "manifests/pod_notes.hpp"

#include "base/text.hpp"
#include "manifests/tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

namespace {

bool is_bucket(const std::string& path) { return path.find("://") != std::string::npos; }

/// One line of all keys that only Slurm knows, with the key that says the same here, if there is
/// one.
void note_slurm(const ManifestRequest& request, const PodFacts& facts, Manifests& result) {
    const Entry* section = request.read.root.find("slurm_config");
    if (section == nullptr)
        return;
    const std::map<std::string, std::string> here = {
        {"partition", "kubernetes.queue or node_selector"},
        {"time_limit", "kubernetes.active_deadline"},
        {"account", "kubernetes.queue"},
        {"qos", "kubernetes.priority_class"},
        {"constraint", "kubernetes.node_selector"},
        {"gres", "resource_management.gpus_per_node"},
        {"nodelist", "kubernetes.node_selector"},
        {"cpus_per_task", "kubernetes.cpus"},
        {"mem", "kubernetes.memory"},
        {"requeue", "kubernetes.retries"}};
    const bool counts_nodes =
        find_key(request.read.root, "resource_management", "nodes") != nullptr;
    std::vector<std::string> lost;
    for (const Entry& entry : section->value.entries) {
        const bool kept =
            entry.value.is_null() || entry.key == "job_name" ||
            (entry.key == "nodes" && (!counts_nodes || facts.pods == 1)) ||
            (entry.key == "gpus_per_node" && !request.read.spec.resources.gpus_per_node);
        if (kept)
            continue;
        const auto found = here.find(entry.key);
        lost.push_back(found == here.end() ? entry.key
                                           : fmt::format("{} ({})", entry.key, found->second));
    }
    if (!lost.empty())
        result.notes.push_back("of slurm_config is not carried over: " + join(lost, ", "));
}

/// Files that the spec names and no volume has: they have to be in the image.
void note_files(const ManifestRequest& request, Manifests& result) {
    const JobSpec& spec = request.read.spec;
    const std::array<std::pair<const char*, std::string>, 6> files = {
        {{"trainer.workdir", spec.trainer.workdir},
         {"nccl.profile",
          spec.nccl.profile.find('/') == std::string::npos ? "" : spec.nccl.profile},
         {"checkpoint.recipients_file", spec.checkpoint.recipients_file},
         {"checkpoint.identity_file", spec.checkpoint.identity_file},
         {"checkpoint.signing_key", spec.checkpoint.signing_key},
         {"checkpoint.authentication_key_file", spec.checkpoint.authentication_key_file}}};
    std::vector<std::string> missing;
    for (const auto& [key, path] : files)
        if (!path.empty() && volume_of(spec.kubernetes, path) == nullptr)
            missing.push_back(fmt::format("{} ({})", key, path));
    if (!missing.empty())
        result.notes.push_back("in no volume of the pods, so the image has to have it: " +
                               join(missing, ", "));
}

bool outlives_pods(const KubernetesSpec& pods, const std::string& path) {
    const KubernetesVolume* volume = volume_of(pods, path);
    return volume != nullptr && volume->source != KubernetesVolume::Source::empty_dir &&
           volume->source != KubernetesVolume::Source::config_map &&
           volume->source != KubernetesVolume::Source::secret;
}

/// What is written and lost.
void note_results(const ManifestRequest& request, const PodFacts& facts, Manifests& result) {
    const JobSpec& spec = request.read.spec;
    if (facts.own_runs)
        result.notes.push_back(
            fmt::format("run directories are in an emptyDir, {}, and gone with their pod; "
                        "monitoring.log_path on one of kubernetes.volumes keeps them",
                        kRunsFolder));
    else if (!outlives_pods(spec.kubernetes, spec.monitoring.log_path))
        result.notes.push_back(fmt::format(
            "monitoring.log_path {} is gone with its pod: none of kubernetes.volumes keeps it",
            spec.monitoring.log_path));
    const std::string& folder = spec.checkpoint.checkpoint_dir;
    if (spec.checkpoint.enabled && !is_bucket(folder) && !outlives_pods(spec.kubernetes, folder))
        result.notes.push_back(fmt::format(
            "checkpoints{}{} are gone with their pod, and nothing goes on from them: put "
            "checkpoint.checkpoint_dir on one of kubernetes.volumes",
            folder.empty() ? "" : " in ", folder));
}

void note_lock(const JobSpec& spec, Manifests& result) {
    if (!spec.kubernetes.rdma.empty())
        result.notes.push_back(
            "the pods may lock memory (IPC_LOCK), for kubernetes.rdma: a namespace of Pod Security "
            "\"restricted\" refuses them");
    const auto has = [&](KubernetesVolume::Source source) {
        const auto& volumes = spec.kubernetes.volumes;
        return std::any_of(volumes.begin(), volumes.end(), [source](const KubernetesVolume& each) {
            return each.source == source;
        });
    };
    if (has(KubernetesVolume::Source::host_path))
        result.notes.push_back(
            "kubernetes.volumes has a host_path: a namespace of Pod Security \"baseline\" or "
            "\"restricted\" refuses the pods");
    else if (has(KubernetesVolume::Source::nfs))
        result.notes.push_back(
            "kubernetes.volumes has nfs: a namespace of Pod Security \"restricted\" refuses the "
            "pods, and takes a claim");
}

}  // namespace

void note_pods(const ManifestRequest& request, const PodFacts& facts, Manifests& result) {
    const JobSpec& spec = request.read.spec;
    note_slurm(request, facts, result);
    if (!spec.rendezvous.address.empty())
        result.notes.push_back(
            "rendezvous.address is not carried over: the pods find pod 0 by its name");
    if (request.kind == ManifestKind::volcano && spec.kubernetes.retries.value_or(0) > 0)
        result.notes.push_back(
            "kubernetes.retries counts 75 and evictions, too: Volcano has one count for all that "
            "begins anew");
    note_files(request, result);
    note_results(request, facts, result);
    note_lock(spec, result);
}

}  // namespace autolaunch::launcher
