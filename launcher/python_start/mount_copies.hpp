#pragma once
#include <cstddef>

namespace autolaunch::launcher {

/// What became of it. `why` is empty where all was done.
struct MountedCopies {
    int mounted = 0;
    bool in_user_namespace = false;
    unsigned long copies_device = 0;  ///< st_dev of whole copies
    unsigned long pieces_device = 0;  ///< and of files in pieces; 0: there are none
    char why[200] = {};
};

/// Puts copies in the place of files, for this process and those that it forks: in a mount
/// namespace of its own, which it has to make in a user namespace where this user may not make one
/// else (its only user and group are then this one, and it has no privileges in it afterwards).
///
/// `pairs` are COPY and ORIGINAL, each with its zero, `bytes` in all; `folder` has the copies. They
/// are mounted read-only. A COPY without a '/' is a name in a file system of files in pieces
/// (FUSE), which is mounted over `folder` for the time of this call; its /dev/fuse is handed to a
/// MountDoor by the socket `door`. A pair is left out where the original is not what the copy was
/// made of, by its size and time of change, or is mapped by this process already. Once it is in the
/// namespace, a failure leaves what was mounted until then: each of them is as good as its
/// original.
///
/// Only system calls, no memory of the heap: fit for a forked child of any process, and for one
/// that has no threads yet.
MountedCopies mount_copies(const char* pairs, std::size_t bytes, const char* folder, int door);

/// Whether files in pieces could be mounted in `folder`, as mount_copies() does it. To be called in
/// a process that is of no more use then. `why`: why not.
MountedCopies try_mount_pieces(const char* folder);

}  // namespace autolaunch::launcher
