#pragma once
#include <cstddef>

namespace autolaunch::launcher {

/// What became of it. `why` is empty where all was done.
struct MountedCopies {
    int mounted = 0;
    bool in_user_namespace = false;
    char why[200] = {};
};

/// Puts copies in the place of files, for this process and those that it forks: in a mount
/// namespace of its own, which it has to make in a user namespace where this user may not make one
/// else (its only user and group are then this one, and it has no privileges in it afterwards).
///
/// `pairs` are COPY and ORIGINAL, each with its zero, `bytes` in all; `folder` has the copies. They
/// are mounted read-only. A pair is left out where the original is not what the copy was made of,
/// by its size and time of change, or is mapped by this process already. Once it is in the
/// namespace, a failure leaves what was mounted until then: each of them is as good as its
/// original.
///
/// Only system calls, no memory of the heap: fit for a forked child of any process, and for one
/// that has no threads yet.
MountedCopies mount_copies(const char* pairs, std::size_t bytes, const char* folder);

}  // namespace autolaunch::launcher
