#pragma once
#include "base/deadline.hpp"
#include "remains/exit_certificate.hpp"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A job of one user on this node, whose agent, keeper and guardian are gone: nobody holds the
/// lock of its folder.
struct AbandonedJob {
    std::string run_id;  ///< empty: nothing says of which job the folder was
    std::string run_dir;
    std::vector<std::filesystem::path> folders;
    std::vector<Remnant> ended;  ///< or removed; with `look_only` what would be
    std::vector<Remnant> left;
    uid_t user = ::geteuid();
};

struct SweepOptions {
    std::vector<std::string> places;  ///< folders that jobs' folders are made in
    std::string prefix;               ///< of their names
    std::string run_id = {};          ///< of this job alone; empty: all
    bool look_only = false;
    std::string by = "clean";  ///< in the certificate
    std::chrono::milliseconds patience{5000};
};

/// Ends the processes of such jobs and removes their folders, by ownership and by their locks, and
/// never by what a process is called. Leaves each a certificate in its run directory, where it is
/// there. Blocks until all is gone, or for `patience`.
std::vector<AbandonedJob> sweep_abandoned_jobs(const SweepOptions& options);

/// What `autolaunch clean` says of it.
std::string sweep_text(const std::vector<AbandonedJob>& jobs, bool look_only);
std::string sweep_json(const std::vector<AbandonedJob>& jobs, bool look_only,
                       const std::optional<DrainWord>& drain);

}  // namespace autolaunch::launcher
