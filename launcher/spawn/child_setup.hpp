#pragma once
#include "spawn/spawn.hpp"

#include <csignal>
#include <cstddef>

namespace autolaunch::launcher {

/// Everything the child needs between clone and exec, laid out by the parent beforehand, because
/// the child may share the parent's memory and must not allocate. The last three fields are the
/// child's report.
struct ChildSetup {
    const char* path = nullptr;
    char* const* argv = nullptr;
    char* const* environment = nullptr;
    const char* workdir = nullptr;            ///< nullptr: stay
    const unsigned long* cpu_mask = nullptr;  ///< nullptr: leave the affinity alone
    std::size_t cpu_mask_bytes = 0;
    const unsigned long* node_mask = nullptr;  ///< nullptr: leave the memory policy alone
    std::size_t node_mask_bits = 0;
    const unsigned long* first_node_mask =
        nullptr;                         ///< for kernels that know one preferred node only
    const rlim_t* file_limit = nullptr;  ///< nullptr: leave the limit on open files alone
    int streams[3] = {-1, -1, -1};       ///< sources of 0, 1, 2: -1 or at least 3
    int inherited_fd = -1;               ///< -1: none; else at least 3
    int inherited_as = -1;
    bool deaf = false;  ///< ignore_requests() after reset_signals()
    bool ignores_hangup = false;
    pid_t parent = -1;

    SpawnStage failed_stage = SpawnStage::none;
    int error_number = 0;
    int affinity_error = 0;
    int memory_policy_error = 0;
};

/// Gives a child the dispositions and the mask of signals that a program expects: the default ones,
/// and none blocked. Async-signal-safe.
void reset_signals();

/// Ignores every signal by which others ask a process to end or to do something: a helper lives as
/// long as its agent, also where a scheduler signals all processes of a job at once. Not those that
/// a process causes itself, faults or limits, and not job control. Programs that are executed
/// inherit it. Async-signal-safe.
void ignore_requests();

/// Process group, parent-death signal, CPUs, memory policy, descriptors, limit and folder: all that
/// a child needs besides its signals. False when a step failed, which `setup` names then.
/// Async-signal-safe.
bool enter_place(ChildSetup& setup);

/// Runs in the child, on its own stack, with all signals blocked. Only async-signal-safe calls;
/// returns the exit status only when something failed.
int run_child(void* setup);

}  // namespace autolaunch::launcher
