#pragma once
#include "submission/batch_script.hpp"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>

namespace autolaunch::launcher {

// What a submission keeps: a folder of its own in RUNS/.submitted, with the spec that the job
// reads, the script, and a record.

inline constexpr char kStoredSpec[] = "spec.yaml", kStoredScript[] = "job.sh",
                      kStoredRecord[] = "submission.json", kStoredDiff[] = "code.diff",
                      kStoredCode[] = "code";

/// RUNS/.submitted/NAME-DATE-TIME-XXXX: nobody else's. `runs` may be relative. Reads the clock.
std::filesystem::path folder_of_submission(const std::string& runs, const std::string& job_name);

/// The files of one submission.
///
/// Owner: who submits. Threads: its owner's. Blocks as the disk does; throws SystemError and Error
/// as OwnedFolder.
class StoredJob {
public:
    StoredJob(std::filesystem::path folder, const std::string& spec, const std::string& script);
    std::filesystem::path script() const { return folder_ / kStoredScript; }
    /// One more file.
    void add(const std::string& name, const std::string& text) const;
    void record(const nlohmann::ordered_json& record) const;
    /// Of a job that Slurm did not take.
    void remove() const;

private:
    std::filesystem::path folder_;
};

}  // namespace autolaunch::launcher
