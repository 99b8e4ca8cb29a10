#pragma once
#include "base/unique_fd.hpp"
#include "report/event.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The event as one line of JSON without its newline; docs/events.md describes it. Pure. Bytes that
/// are not UTF-8 become U+FFFD; a field that is not known is left out.
/// `secrets` are what it may not hold, besides what looks like one.
std::string to_json_line(const Event& event, std::span<const std::string> secrets = {});

/// events.jsonl: one event a line, each with one write(2) at the end of the file, so that a reader
/// sees whole lines even while the job runs and after the launcher was killed. docs/events.md
/// describes the lines.
///
/// Owner: Reporter. Threads: one. Blocks: on the file system.
class EventLog {
public:
    /// Creates the file (not its directory) or goes on with an existing one. Throws SystemError.
    explicit EventLog(const std::filesystem::path& path, std::vector<std::string> secrets = {});

    /// Throws SystemError, e.g. when the disk is full.
    void append(const Event& event);

private:
    std::filesystem::path path_;
    UniqueFd fd_;
    std::vector<std::string> secrets_;
};

}  // namespace autolaunch::launcher
