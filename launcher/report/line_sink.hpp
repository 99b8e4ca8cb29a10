#pragma once
#include "base/deadline.hpp"

#include <string_view>

namespace autolaunch::launcher {

enum class OutputStream { out, err };

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
    /// Waits until everything given is written or the deadline passes; true when written.
    virtual bool flush(Deadline deadline) = 0;
};

}  // namespace autolaunch::launcher
