#pragma once
#include "allocation/allocation.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// What the adapters share. Private to this folder. Each adapter answers for one kind of environment
// and returns nothing when the environment is not its own. All are pure.

std::optional<Allocation> read_slurm_allocation(const EnvironmentMap& environment,
                                                const std::string& hostname);
/// torchrun's way: a person numbers the nodes. Nothing when --node-rank is not given.
std::optional<Allocation> read_static_allocation(const EnvironmentMap& environment,
                                                 const std::string& hostname,
                                                 const NodeOptions& options);
/// torchrun's other way: every node has the same line, with --rdzv-endpoint, and none has a number.
/// Nothing without an endpoint, or for one node.
std::optional<Allocation> read_meeting_allocation(const EnvironmentMap& environment,
                                                  const std::string& hostname,
                                                  const NodeOptions& options);
/// This machine, and as many nameless ones as are asked for beside it.
Allocation read_local_allocation(const EnvironmentMap& environment, const std::string& hostname,
                                 const NodeOptions& options);

/// mpirun or mpiexec started us: Open MPI, PRRTE, MPICH's Hydra.
std::optional<Allocation> read_mpirun_allocation(const EnvironmentMap& environment,
                                                 const std::string& hostname,
                                                 const NodeOptions& options);
/// A pod of an indexed Job, also of a JobSet, or of Kubeflow's PyTorchJob. Reads /etc/hosts.
std::optional<Allocation> read_kubernetes_allocation(const EnvironmentMap& environment,
                                                     const std::string& hostname,
                                                     const NodeOptions& options,
                                                     const FileReader& read_text);
/// A pod of a Volcano job with the plugins env and svc.
std::optional<Allocation> read_volcano_allocation(const EnvironmentMap& environment,
                                                  const std::string& hostname,
                                                  const NodeOptions& options);
/// PBS Professional, OpenPBS, Torque. Reads the node file.
std::optional<Allocation> read_pbs_allocation(const EnvironmentMap& environment,
                                              const std::string& hostname,
                                              const FileReader& read_text);
/// IBM Spectrum LSF. Reads the host file, where LSB_MCPU_HOSTS does not tell.
std::optional<Allocation> read_lsf_allocation(const EnvironmentMap& environment,
                                              const std::string& hostname,
                                              const FileReader& read_text);

/// For one that no adapter found company for. Throws Error{invalid_argument} where its variables
/// look like those of one of several, and say no number that is to be trusted: it would train
/// alone, beside others that do so too. Where a person says the number, that counts.
void check_is_not_one_of_several(const EnvironmentMap& environment, const std::string& hostname,
                                 const NodeOptions& options, const FileReader& read_text);

/// SLURM_JOB_ID, or "". An element of an array has one of its own, so it is unique while the
/// cluster lives.
std::string slurm_job_id(const EnvironmentMap& environment);

/// "node-rank-0", "node-rank-1", …: for nodes whose names nobody tells.
std::vector<std::string> nameless_nodes(int count);

/// Restart count and end of the Slurm job, where we are in one but something else in it started us.
void fill_slurm_job(Allocation& allocation, const EnvironmentMap& environment);

/// Where `name`, or `name` without its domain, or a name of which that is the domainless form,
/// stands among `hosts`.
std::optional<std::size_t> find_host(const std::vector<std::string>& hosts,
                                     const std::string& name);

/// The variable's value, or nothing when it is not set. An empty value counts as set.
std::optional<std::string> lookup(const EnvironmentMap& environment, std::string_view name);
/// The variable as a whole number from 0 up. Throws Error{invalid_argument} naming the variable.
std::optional<long long> lookup_count(const EnvironmentMap& environment, std::string_view name);

/// Whose runtime reads the environment: CUDA (NVIDIA) or ROCm (AMD).
enum class GpuRuntime { cuda, rocm };
/// The GPUs we may use, by what that runtime will obey, translated to the machine's numbering where
/// Slurm tells it. CUDA reads CUDA_VISIBLE_DEVICES alone. With ROCm two layers read: ROCr obeys
/// ROCR_VISIBLE_DEVICES, and HIP, which counts from 0 what ROCr leaves it, obeys
/// HIP_VISIBLE_DEVICES or, where that is not set, CUDA_VISIBLE_DEVICES.
GpuGrant read_granted_gpus(const EnvironmentMap& environment, GpuRuntime runtime);
/// Puts that into the allocation.
void fill_granted_gpus(Allocation& allocation, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
