#pragma once
#include "run_report/run_record.hpp"

#include <filesystem>

namespace autolaunch::launcher {

/// Reads a run directory, of a job that is over or goes on. Links are not followed, and nothing but
/// regular files is opened to be read: what else lies under our names is a gap of the record.
/// Throws Error where there is no such folder, or no events.jsonl in it. Memory is bounded; the
/// time is that of reading the files once. `secrets` as RecordBuilder has them.
RunRecord read_run(const std::filesystem::path& run_dir,
                   const std::vector<std::string>& secrets = {});

}  // namespace autolaunch::launcher
