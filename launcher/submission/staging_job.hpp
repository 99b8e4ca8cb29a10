#pragma once
#include "spec/storage_spec.hpp"
#include "submission/batch_script.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// `autolaunch submit --stage-first`: a small job that brings another one's data to the nodes where
// that is expected to start, while those have other work.

inline constexpr char kStagingScript[] = "stage-in.sh", kStagingLog[] = "stage-in.log";

/// How long it may run: storage.timeout where that is shorter than its default, else an hour.
std::chrono::minutes staging_time(const StorageSpec& storage);

/// Its script, of the one that it stands before: as many nodes of the same kind, a task and a CPU
/// on each, and nothing else of them. `nodes` are those where the job is to start; empty: Slurm
/// chooses. `folder` has the spec that both read. Slurm drops it once it cannot end within twice
/// its time any more, so that no job waits for ever behind one that finds no room. Pure.
BatchScript staging_script(const BatchScript& job, const std::vector<std::string>& nodes,
                           const StorageSpec& storage, const std::filesystem::path& folder);

/// Why that cannot be made of such a job. Empty: it can. Pure.
std::string why_no_staging_job(const BatchScript& job, const StorageSpec& storage, bool is_array);

}  // namespace autolaunch::launcher
