#pragma once
#include "allocation/roster.hpp"
#include "spec/job_spec.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a process finds as its descriptor 0.
enum class InputKind {
    nothing,  ///< closed, or /dev/null
    terminal,
    file,    ///< can be read again from where it stood
    stream,  ///< a pipe, a socket, a device: what was read is gone
};

/// Looks at it.
InputKind kind_of_input(int fd);
/// A pipe or a socket: what nobody reads there holds up who writes it.
bool can_pile_up(int fd);

/// How a rank comes to its stdin.
enum class InputWay {
    nothing,     ///< /dev/null
    descriptor,  ///< the agent's own descriptor: nothing is copied
    own_file,    ///< the same file, opened once more, so that it has a position of its own
    pipe,        ///< a pipe that the agent fills
};

/// All that it depends on.
struct InputSituation {
    InputSpec wish;
    InputKind kind = InputKind::nothing;  ///< of the head's descriptor 0; counts on the head alone
    bool on_head = true;                  ///< its agent's stdin is the job's
    bool can_restart = false;             ///< restart.max_restarts is not 0
    int world_size = 1;
};

/// For a rank of this node. Pure.
InputWay way_of_input(const InputSituation& situation, int rank);

/// The nodes, but for the head, to which it sends the job's stdin. Pure.
std::vector<int> nodes_fed(const InputSpec& wish, const Roster& roster);

struct InputObjection {
    std::string what, hint;
};

/// Why the wish cannot be granted here; empty: it can. Pure.
InputObjection object_to_input(const InputSituation& situation);

}  // namespace autolaunch::launcher
