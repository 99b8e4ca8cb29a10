#include "manifests/pod_checks.hpp"

#include "manifests/tree.hpp"
#include "spec/kubernetes_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

namespace autolaunch::launcher {

namespace {

class PodChecks {
public:
    PodChecks(const ManifestRequest& request, const PodFacts& facts, Manifests& result)
        : kind_(request.kind),
          root_(request.read.root),
          spec_(request.read.spec),
          pods_(spec_.kubernetes),
          facts_(facts),
          result_(result) {}

    void all() {
        check_program();
        check_image();
        check_name();
        check_key();
        check_gpus();
        check_sizes();
        check_names();
        check_labels();
        check_volumes();
        check_deadline();
    }

private:
    /// At the key, else at its section, else at the beginning of the file.
    void complain(std::string_view section, std::string_view key, const std::string& message) {
        const Entry* found = find_key(root_, section, key);
        const Entry* parent = root_.find(section);
        Origin at = found != nullptr    ? found->value.at
                    : parent != nullptr ? parent->key_at
                                        : root_.at;
        if (!at.file)
            at.file = std::make_shared<const std::string>(spec_.spec_file);
        at.line = std::max(at.line, 1);
        at.column = std::max(at.column, 1);
        result_.errors.push_back(error_at(at, fmt::format("{}.{}", section, key), message));
    }
    void check_program();
    void check_image();
    void check_name();
    void check_key();
    void check_gpus();
    void check_sizes();
    void check_names();
    void check_labels();
    void check_label_map(const char* key, const std::map<std::string, std::string>& map,
                         bool free_values);
    void check_volumes();
    void check_deadline();

    const ManifestKind kind_;
    const Value& root_;
    const JobSpec& spec_;
    const KubernetesSpec& pods_;
    const PodFacts& facts_;
    Manifests& result_;
};

void PodChecks::check_program() {
    if (spec_.trainer.command.empty() && spec_.trainer.module.empty())
        complain("trainer", "command",
                 "is needed: the program that the pods run; add trainer: {command: [python3, "
                 "train.py]}");
}

void PodChecks::check_image() {
    if (pods_.image.empty())
        complain("kubernetes", "image",
                 "is needed: the image that has the trainer and autolaunch; add kubernetes: "
                 "{image: registry.example.org/train:1}");
    else if (std::any_of(pods_.image.begin(), pods_.image.end(),
                         [](unsigned char c) { return c <= ' ' || c == 0x7f; }))
        complain("kubernetes", "image", "is no reference of an image: it has a blank in it");
}

// The host of the last pod is NAME-INDEX, or NAME-worker-0-INDEX in a JobSet; its Job and pods are
// called so, with six letters more.
void PodChecks::check_name() {
    constexpr std::size_t kLongestLabel = 63, kOfPods = 6;
    const std::string last = std::to_string(facts_.pods - 1);
    const std::string middle = kind_ == ManifestKind::kubernetes ? "-"
                               : kind_ == ManifestKind::jobset   ? "-worker-0-"
                                                                 : "-worker-";
    const std::size_t longest = kLongestLabel - middle.size() - last.size() - kOfPods;
    const bool begins_well =
        !facts_.name.empty() && std::isalpha(static_cast<unsigned char>(facts_.name[0])) != 0;
    if (begins_well && is_dns_label(facts_.name, longest))
        return;
    JobSpec named = spec_;
    named.slurm.job_name = facts_.name;
    complain(
        "kubernetes", "name",
        fmt::format("\"{}\" cannot be the name of hosts: a small letter, then at most {} more, "
                    "digits or dashes; such as \"{}\"",
                    facts_.name, longest - 1, derived_name(named).substr(0, longest)));
}

void PodChecks::check_key() {
    const std::string& file = spec_.rendezvous.secret_file;
    if (!file.empty() && pods_.job_key.secret.empty()) {
        if (volume_of(pods_, file) == nullptr)
            complain("rendezvous", "secret_file",
                     fmt::format("{} is in no volume of the pods; name a Secret of the cluster as "
                                 "kubernetes.job_key, or mount one as kubernetes.volumes",
                                 file));
        return;
    }
    if (facts_.pods > 1 && pods_.job_key.secret.empty())
        complain("kubernetes", "job_key",
                 fmt::format("is needed: {0} pods prove by it that they are of one job; make it by "
                             "`openssl rand -hex 32 | kubectl create secret generic {1}-key "
                             "--from-file=key=/dev/stdin`, and add kubernetes: {{job_key: "
                             "{1}-key/key}}",
                             facts_.pods, facts_.name));
}

void PodChecks::check_gpus() {
    if (!is_resource_name(pods_.gpu_resource))
        complain("kubernetes", "gpu_resource",
                 "is no name of a resource, such as nvidia.com/gpu, amd.com/gpu or "
                 "nvidia.com/mig-1g.10gb");
    if (pods_.rdma.contains(pods_.gpu_resource))
        complain("kubernetes", "rdma",
                 pods_.gpu_resource + " counts GPUs: kubernetes.gpu_resource");
    if (spec_.resources.ranks_mode == RanksPerNode::gpu && facts_.gpus == 0)
        complain("resource_management", "gpus_per_node",
                 "is needed: ranks_per_node is gpu, and a pod has the GPUs that it asks for and no "
                 "others");
    if (spec_.resources.cpu_cores_per_gpu && facts_.gpus == 0 && !pods_.cpus)
        complain("resource_management", "gpus_per_node",
                 "is needed for cpu_cores_per_gpu: a pod has the GPUs that it asks for and no "
                 "others");
}

void PodChecks::check_sizes() {
    const bool has_cpus = pods_.cpus || spec_.resources.cpu_cores_per_gpu;
    if (!pods_.hugepages.empty() && !pods_.memory_bytes && !has_cpus)
        complain("kubernetes", "hugepages",
                 "is refused by Kubernetes in pods that ask for neither memory nor CPUs; add "
                 "kubernetes.memory");
    if (pods_.memory_bytes && *pods_.memory_bytes == 0)
        complain("kubernetes", "memory", "is nothing");
    if (pods_.shm_bytes && *pods_.shm_bytes == 0)
        complain("kubernetes", "shm_size", "is nothing: ranks exchange data in it");
    if (pods_.memory_bytes && pods_.shm_bytes && *pods_.shm_bytes > *pods_.memory_bytes)
        complain(
            "kubernetes", "shm_size",
            "is more than kubernetes.memory, as which it counts: filling it would end the pod");
}

void PodChecks::check_names() {
    const std::map<const char*, std::string> names = {{"namespace", pods_.namespace_name},
                                                      {"service_account", pods_.service_account},
                                                      {"queue", pods_.queue},
                                                      {"priority_class", pods_.priority_class}};
    for (const auto& [key, name] : names)
        if (!name.empty() && !is_dns_name(name))
            complain("kubernetes", key,
                     fmt::format("\"{}\" is no name of an object of Kubernetes: small letters, "
                                 "digits, dashes and dots",
                                 name));
    for (const std::string& name : pods_.image_pull_secrets)
        if (!is_dns_name(name))
            complain("kubernetes", "image_pull_secrets",
                     fmt::format("\"{}\" is no name of a Secret", name));
    if (pods_.autolaunch_path.empty())
        complain("kubernetes", "autolaunch_path", "is empty");
}

bool is_label_value(const std::string& text) {
    constexpr std::size_t kLongest = 63;
    return text.empty() || is_resource_name("a/" + text.substr(0, kLongest + 1));
}

bool is_label_key(const std::string& text) {
    return is_resource_name(text.find('/') == std::string::npos ? "a/" + text : text);
}

void PodChecks::check_label_map(const char* key, const std::map<std::string, std::string>& map,
                                bool free_values) {
    for (const auto& [name, value] : map) {
        if (!is_label_key(name))
            complain("kubernetes", key, fmt::format("\"{}\" is no key of a label", name));
        else if (!free_values && !is_label_value(value))
            complain("kubernetes", key,
                     fmt::format("{}: \"{}\" is no value of a label: letters, digits, dashes, dots "
                                 "and underscores, at most 63",
                                 name, value));
    }
}

void PodChecks::check_labels() {
    check_label_map("labels", pods_.labels, false);
    check_label_map("annotations", pods_.annotations, true);
    check_label_map("node_selector", pods_.node_selector, false);
    for (const KubernetesSpread& spread : pods_.topology_spread)
        if (!is_label_key(spread.topology_key))
            complain("kubernetes", "topology_spread",
                     fmt::format("\"{}\" is no key of a label", spread.topology_key));
    for (const KubernetesToleration& toleration : pods_.tolerations)
        if (!toleration.key.empty() && !is_label_key(toleration.key))
            complain("kubernetes", "tolerations",
                     fmt::format("\"{}\" is no key of a taint", toleration.key));
}

void PodChecks::check_volumes() {
    const auto is_ours = [&](const std::string& mount) {
        return mount == kSpecFolder || mount == kSecretsFolder || mount == kSharedMemory ||
               (facts_.own_runs && mount == kRunsFolder);
    };
    for (const KubernetesVolume& volume : pods_.volumes) {
        if (is_ours(volume.mount))
            complain("kubernetes", "volumes",
                     fmt::format("{} is where autolaunch mounts its own{}", volume.mount,
                                 volume.mount == kSharedMemory ? ": kubernetes.shm_size" : ""));
    }
}

void PodChecks::check_deadline() {
    using namespace std::chrono_literals;
    if (pods_.active_deadline > 0ms && pods_.active_deadline < 1s)
        complain("kubernetes", "active_deadline", "is less than a second, in which pods count");
}

}  // namespace

void check_pods(const ManifestRequest& request, const PodFacts& facts, Manifests& result) {
    PodChecks(request, facts, result).all();
}

}  // namespace autolaunch::launcher
