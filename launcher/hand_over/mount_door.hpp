#pragma once
#include "base/unique_fd.hpp"
#include "hand_over/fuse_server.hpp"
#include "hand_over/piece_files.hpp"

#include <chrono>
#include <memory>
#include <vector>

namespace autolaunch::launcher {

/// A mover's end of the socket (SOCK_SEQPACKET) over which whoever has mounted hands in that
/// mount's /dev/fuse: each message has it, and a socket for the answer, which is one byte once its
/// files are served.
///
/// Owner: the mover. Threads: one; files are served by those of the servers. Blocks: serve().
class MountDoor {
public:
    MountDoor(UniqueFd socket, PieceFiles& files, std::chrono::milliseconds patience)
        : socket_(std::move(socket)), files_(files), patience_(patience) {}

    /// Until nobody can ask any more.
    void serve();

private:
    void take(UniqueFd device, UniqueFd answer);

    UniqueFd socket_;
    PieceFiles& files_;
    const std::chrono::milliseconds patience_;
    std::vector<std::unique_ptr<FuseServer>> servers_;
};

}  // namespace autolaunch::launcher
