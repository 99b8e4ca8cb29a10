#pragma once

namespace autolaunch::session {

/// From now on an Error that nobody catches ends the process with its hint on stderr, below the
/// what() that C++'s runtime prints: that says what to do instead ("the units are …"). Whoever set
/// a handler of terminate() before keeps it, and it has the last word; whoever sets one later
/// replaces this. Threads: any.
void show_hints_of_uncaught_errors() noexcept;

}  // namespace autolaunch::session
