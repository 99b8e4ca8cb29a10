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
///  - one without newline (a prompt) is given after kPromptDelay of silence, and its rest as a
///  piece. Where the silence
///    begins at a multiple of a stdio block, the writer's buffer was full, not its thought
///    complete: kBlockDelay then.
///  - of a line that a carriage return writes over (a progress bar) the last state is given: at its
///  newline, and until
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
    /// The stream is over, or a part of it is left out from here: appends what is left of the line.
    void finish(std::vector<LogLine>& lines);

    /// The next `bytes` of the stream are left out.
    void skip(std::uint64_t bytes) { stream_bytes_ += bytes; }

private:
    void take(std::string_view bytes, std::vector<LogLine>& lines);
    void overwrite();
    void give_piece(std::size_t bytes, std::vector<LogLine>& lines);
    void complete(std::vector<LogLine>& lines);

    std::string partial_;     // of the current line, without what was given as a piece
    bool continues_ = false;  // a piece was given
    bool shown_ = false;      // partial_ was given as a state of a progress bar
    bool pending_return_ =
        false;  // carriage returns came last: the line's end, or the bar's next state
    std::uint64_t stream_bytes_ = 0;
    Time last_fed_{};
    std::optional<Time>
        progress_since_;  // a progress bar: when its state was last given, or it began
};

}  // namespace autolaunch::launcher
