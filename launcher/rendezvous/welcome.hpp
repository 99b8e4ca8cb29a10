#pragma once
#include "allocation/roster.hpp"
#include "control/control_message.hpp"

namespace autolaunch::launcher {

/// The roster as it is sent, and back: names in host list form, rank counts in repetition form.
/// Pure.
control::Welcome make_welcome(const Roster& roster);
/// To a node that comes while the job runs: who takes part now, and who waits. Pure.
control::Welcome make_late_welcome(const Roster& roster);
/// Throws Error{corrupt} for lists of different lengths, and for a `self` that is in neither.
Roster read_welcome(const control::Welcome& welcome);

}  // namespace autolaunch::launcher
