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
#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Shows the log files of this node's ranks on the console while they grow. The files are the
/// buffer: what the console cannot take stays there, and when it is more than kBehindLimitBytes
/// behind, one line says how much is not shown.
///
/// Owner: the agent, one per generation. Threads: one. Blocks: only drain(), until its deadline.
/// Its cost is bounded: one follow() takes at most about kTimeSlice, so a timer of 20 ms makes a
/// tenth of one core, however much ranks print.
class LogFollower {
public:
    using Clock = std::chrono::steady_clock;

    static constexpr std::int64_t kBehindLimitBytes = 4 * 1024 * 1024;
    static constexpr std::int64_t kShownAfterSkipBytes = 64 * 1024;
    static constexpr std::size_t kReadBytes =
        32 * 1024;  ///< of one file before the next has its turn
    static constexpr std::chrono::milliseconds kTimeSlice{2};

    /// Takes from the options what concerns the console; `hostname` stands in prefixes. Lines are
    /// folded only when they are prefixed too: a folded line without its ranks would hide who
    /// printed it.
    LogFollower(LoggingSpec options, std::string hostname);

    /// Follows the files of a rank, or none of them when the options hide it. Throws SystemError.
    void add_rank(int rank, int local_rank, const RankFiles& files);
    /// The rank's process has ended: no line of it is waited for.
    void rank_ended(int rank);

    /// Gives new lines to the sink as far as it is ready. True when there was more than one time
    /// slice's worth.
    bool follow(LineSink& sink, Clock::time_point now = Clock::now());
    /// When the generation is over: gives all that is left and what is held back, and flushes the
    /// sink, until the deadline; then one line a file says what was not shown. True when all was
    /// given and written.
    bool drain(LineSink& sink, Deadline deadline);

private:
    struct File {
        int rank = 0;
        OutputStream stream = OutputStream::out;
        std::string path;
        UniqueFd fd;
        std::int64_t offset = 0;  // read up to here
        LineSplitter splitter;
        bool rank_ended = false;
    };

    bool shows(int local_rank, OutputStream stream) const;
    void add_file(int rank, OutputStream stream, const std::filesystem::path& path,
                  std::int64_t start);
    bool read_round(const LineSink& sink, Clock::time_point now);
    bool read_file(File& file, Clock::time_point now);
    std::int64_t unread_bytes(File& file) const;
    bool skip_gap(File& file, std::size_t got, Clock::time_point now);
    void skip_to(File& file, std::int64_t offset, Clock::time_point now);
    void queue_lines(File& file, Clock::time_point now);
    void queue_line(const File& file, std::string text, Clock::time_point now);
    void give_queued(LineSink& sink, Clock::time_point now);
    void write_queue(LineSink& sink, OutputStream stream);
    bool anything_unread();

    LoggingSpec options_;
    std::string hostname_;
    std::vector<File> files_;
    std::size_t first_file_ = 0;  // whose turn it is
    std::vector<char> buffer_;
    std::vector<LogLine> lines_;  // scratch of one file
    // By stream: lines in the folder, then lines to write.
    std::array<LineFolder, 2> folders_;
    std::array<std::vector<FoldedLine>, 2> queues_;
};

}  // namespace autolaunch::launcher
