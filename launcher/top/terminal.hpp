#pragma once
#include "report/charset.hpp"
#include "top/cell_grid.hpp"
#include "top/top_keys.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace autolaunch::launcher {

/// Why no screen can be shown here: stdin or stdout is no terminal, or one that cannot place its
/// cursor (TERM=dumb). Empty: it can.
std::string no_screen_here();

/// The terminal of this process, by ncurses: only what has changed since the screen before is sent.
/// SIGINT, SIGTERM and SIGHUP become TopKey::quit; the terminal is left as it was.
///
/// Owner: watch_job(); one at a time. Threads: one. Blocks: in wait(), until its deadline.
class Terminal {
public:
    /// Throws Error{unsupported} where no_screen_here() says something.
    Terminal(bool colours, Charset charset);
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    int rows() const;
    int columns() const;
    void show(const CellGrid& grid);

    struct Input {
        TopKey key = TopKey::none;
        bool resized = false;
    };
    /// The next key; none when so much time has passed, or the size has changed.
    Input wait(std::chrono::milliseconds most);

private:
    struct Handlers;
    std::unique_ptr<Handlers> handlers_;
    void* screen_ = nullptr;
    bool colours_ = false;
    int reads_of_nothing_ = 0;
};

}  // namespace autolaunch::launcher
