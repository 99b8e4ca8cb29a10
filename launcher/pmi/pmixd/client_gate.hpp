#pragma once
#include "base/unique_fd.hpp"

#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One process at a time is a rank.
///
/// A rank's children have PMIx's variables, too: two MPI programs that a rank starts side by side
/// (srun --mpi=none, xargs -P, make -j, &) would both connect as the one rank, which PMIx allows,
/// and each take the other's part in fences and messages. The second is turned away and killed:
/// Open MPI 5 takes being turned away for being alone, and goes on as rank 0 of 1. One after the
/// other, and a process that becomes another program, may.
///
/// Owner: ConnectionGuard. Threads: PMIx's listening one. Blocks: until the client has said who it
/// is, kPatienceSeconds at most.
class ClientGate {
public:
    static constexpr int kPatienceSeconds = 5;

    /// A connection of our own user that has not been read from. Empty: it may go to PMIx; else why
    /// not, for a person, and whoever made it was killed.
    std::string refuse(int socket);

private:
    /// By name space and rank: duplicates of the sockets that PMIx has. PMIx shuts a connection
    /// down before it closes it, so these keep none alive.
    std::map<std::pair<std::string, unsigned>, std::vector<UniqueFd>> clients_;
};

}  // namespace autolaunch::launcher
