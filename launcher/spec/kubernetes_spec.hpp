#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// SECRET/KEY: an entry of a Secret of the cluster. It holds no value.
struct KubernetesSecretKey {
    std::string secret, key;  ///< empty: not given
    bool operator==(const KubernetesSecretKey&) const = default;
};

struct KubernetesToleration {
    std::string key, op, value, effect;  ///< as Kubernetes writes them; empty: not given
    std::optional<int> seconds;
    bool operator==(const KubernetesToleration&) const = default;
};

struct KubernetesSpread {
    std::string topology_key;
    int max_skew = 1;
    std::string when_unsatisfiable = "DoNotSchedule";
    bool operator==(const KubernetesSpread&) const = default;
};

/// What is mounted into the pods, besides the spec, the secrets and /dev/shm.
struct KubernetesVolume {
    enum class Source { claim, host_path, nfs, config_map, secret, empty_dir };
    std::string mount;  ///< an absolute path
    Source source = Source::claim;
    std::string name;  ///< of the claim, ConfigMap or Secret; the path on the host; SERVER of nfs
    std::string path;  ///< nfs: that the server exports
    std::optional<std::int64_t> size_bytes;  ///< empty_dir: its limit
    std::string sub_path;
    bool read_only = false;
    bool operator==(const KubernetesVolume&) const = default;
};

/// What pods of Kubernetes are like that run the job: section `kubernetes`. A job that runs does
/// not read it.
struct KubernetesSpec {
    std::string image, image_pull_policy;
    std::vector<std::string> image_pull_secrets;
    std::string name, namespace_name, service_account, queue, priority_class;
    std::map<std::string, std::string> labels, annotations, node_selector;
    std::vector<KubernetesToleration> tolerations;
    std::vector<KubernetesSpread> topology_spread;
    std::string gpu_resource = "nvidia.com/gpu";
    std::optional<double> cpus;
    std::optional<std::int64_t> memory_bytes, shm_bytes;
    std::map<std::string, int> rdma;                ///< resources and how many of each
    std::map<std::string, std::int64_t> hugepages;  ///< page sizes as "2Mi", and bytes of each
    std::vector<KubernetesVolume> volumes;
    std::map<std::string, KubernetesSecretKey> secrets;  ///< by names of the section `secrets`
    KubernetesSecretKey job_key;
    int user = 1000, group = 1000;
    std::optional<int> retries;
    std::chrono::milliseconds active_deadline{0}, ttl{0};  ///< 0: none
    std::string autolaunch_path = "autolaunch";            ///< in the image
};

}  // namespace autolaunch::launcher
