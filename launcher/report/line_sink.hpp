#pragma once
#include "base/deadline.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

enum class OutputStream { out, err };

/// A line that its ranks still write over, such as a progress bar. As write_line() takes one.
struct LiveLine {
    std::string prefix, text;

    bool operator==(const LiveLine&) const = default;
};

/// Where the lines of ranks go. The one that matters is Console; tests and the log follower know
/// only this.
class LineSink {
public:
    virtual ~LineSink() = default;

    /// False: what was given is not yet written; keep further lines (they are safe in their files)
    /// and ask again.
    virtual bool ready(OutputStream stream) const = 0;
    /// One line without its newline, as the rank wrote it: the sink makes it safe for a terminal.
    /// Takes it even when not ready(), so that a folded group need not be cut. `prefix` is ours
    /// ("[node1 3]") or empty.
    virtual void write_line(OutputStream stream, std::string_view prefix,
                            std::string_view text) = 0;
    /// A rank's bytes, to be written as they are.
    virtual void write_bytes(OutputStream stream, std::string_view bytes) = 0;

    /// The stream leads to a terminal on which lines can be written over.
    virtual bool shows_live(OutputStream stream) const = 0;
    /// All live lines there are now, in the place of those before.
    virtual void set_live(std::vector<LiveLine> lines) = 0;

    /// Everything that was given is written, or nobody is there to read it.
    virtual bool written() const = 0;
    /// Waits until everything given is written or the deadline passes; true when written.
    virtual bool flush(Deadline deadline) = 0;
};

}  // namespace autolaunch::launcher
