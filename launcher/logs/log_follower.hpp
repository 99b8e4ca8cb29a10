#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "logs/line_folder.hpp"
#include "logs/line_splitter.hpp"
#include "logs/rank_files.hpp"
#include "report/charset.hpp"
#include "report/line_sink.hpp"
#include "spec/job_spec.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Shows the log files of this node's ranks on the console while they grow. The files are the
/// buffer: what the console cannot take stays there, and when it is more than kBehindLimitBytes
/// behind, one line says how much is not shown.
///
/// Without prefixes (logging.prefix: false) there are no lines: the bytes go as they are, all of
/// them. Where several ranks are shown, a rank's go as far as its last newline, unless it is silent
/// then; so its lines stay whole among the others'.
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

    /// Takes from the options what concerns the console; `hostname` stands in prefixes, `charset`
    /// is that of our own marks.
    LogFollower(LoggingSpec options, std::string hostname, Charset charset = Charset::utf8);

    /// Follows the files of a rank, or none of them when the options hide it. `prefix` stands
    /// before its lines as it is, where the options have a template. Throws SystemError.
    void add_rank(int rank, int local_rank, const RankFiles& files, std::string prefix = {});
    /// How far a rank's stream was read, where it is shown.
    std::optional<std::int64_t> read_to(int rank, OutputStream stream) const;
    /// The rank's process has ended: no line of it is waited for.
    void rank_ended(int rank);

    /// Gives new lines to the sink as far as it is ready. True when there was more than one time
    /// slice's worth.
    bool follow(LineSink& sink, Clock::time_point now = Clock::now());
    /// When the generation is over: gives all that is left and what is held back, and flushes the
    /// sink, until the deadline; then one line a file says what was not shown. True when all was
    /// given and written.
    bool drain(LineSink& sink, Deadline deadline);
    /// Bytes that were promised to come whole are not written yet, and somebody is there to read
    /// them.
    bool owes(const LineSink& sink) const;

private:
    struct File {
        int rank = 0;
        OutputStream stream = OutputStream::out;
        std::string path;
        UniqueFd fd;
        std::int64_t offset = 0;  // read up to here
        LineSplitter splitter = {};
        bool rank_ended = false;
        std::int64_t cut_at = -1;       // without prefixes: a line that is not whole ended here
        Clock::time_point cut_since{};  // then
    };

    struct Gap {
        std::int64_t begin = 0, end = 0;
    };

    bool shows(int local_rank, OutputStream stream) const;
    void add_file(int rank, OutputStream stream, const std::filesystem::path& path,
                  std::int64_t start);
    bool read_round(LineSink& sink, Clock::time_point now);
    bool read_file(LineSink& sink, File& file, Clock::time_point now);
    bool pass_bytes(LineSink& sink, File& file, Clock::time_point now);
    std::size_t whole_part(File& file, std::string_view bytes, Clock::time_point now) const;
    void show_live(LineSink& sink) const;
    std::int64_t unread_bytes(const File& file) const;
    std::int64_t unread_from_here(File& file) const;
    std::optional<Gap> gap_in(const File& file, std::size_t got) const;
    bool skip_gap(File& file, std::size_t got, Clock::time_point now);
    void skip_to(File& file, std::int64_t offset, Clock::time_point now);
    void queue_lines(File& file, Clock::time_point now);
    void queue_line(const File& file, std::string text, Clock::time_point now);
    void give_queued(LineSink& sink, Clock::time_point now);
    void write_queue(LineSink& sink, OutputStream stream);
    bool anything_unread() const;
    void say_unread(LineSink& sink, File& file);

    LoggingSpec options_;
    std::map<int, std::string> prefixes_;  ///< by rank, of a template
    std::string hostname_;
    std::string mark_;  // "… "
    std::vector<File> files_;
    std::size_t first_file_ = 0;  // whose turn it is
    std::vector<char> buffer_;
    std::vector<LogLine> lines_;  // scratch of one file
    // By stream: lines in the folder, then lines to write.
    std::array<LineFolder, 2> folders_;
    std::array<std::vector<FoldedLine>, 2> queues_;
};

}  // namespace autolaunch::launcher
