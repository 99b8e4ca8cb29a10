#include "manifests/pod_template.hpp"

#include "manifests/pod_spec.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

// 0440: a Secret's files are root's, and the pods' group may read them.
constexpr int kSecretMode = 0440;

/// Volumes and where they are mounted, side by side.
struct Mounts {
    std::vector<Value> volumes, mounts;

    void add(const std::string& name, const std::string& path, MapNode volume, MapNode mount = {}) {
        MapNode named;
        named.text("name", name);
        const Value source = volume;
        for (const Entry& entry : source.entries)
            named.add(entry.key, entry.value);
        volumes.push_back(named);
        MapNode placed;
        placed.text("name", name).text("mountPath", path);
        const Value more = mount;
        for (const Entry& entry : more.entries)
            placed.add(entry.key, entry.value);
        mounts.push_back(placed);
    }
};

MapNode read_only() { return MapNode().boolean("readOnly", true); }

MapNode memory_volume(std::optional<std::int64_t> limit) {
    MapNode memory;
    memory.text("medium", "Memory");
    if (limit)
        memory.text("sizeLimit", quantity_of_bytes(*limit));
    return MapNode().add("emptyDir", memory);
}

void mount_secrets(const JobSpec& spec, Mounts& mounts) {
    std::vector<Value> sources;
    for (const SecretSpec& secret : spec.given_secrets) {
        const auto found = spec.kubernetes.secrets.find(secret.name);
        if (found == spec.kubernetes.secrets.end())
            continue;
        const MapNode item = MapNode().text("key", found->second.key).text("path", secret.name);
        sources.push_back(MapNode().add(
            "secret",
            MapNode().text("name", found->second.secret).add("items", list_node({item}))));
    }
    if (sources.empty())
        return;
    const MapNode projected =
        MapNode().number("defaultMode", kSecretMode).add("sources", list_node(std::move(sources)));
    mounts.add("job-secrets", kSecretsFolder, MapNode().add("projected", projected), read_only());
}

MapNode source_of(const KubernetesVolume& volume) {
    using Source = KubernetesVolume::Source;
    MapNode inner;
    switch (volume.source) {
        case Source::claim:
            inner.text("claimName", volume.name);
            if (volume.read_only)
                inner.boolean("readOnly", true);
            return MapNode().add("persistentVolumeClaim", inner);
        case Source::host_path:
            return MapNode().add("hostPath", inner.text("path", volume.name));
        case Source::nfs:
            inner.text("server", volume.name).text("path", volume.path);
            if (volume.read_only)
                inner.boolean("readOnly", true);
            return MapNode().add("nfs", inner);
        case Source::config_map:
            return MapNode().add("configMap", inner.text("name", volume.name));
        case Source::secret:
            inner.text("secretName", volume.name).number("defaultMode", kSecretMode);
            return MapNode().add("secret", inner);
        case Source::empty_dir:
            if (volume.size_bytes)
                inner.text("sizeLimit", quantity_of_bytes(*volume.size_bytes));
            return MapNode().add("emptyDir", inner);
    }
    return {};
}

Mounts mounts_of(const JobSpec& spec, const PodFacts& facts) {
    const KubernetesSpec& pods = spec.kubernetes;
    Mounts mounts;
    mounts.add("job-spec", kSpecFolder,
               MapNode().add("configMap", MapNode().text("name", facts.name + "-spec")),
               read_only());
    mount_secrets(spec, mounts);
    auto shared_memory = pods.shm_bytes;
    if (!shared_memory && pods.memory_bytes)
        shared_memory = *pods.memory_bytes / 2;
    mounts.add("shared-memory", kSharedMemory, memory_volume(shared_memory));
    if (facts.own_runs)
        mounts.add("runs", kRunsFolder, MapNode().add("emptyDir", MapNode()));
    for (const auto& [page, bytes] : pods.hugepages) {
        std::string name = "hugepages-" + page;
        for (char& c : name)
            c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        mounts.add(name, "/dev/hugepages-" + page,
                   MapNode().add("emptyDir", MapNode().text("medium", "HugePages-" + page)));
    }
    for (std::size_t i = 0; i < pods.volumes.size(); ++i) {
        MapNode mount;
        mount.add_if_any("subPath", text_leaf(pods.volumes[i].sub_path));
        if (pods.volumes[i].read_only)
            mount.boolean("readOnly", true);
        mounts.add(fmt::format("volume-{}", i), pods.volumes[i].mount, source_of(pods.volumes[i]),
                   mount);
    }
    return mounts;
}

/// Requests are what the limits are: the scheduler counts on what the pods may use.
Value resources_of(const JobSpec& spec, const PodFacts& facts) {
    const KubernetesSpec& pods = spec.kubernetes;
    MapNode limits;
    if (pods.cpus)
        limits.text("cpu", quantity_of_cpus(*pods.cpus));
    else if (spec.resources.cpu_cores_per_gpu && facts.gpus > 0)
        limits.text("cpu", quantity_of_cpus(*spec.resources.cpu_cores_per_gpu * facts.gpus));
    if (pods.memory_bytes)
        limits.text("memory", quantity_of_bytes(*pods.memory_bytes));
    if (facts.gpus > 0)
        limits.text(pods.gpu_resource, std::to_string(facts.gpus));
    for (const auto& [name, count] : pods.rdma)
        limits.text(name, std::to_string(count));
    for (const auto& [page, bytes] : pods.hugepages)
        limits.text("hugepages-" + page, quantity_of_bytes(bytes));
    MapNode resources;
    resources.add_if_any("limits", limits);
    resources.add_if_any("requests", limits);
    return resources;
}

Value container_security(const KubernetesSpec& pods) {
    MapNode capabilities;
    capabilities.add("drop", text_list_node({"ALL"}));
    if (!pods.rdma.empty())  // memory of HCAs is locked memory
        capabilities.add("add", text_list_node({"IPC_LOCK"}));
    return MapNode().boolean("allowPrivilegeEscalation", false).add("capabilities", capabilities);
}

Value pod_security(const KubernetesSpec& pods) {
    return MapNode()
        .boolean("runAsNonRoot", true)
        .number("runAsUser", pods.user)
        .number("runAsGroup", pods.group)
        .number("fsGroup", pods.group)
        .text("fsGroupChangePolicy", "OnRootMismatch")
        .add("seccompProfile", MapNode().text("type", "RuntimeDefault"));
}

Value environment_of(const KubernetesSpec& pods) {
    if (pods.job_key.secret.empty())
        return list_node({});
    const MapNode from = MapNode().text("name", pods.job_key.secret).text("key", pods.job_key.key);
    return list_node({MapNode()
                          .text("name", "AUTOLAUNCH_JOB_KEY")
                          .add("valueFrom", MapNode().add("secretKeyRef", from))});
}

std::string pull_policy(const std::string& word) {
    return word == "always"         ? "Always"
           : word == "never"        ? "Never"
           : word == "ifnotpresent" ? "IfNotPresent"
                                    : "";
}

Value container_of(const JobSpec& spec, const PodFacts& facts, const Mounts& mounts) {
    const KubernetesSpec& pods = spec.kubernetes;
    MapNode container;
    container.text("name", kContainer)
        .text("image", pods.image)
        .add_if_any("imagePullPolicy", text_leaf(pull_policy(pods.image_pull_policy)))
        .add("command", text_list_node(command_of_pods(spec, facts)))
        .add_if_any("env", environment_of(pods))
        .add_if_any("resources", resources_of(spec, facts))
        .add("securityContext", container_security(pods))
        .add("volumeMounts", list_node(mounts.mounts));
    return container;
}

Value tolerations_of(const KubernetesSpec& pods) {
    std::vector<Value> list;
    for (const KubernetesToleration& toleration : pods.tolerations) {
        MapNode node;
        node.add_if_any("key", text_leaf(toleration.key))
            .text("operator", toleration.op)
            .add_if_any("value", text_leaf(toleration.value))
            .add_if_any("effect", text_leaf(toleration.effect));
        if (toleration.seconds)
            node.number("tolerationSeconds", *toleration.seconds);
        list.push_back(node);
    }
    return list_node(std::move(list));
}

Value spread_of(const KubernetesSpec& pods, const PodFacts& facts) {
    std::vector<Value> list;
    for (const KubernetesSpread& spread : pods.topology_spread) {
        const MapNode selector =
            MapNode().add("matchLabels", MapNode().text("app.kubernetes.io/name", facts.name));
        list.push_back(MapNode()
                           .number("maxSkew", spread.max_skew)
                           .text("topologyKey", spread.topology_key)
                           .text("whenUnsatisfiable", spread.when_unsatisfiable)
                           .add("labelSelector", selector));
    }
    return list_node(std::move(list));
}

Value pull_secrets(const KubernetesSpec& pods) {
    std::vector<Value> list;
    for (const std::string& name : pods.image_pull_secrets)
        list.push_back(MapNode().text("name", name));
    return list_node(std::move(list));
}

Value pod_of(const JobSpec& spec, const PodFacts& facts, const PodPlace& place) {
    const KubernetesSpec& pods = spec.kubernetes;
    const Mounts mounts = mounts_of(spec, facts);
    MapNode pod;
    pod.text("restartPolicy", "Never")
        .add_if_any("subdomain", text_leaf(place.subdomain))
        .add_if_any("schedulerName", text_leaf(place.scheduler))
        .number("terminationGracePeriodSeconds", facts.grace.count());
    if (place.deadline_here && pods.active_deadline.count() > 0)
        pod.number("activeDeadlineSeconds",
                   std::chrono::ceil<std::chrono::seconds>(pods.active_deadline).count());
    pod.boolean("enableServiceLinks", false);
    if (pods.service_account.empty())  // no rank asks the cluster for anything
        pod.boolean("automountServiceAccountToken", false);
    pod.add_if_any("serviceAccountName", text_leaf(pods.service_account))
        .add_if_any("priorityClassName", text_leaf(pods.priority_class))
        .add_if_any("imagePullSecrets", pull_secrets(pods))
        .add_if_any("nodeSelector", text_map_node(pods.node_selector))
        .add_if_any("tolerations", tolerations_of(pods))
        .add_if_any("topologySpreadConstraints", spread_of(pods, facts))
        .add("securityContext", pod_security(pods))
        .add("containers", list_node({container_of(spec, facts, mounts)}))
        .add("volumes", list_node(mounts.volumes));
    return pod;
}

}  // namespace

std::map<std::string, std::string> labels_of(const JobSpec& spec, const PodFacts& facts) {
    auto labels = spec.kubernetes.labels;
    labels["app.kubernetes.io/name"] = facts.name;
    labels["app.kubernetes.io/managed-by"] = "autolaunch";
    return labels;
}

MapNode metadata_of(const JobSpec& spec, const PodFacts& facts, const std::string& name) {
    MapNode metadata;
    metadata.text("name", name)
        .add_if_any("namespace", text_leaf(spec.kubernetes.namespace_name))
        .add("labels", text_map_node(labels_of(spec, facts)))
        .add_if_any("annotations", text_map_node(spec.kubernetes.annotations));
    return metadata;
}

Value pod_template(const JobSpec& spec, const PodFacts& facts, const PodPlace& place) {
    const MapNode metadata =
        MapNode()
            .add("labels", text_map_node(labels_of(spec, facts)))
            .add_if_any("annotations", text_map_node(spec.kubernetes.annotations));
    return MapNode().add("metadata", metadata).add("spec", pod_of(spec, facts, place));
}

}  // namespace autolaunch::launcher
