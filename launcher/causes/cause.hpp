#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Why a generation ended; docs/causes.md has the evidence of each. The order is the table's.
enum class Cause {
    program_error,       ///< it ended itself: exit code, exception, std::terminate
    cannot_start,        ///< no program to run: interpreter, library, format, permission
    crash,               ///< a signal of its own doing: SIGSEGV, SIGBUS, SIGILL, SIGFPE, …
    out_of_memory,       ///< the kernel's killer, malloc's or the GPU's refusal
    killed,              ///< a signal that somebody else sent
    mpi_abort,           ///< MPI_Abort
    collective_timeout,  ///< a rank did not come to a collective
    hang,                ///< the job stood still, and autolaunch ended it
    straggler,           ///< the others waited for a rank, whose node another one replaces
    storage,             ///< no room, quota, a file system that fails
    gpu,                 ///< Xid, ECC, fell off the bus
    network,             ///< a connection to a peer that lives, a port that is down
    node_lost,
    preempted,   ///< the scheduler wants the nodes for another job
    time_limit,  ///< the scheduler ends the job at its limit
    cancelled,   ///< a person stopped it
    agent_killed,
    internal,  ///< our own fault
};
inline constexpr int kCauses = 18;
std::array<Cause, kCauses> all_causes();

/// How a person and a program read it: "out_of_memory". Stable: events, specs and reports have it.
std::string_view name_of(Cause cause);
std::optional<Cause> cause_named(std::string_view name);

enum class Certainty {
    certain,   ///< the kernel, the driver, the scheduler or our own hand says so
    likely,    ///< the program's own words or its exit say so
    possible,  ///< nothing contradicts it, and nothing else is known
};
std::string_view name_of(Certainty certainty);
std::optional<Certainty> certainty_named(std::string_view name);

/// Why a generation ended: the one record that the event `generation_ended`, the screen, the
/// policy, the exit code and `autolaunch report` read.
struct EndRecord {
    Cause cause = Cause::internal;
    Certainty certainty = Certainty::possible;
    int rank = -1;                      ///< global; -1: no rank's doing
    std::string node;                   ///< empty: no node's doing
    std::string what;                   ///< one line: "RuntimeError: shard 00071 is truncated"
    std::vector<std::string> evidence;  ///< sentences, the most telling first
    std::string remedy;                 ///< what to do; empty: nothing is known
    std::string vain;                   ///< why a restart would end the same; empty: it might not
    std::optional<std::int64_t> step;   ///< the last that the rank reported
    bool follows = false;               ///< a peer was gone: the cause is another rank's, or a link
    int alike = 0;                      ///< other ranks that failed the same way
    int followers = 0;                  ///< ranks that failed because this one did
    std::string no_requeue = {};  ///< why the scheduler is not to start it again; empty: it may
    // What the job ends with where neither a restart nor a requeue follows. Of a failed rank the
    // head knows it.
    int exit_code = 70;
    std::string outcome = "failed";  ///< "stopped by SIGTERM": JobEnded::outcome
    bool operator==(const EndRecord&) const = default;
};

}  // namespace autolaunch::launcher
