#pragma once
#include "base/unique_fd.hpp"
#include "report/event.hpp"

#include <filesystem>

namespace autolaunch::launcher {

/// events.jsonl: one event a line, each with one write(2) at the end of the file, so that a reader
/// sees whole lines even while the job runs and after the launcher was killed. docs/events.md
/// describes the lines.
///
/// Owner: Reporter. Threads: one. Blocks: on the file system.
class EventLog {
public:
    /// Creates the file (not its directory) or goes on with an existing one. Throws SystemError.
    explicit EventLog(const std::filesystem::path& path);

    /// Throws SystemError, e.g. when the disk is full.
    void append(const Event& event);

private:
    std::filesystem::path path_;
    UniqueFd fd_;
};

}  // namespace autolaunch::launcher
