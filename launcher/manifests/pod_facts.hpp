#pragma once
#include "manifests/manifests.hpp"
#include "spec/job_spec.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace autolaunch::launcher {

/// What all objects of a job go by: made of the spec once, whatever kind they are.
struct PodFacts {
    std::string name;
    int pods = 1;
    int least = 1;  ///< with fewer the job does not go on
    int gpus = 0;   ///< of each pod
    std::chrono::seconds grace{30};
    int retries = 3;
    bool own_runs = false;  ///< run directories are in an emptyDir: the spec names no absolute path

    bool may_lose_pods() const { return least < pods; }
};

/// Where things are in the pods.
inline constexpr char kSpecFolder[] = "/etc/autolaunch-job";
inline constexpr char kSpecFile[] = "train.yaml";
inline constexpr char kSecretsFolder[] = "/etc/autolaunch-secrets";
inline constexpr char kRunsFolder[] = "/runs";
inline constexpr char kSharedMemory[] = "/dev/shm";
/// The container, the task of a Volcano job and the Job of a JobSet.
inline constexpr char kContainer[] = "autolaunch";
inline constexpr char kWorkers[] = "worker";

PodFacts pod_facts(const ManifestRequest& request);

/// "train" of slurm_config.job_name, of trainer.module, or of the program: small letters, digits
/// and dashes, at most 40 of them.
std::string derived_name(const JobSpec& spec);

/// How long the pods may take to end: restart.kill_wait, else what the ranks need for a save and
/// the agents for the end, and 30 s at least.
std::chrono::seconds grace_of_pods(const RestartSpec& restart, std::chrono::milliseconds copies,
                                   std::optional<std::chrono::milliseconds> save);

/// The volume that has `path`; null where it is in none.
const KubernetesVolume* volume_of(const KubernetesSpec& spec, const std::string& path);

/// "64Gi", "1500Mi", "12345": a quantity of Kubernetes.
std::string quantity_of_bytes(std::int64_t bytes);
/// "8", "2500m"
std::string quantity_of_cpus(double cpus);

}  // namespace autolaunch::launcher
