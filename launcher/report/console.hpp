#pragma once
#include "report/charset.hpp"
#include "report/line_sink.hpp"
#include "report/output_channel.hpp"
#include "report/text_style.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

struct ConsoleOptions {
    int stdout_fd = 1;
    int stderr_fd = 2;
    bool colours = true;                    ///< on terminals
    bool cursor_control = true;             ///< on terminals: the status line
    bool ranks_write_bytes = false;         ///< write_bytes() is used: no status line among them
    Charset charset = Charset::utf8;        ///< of our own words
    std::vector<std::string> secrets = {};  ///< not to be shown in our own messages

    /// NO_COLOR (https://no-color.org) turns colours off, TERM=dumb both; the locale says the
    /// charset.
    static ConsoleOptions from_environment();
};

/// The only writer to the launcher's stdout and stderr while a job runs: lines of ranks and our own
/// messages above, live lines of ranks and one status line below them when there is a terminal.
/// Between two writes the cursor is at the beginning of what is below: a terminal that is made
/// smaller breaks lines and keeps the cursor with its character, so that all behind it can be
/// erased, whatever became of it. Lines of a rank's stdout go
/// to stdout, all else goes to stderr. When both are the same terminal, pipe or file, they are one
/// queue, so that the order is kept and no line is cut by another.
///
/// Owner: the agent, one per process. Threads: one. Blocks: only flush(). The agent calls pump()
/// from a timer of about 20 ms. A console that is stuck or gone never holds up the job: ready()
/// turns false and lines stay in their files, our own messages are kept up to kMessageLimitBytes,
/// and the status line is left out.
class Console final : public LineSink {
public:
    using Clock = std::chrono::steady_clock;

    static constexpr std::size_t kReadyBelowBytes = 64 * 1024;
    static constexpr std::size_t kMessageLimitBytes = 1024 * 1024;
    static constexpr std::chrono::milliseconds kRedrawInterval{100};
    static constexpr int kMostLiveLines = 8;  ///< and at most half of the screen

    explicit Console(ConsoleOptions options);

    bool ready(OutputStream stream) const override;
    void write_line(OutputStream stream, std::string_view prefix, std::string_view text) override;
    void write_bytes(OutputStream stream, std::string_view bytes) override;
    bool shows_live(OutputStream stream) const override;
    void set_live(std::vector<LiveLine> lines) override;
    bool written() const override;
    /// What ranks printed did not reach stdout: what write(2) said, errno. 0: all did, as far as it
    /// was written.
    int output_lost() const { return channel(OutputStream::out).dropped_for(); }
    /// That is because nobody reads stdout any more.
    bool output_unread() const { return channel(OutputStream::out).is_unread(); }
    /// Our own text for stderr: whole lines, styled by style(). What a terminal would obey is made
    /// visible here too.
    void write_message(std::string_view text);

    /// Values of the job's secrets, all that are known: not to be shown, nor in lines of ranks.
    void hide_secrets(std::vector<std::string> values) { hidden_ = std::move(values); }

    /// Gets a copy of all that is written from now on: 1 stdout, 2 stderr; null: nobody does.
    using Tap = std::function<void(int to, std::string_view text)>;
    void set_tap(Tap tap) { tap_ = std::move(tap); }

    /// Whether set_status() shows anything: there is a terminal that can move its cursor.
    bool has_status_line() const { return status_channel_ != nullptr; }
    /// Shown below everything else and cut to the terminal's width; empty: no status line. Drawn by
    /// pump().
    void set_status(std::string text);
    /// How our own messages look here.
    TextStyle style() const;

    /// Writes what can be written now and redraws the status line, at most ten times a second.
    void pump(Clock::time_point now = Clock::now());
    /// Takes the status line away and waits until all is written (true) or the deadline passes.
    bool flush(Deadline deadline) override;

private:
    OutputChannel& channel(OutputStream stream) const;
    void append(OutputChannel& channel, std::string_view text);
    void end_line(OutputChannel& channel);
    std::vector<std::string> lines_below() const;
    std::string live_text(const LiveLine& line) const;
    void draw_status(Clock::time_point now);

    std::string without_secrets(std::string_view text) const;

    ConsoleOptions options_;
    std::vector<std::string> hidden_;
    Tap tap_;
    std::unique_ptr<OutputChannel> err_;
    std::unique_ptr<OutputChannel> out_;       // null: the same place as err_
    OutputChannel* status_channel_ = nullptr;  // the terminal that has the status line
    std::vector<LiveLine> live_;
    std::string status_;
    OutputChannel* cut_line_ = nullptr;  // a rank's bytes ended within a line on this terminal
    int drawn_columns_ = 0;              // the terminal's, when it was last drawn
    bool status_shown_ = false;          // its bytes are on the screen, or queued
    bool status_changed_ = false;
    Clock::time_point drawn_at_{};
    std::size_t dropped_messages_ = 0;
};

}  // namespace autolaunch::launcher
