#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// One line of a rank, without its newline. Raw bytes.
struct LogLine {
    std::string text;
    bool continues = false;  ///< the beginning of this line was given before
};

/// Cuts a stream of bytes in lines. A line is given whole, with these exceptions:
///  - one longer than kLongLineBytes is given in pieces;
///  - one without newline (a prompt) is given after kPromptDelay of silence, and its rest as a piece. Where the silence
///    begins at a multiple of a stdio block, the writer's buffer was full, not its thought complete: kBlockDelay then.
///  - of a line that a carriage return writes over (a progress bar) the last state is given: at its newline, and until
///    then every kProgressInterval.
/// Pure: the clock is an argument. Owner: LogFollower, one per file.
class LineSplitter {
public:
    using Time = std::chrono::steady_clock::time_point;

    static constexpr std::size_t kLongLineBytes = 16 * 1024;
    static constexpr std::size_t kStdioBlockBytes = 4096;
    static constexpr std::chrono::milliseconds kPromptDelay{200};
    static constexpr std::chrono::milliseconds kBlockDelay{5'000};
    static constexpr std::chrono::milliseconds kProgressInterval{10'000};

    /// The next bytes of the stream; appends the lines they complete.
    void feed(std::string_view bytes, Time now, std::vector<LogLine>& lines);
    /// Nothing new came: appends what has waited long enough.
    void idle(Time now, std::vector<LogLine>& lines);
    /// The stream is over, or a part of it is left out from here: appends what is left.
    void finish(std::vector<LogLine>& lines);

private:
    void complete(std::vector<LogLine>& lines);
    void take(std::string_view bytes, std::vector<LogLine>& lines);
    void overwrite();

    std::string partial_;          // what was not given yet of the current line
    bool continues_ = false;       // its beginning was given
    bool overwritten_ = false;     // it had a carriage return: a progress bar
    bool pending_return_ = false;  // its last byte was one: a line's end, or the bar's next state
    std::uint64_t stream_bytes_ = 0;
    Time last_fed_{};
    std::optional<Time> progress_shown_at_;
};

}  // namespace autolaunch::launcher
