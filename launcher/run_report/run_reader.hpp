#pragma once
#include "run_report/run_record.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>

namespace autolaunch::launcher {

struct RunReading {
    std::vector<std::string> secrets = {};  ///< as RecordBuilder has them
    /// For samples: what is not read by then is a gap.
    std::optional<std::chrono::milliseconds> samples_within = {};
    std::size_t parts = 0;  ///< of the job's time, as attribute() has them
};

/// Reads a run directory, of a job that is over or goes on. Links are not followed, and nothing but
/// regular files is opened to be read: what else lies under our names is a gap of the record.
/// Throws Error where there is no such folder, or no events.jsonl in it. Memory is bounded; the
/// time is that of reading the files once.
RunRecord read_run(const std::filesystem::path& run_dir, const RunReading& reading = {});

}  // namespace autolaunch::launcher
