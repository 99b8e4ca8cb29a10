#pragma once
#include "top/job_model.hpp"
#include "top/run_source.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// How far the files of a run have been taken in, and what came of it. A copy is a place to come
/// back to.
struct RunPlace {
    struct FilePlace {
        std::uint64_t offset = 0;  ///< up to which it has been read
        std::string rest = {};     ///< what was read and is not taken in yet
        bool in_long_line = false;
        ViewTime time = ViewTime::min();  ///< of the newest line
    };
    JobModel model;
    std::map<std::string, FilePlace> files = {};
};

/// Takes in the files of a run in the order of their lines' times, as far as they go now or up to
/// a moment.
///
/// Owner: watch_job(). Threads: one. Blocks: on its source.
class RunFollower {
public:
    /// Bytes of all files that one call takes in, so that a screen is never late for long.
    static constexpr std::size_t kMostBytes = std::size_t{48} << 20;

    /// `source` must outlive it.
    RunFollower(RunSource& source, JobModel model) : source_(source), place_{std::move(model)} {}

    /// Looks which files there are.
    void look();
    /// The newest of each node, once its ranks are known.
    void take_newest_samples();
    void take_sample(std::string_view line) { place_.model.take_sample(line); }
    const std::vector<RunFile>& files() const { return files_; }
    /// Takes in lines up to `until`, or as many as there are. False: there is more to be taken in,
    /// by calling it again.
    bool advance(std::optional<ViewTime> until = {}, std::size_t most = kMostBytes);
    /// How much of the files has been taken in, of 1.
    double share_read() const;

    const JobModel& model() const { return place_.model; }
    /// As small as it can be; of a source whose parts are whole.
    RunPlace place() const;
    void go_to(RunPlace place) { place_ = std::move(place); }

private:
    /// A file of events, and where it is read.
    struct Reader {
        const RunFile* file = nullptr;
        int node = JobModel::kHead;
        RunPlace::FilePlace* place = nullptr;
        std::size_t at = 0;   ///< of `rest`: where the next line begins
        std::size_t end = 0;  ///< and ends
    };
    /// Whether there is a next line, which is then within `rest`. Reads on where it has to, for as
    /// long as there is a budget.
    bool find_line(Reader& reader, std::size_t chunk, std::size_t& budget);
    bool read_on(Reader& reader, std::size_t bytes, std::size_t& budget);
    void take_plan(const RunFile& file, int node);
    void take_newest_sample(const RunFile& file);

    RunSource& source_;
    RunPlace place_;
    std::vector<RunFile> files_;  ///< by name, as of look()
};

/// Of "events.jsonl" JobModel::kHead, of "events.node-3.jsonl" 3; nothing for what is no file of
/// that kind. Pure.
std::optional<int> node_of_file(std::string_view name, std::string_view kind);

/// The first moment of a run and its last, as its events have them; nothing where there are none.
std::optional<std::pair<ViewTime, ViewTime>> span_of_run(RunSource& source);

/// The last lines of a rank's log, oldest first; why there are none in their place.
std::vector<std::string> log_tail(RunSource& source, int generation, int rank,
                                  const std::string& stream, std::size_t most_lines);

}  // namespace autolaunch::launcher
