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
///    then every kProgressInterval. The same of several lines, between which the cursor goes up
///    again (two bars, one below the other): they are given when a newline leaves the lowest.
/// Pure: the clock is an argument. Owner: LogFollower, one per file.
class LineSplitter {
public:
    using Time = std::chrono::steady_clock::time_point;

    static constexpr std::size_t kLongLineBytes = 16 * 1024;
    static constexpr std::size_t kStdioBlockBytes = 4096;
    static constexpr std::chrono::milliseconds kPromptDelay{200};
    static constexpr std::chrono::milliseconds kBlockDelay{5'000};
    static constexpr std::chrono::milliseconds kProgressInterval{10'000};
    static constexpr std::size_t kMostRows = 64;  ///< that the cursor goes up

    /// The next bytes of the stream; appends the lines they complete.
    void feed(std::string_view bytes, Time now, std::vector<LogLine>& lines);
    /// Nothing new came: appends what has waited long enough. `states_are_shown`: live() is, so
    /// that no state need be given in between.
    void idle(Time now, std::vector<LogLine>& lines, bool states_are_shown = false);
    /// The stream is over, or a part of it is left out from here: appends what is left of the line.
    void finish(std::vector<LogLine>& lines);

    /// The states of lines that are written over, from the top; nothing where none is.
    std::vector<std::string> live() const;

    /// The next `bytes` of the stream are left out.
    void skip(std::uint64_t bytes) { stream_bytes_ += bytes; }

private:
    /// One of several lines between which the cursor goes up and down.
    struct Row {
        std::string text;
        bool given = true;  ///< as it is; a line that was there before counts as that
    };

    void take(std::string_view bytes, std::vector<LogLine>& lines);
    void write(std::string_view bytes, std::vector<LogLine>& lines);
    void overwrite();
    void go_up(std::size_t rows);
    bool go_down();
    void go_to(std::size_t row);
    void keep_row();
    void give_rows(std::vector<LogLine>& lines);
    void give_piece(std::size_t bytes, std::vector<LogLine>& lines);
    void complete(std::vector<LogLine>& lines);

    std::string partial_;     // of the current line, without what was given as a piece
    std::string sequence_;    // the beginning of an escape sequence, at the end of what came
    std::vector<Row> rows_;   // where the cursor went up: all of them, the current one's old state
    std::size_t row_ = 0;     // the current one
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
