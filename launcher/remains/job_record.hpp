#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Whose folder of sockets this is: written into it at the job's start, so that whoever finds it
/// abandoned knows of which job it was, and where its certificate belongs.
struct JobRecord {
    std::string run_id, run_dir, node;
    int node_rank = 0;
};

inline constexpr char kRecordName[] = "job";

/// `folder` is this user's alone. What keeps it from being written is nobody's trouble at a start:
/// then the folder is one of an unknown job.
void write_job_record(const std::filesystem::path& folder, const JobRecord& record) noexcept;
/// `folder` is open. Nothing: there is none that could be understood.
std::optional<JobRecord> read_job_record(int folder);

}  // namespace autolaunch::launcher
