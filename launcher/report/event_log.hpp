#pragma once
#include "base/unique_fd.hpp"
#include "report/event.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// What torchelastic's events have of a worker besides its end.
struct WorkerContext {
    std::string run_id, hostname;
    int group_rank = 0;
    std::map<int, std::string> roles = {};  ///< by rank; else "default"
    std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

/// The event as one line of JSON without its newline; docs/events.md describes it. Pure. Bytes that
/// are not UTF-8 become U+FFFD; a field that is not known is left out.
/// `secrets` are what it may not hold, besides what looks like one. With `workers` the end of a
/// rank has torchelastic's keys, too.
std::string to_json_line(const Event& event, std::span<const std::string> secrets = {},
                         const WorkerContext* workers = nullptr);

/// events.jsonl: one event a line, each with one write(2) at the end of the file, so that a reader
/// sees whole lines even while the job runs and after the launcher was killed. docs/events.md
/// describes the lines.
///
/// A disk without room takes no job with it: what cannot be written is counted, each later event
/// tries again, and where it goes on a warning in the file says how many are missing. So with a
/// file that somebody has removed, which does not come back.
///
/// Owner: Reporter. Threads: one. Blocks: on the file system.
class EventLog {
public:
    enum class Outcome {
        recorded,
        lost_first,  ///< not written, for the first time in a row
        lost,
        recorded_again,  ///< the first one after some were lost
    };

    /// Creates the file (not its directory) or goes on with an existing one of this user. Throws
    /// Error.
    explicit EventLog(const std::filesystem::path& path, std::vector<std::string> secrets = {});

    /// Ends of ranks get torchelastic's keys.
    void set_workers(WorkerContext workers) { workers_ = std::move(workers); }
    /// Those that it may not hold from now on.
    void set_secrets(std::vector<std::string> secrets) { secrets_ = std::move(secrets); }
    Outcome append(const Event& event);
    /// Another process may have been killed while it wrote the last one.
    void end_torn_line();

    const std::filesystem::path& path() const { return path_; }
    std::size_t lost() const { return lost_; }  ///< in all
    const std::string& why_lost() const { return why_lost_; }

private:
    bool write_line(const std::string& line);
    void lose_one();

    std::filesystem::path path_;
    UniqueFd fd_;
    std::vector<std::string> secrets_;
    std::optional<WorkerContext> workers_;
    std::size_t lost_ = 0, lost_in_a_row_ = 0;
    std::string why_lost_;
};

}  // namespace autolaunch::launcher
