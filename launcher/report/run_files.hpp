#pragma once
#include "base/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A file of a run directory that tells of the job, and how long it is now.
struct RunFile {
    std::string name;  ///< within the run directory
    std::uint64_t bytes = 0;
    bool operator==(const RunFile&) const = default;
};

/// Whether that is the name of one: events.jsonl, events.node-3.jsonl, plan.json, plan.node-3.json,
/// samples/NODE.jsonl, generation-0/rank-5/stderr and stdout. Nothing else in a run directory is
/// read for others. Pure.
bool is_run_file(std::string_view name);

/// Where the file goes on from `offset`.
struct RunFilePart {
    std::string bytes = {};
    std::uint64_t covered = 0;     ///< bytes of the file that these stand for
    std::uint64_t file_bytes = 0;  ///< now
    std::string wrong = {};        ///< why it cannot be read; empty: it can
};

inline constexpr std::uint64_t kFromEnd = ~std::uint64_t{0};

/// A run directory, to be read by whoever watches the job. Links are not followed on the way to a
/// file, and nothing but regular files is opened: ranks may write there, too.
///
/// Owner: one thread. Blocks: on the file system.
class RunFolder {
public:
    /// Throws SystemError where there is no such folder, or it cannot be read.
    explicit RunFolder(const std::filesystem::path& path);

    /// Those of events, plans and samples, by name; the ranks' logs are found by their names.
    std::vector<RunFile> list() const;
    /// At most `most` bytes, as many as there are; kFromEnd: the last ones. A name that
    /// is_run_file() refuses is `wrong`.
    RunFilePart read(const std::string& name, std::uint64_t offset, std::size_t most) const;

private:
    std::filesystem::path path_;
    UniqueFd folder_;
};

/// Whole lines of events, of which only the newest step of each rank is kept: what another machine
/// is sent of a file that is mostly steps. A line that is none of to_json_line()'s steps stays as
/// it is. Pure.
std::string without_older_steps(std::string_view lines);

/// What somebody on another machine asks: "OFFSET MOST NAME", OFFSET `end` for the last bytes.
/// Of events whole lines, without_older_steps(). `wrong` where it makes no sense.
RunFilePart read_for_others(const RunFolder& folder, std::string_view request, std::size_t most);
/// The request for it. Pure.
std::string request_for_others(std::string_view name, std::uint64_t offset, std::size_t most);

/// The rank of a line of events that is a step, as to_json_line() writes it; nothing for all else.
/// Pure.
std::optional<int> rank_of_step_line(std::string_view line);

}  // namespace autolaunch::launcher
