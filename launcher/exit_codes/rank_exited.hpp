#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

namespace autolaunch::launcher {

/// How a rank ended: the one record of it, from the reaped process over the wire to the event.
/// `rank` is global.
struct RankExited {
    int rank = 0, local_rank = 0, pid = 0;
    std::optional<int> exit_code;  ///< exactly one of these two
    std::optional<int> signal;
    bool core_dumped = false;
    bool asked_to_stop = false;  ///< we had signalled it before
    std::chrono::milliseconds ran{0};
    std::optional<std::int64_t> last_step;
    bool operator==(const RankExited&) const = default;
};

/// C of exit code C, 128 + N of signal N.
int exit_code_of(const RankExited& exited);
/// Neither exit code 0 nor an end that we asked for.
bool is_failure(const RankExited& exited);
/// The rank's end looks like the effect of `signal`: killed by it, or exit code 128 + signal, as
/// shells say it.
bool looks_stopped_by(const RankExited& exited, int signal);

}  // namespace autolaunch::launcher
