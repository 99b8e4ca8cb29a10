#pragma once
#include "base/unique_fd.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A file of ours in a folder of somebody else's, who reads all that is in it: node_exporter's
/// textfiles, Prometheus' lists of targets. Readers see the old content or the new; others' files
/// are left alone; ours goes with us, and where we were killed with the next of this user's jobs
/// there.
///
/// Owner: the sampler. Threads: one. Blocks: on the file system.
class OfferedFile {
public:
    /// `name` ends in `ending`: ".prom", ".json". Throws Error with the remedy where the folder is
    /// not there, may not be written to, or, unless `may_be_shared`, is on a network file system:
    /// nodes would then overwrite one another's.
    OfferedFile(const std::filesystem::path& folder, std::string name, bool may_be_shared);
    OfferedFile(const OfferedFile&) = delete;
    OfferedFile& operator=(const OfferedFile&) = delete;
    /// Removes it.
    ~OfferedFile();

    /// Throws SystemError.
    void replace(std::string_view text);
    std::filesystem::path path() const { return folder_ / name_; }

private:
    std::filesystem::path folder_;
    std::string name_;
    UniqueFd fd_;
};

/// "autolaunch_4711_0.prom" of job and step; other characters than letters, digits, "-" and "."
/// become "_".
std::string shared_file_name(std::string_view job, std::string_view more, std::string_view ending);

/// A comment for the beginning of a file: which process writes it.
std::string writer_mark();

/// Removes this user's autolaunch_*`ending` in the folder whose writer is gone: a process that does
/// not run any more, or that nothing is known of and that has not written for `silence`. How many.
int sweep_leftovers(const std::filesystem::path& folder, std::string_view ending,
                    std::chrono::seconds silence = std::chrono::hours(1));

}  // namespace autolaunch::launcher
