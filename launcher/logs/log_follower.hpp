#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "logs/line_folder.hpp"
#include "logs/line_splitter.hpp"
#include "logs/rank_files.hpp"
#include "report/line_sink.hpp"
#include "spec/job_spec.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Shows the log files of this node's ranks on the console while they grow. The files are the buffer: what the console
/// cannot take stays there, and when it is more than kBehindLimitBytes behind, one line says how much is not shown.
///
/// Owner: the agent, one per generation. Threads: one. Blocks: only drain(), until its deadline. Its cost is bounded:
/// one follow() takes at most about kTimeSlice, so a timer of 20 ms makes a tenth of one core, however much ranks
/// print.
class LogFollower {
public:
    using Clock = std::chrono::steady_clock;

    static constexpr std::int64_t kBehindLimitBytes = 4 * 1024 * 1024;
    static constexpr std::int64_t kShownAfterSkipBytes = 64 * 1024;
    static constexpr std::size_t kReadBytes = 32 * 1024;  ///< of one file before the next has its turn
    static constexpr std::chrono::milliseconds kTimeSlice{2};

    /// `hostname` stands in prefixes.
    LogFollower(LoggingSpec options, std::string hostname);

    /// Follows the files of a rank, or none of them when the options hide it. Throws SystemError.
    void add_rank(int rank, int local_rank, const RankFiles& files);
    /// The rank's process has ended: an unfinished line of it is not waited for.
    void rank_ended(int rank);

    /// Gives new lines to the sink as far as it is ready. True when more is waiting already.
    bool follow(LineSink& sink, Clock::time_point now = Clock::now());
    /// Gives all that is left, and what is held back, until the deadline; then says what was not shown. True when all
    /// was given. Call it when the generation is over.
    bool drain(LineSink& sink, Deadline deadline);

private:
    struct File {
        int rank = 0;
        OutputStream stream = OutputStream::out;
        std::string path;
        UniqueFd fd;
        std::int64_t offset = 0;
        LineSplitter splitter;
        bool rank_ended = false;
        bool finished = false;  // the end was reached after rank_ended
    };

    bool shown(int local_rank, OutputStream stream) const;
    bool read_round(LineSink& sink, Clock::time_point now);
    bool read_file(File& file, LineSink& sink, Clock::time_point now);
    void skip_if_behind(File& file, LineSink& sink, Clock::time_point now, std::int64_t limit_bytes);
    void give(File& file, LineSink& sink, Clock::time_point now);
    void give_folded(LineSink& sink, Clock::time_point now);
    void write_folded(LineSink& sink, OutputStream stream);

    LoggingSpec options_;
    std::string hostname_;
    std::vector<File> files_;
    std::size_t next_file_ = 0;          // whose turn it is
    std::array<LineFolder, 2> folders_;  // by stream
    std::vector<char> buffer_;
    std::vector<LogLine> lines_;      // scratch
    std::vector<FoldedLine> folded_;  // scratch
};

}  // namespace autolaunch::launcher
