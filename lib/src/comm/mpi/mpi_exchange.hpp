#pragma once
// Point-to-point messages that go on side by side: all that the mpi backend asks of MPI.
#include "comm/mpi/mpi_group.hpp"

#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <vector>

namespace autolaunch::mpi {

/// Collects messages, then moves them all. Messages between two ranks with one tag arrive in the
/// order in which they were collected. One that is longer than MPI can count goes in pieces; an
/// empty one does not go at all.
///
/// Owner: the backend, which uses it again for every call. Threads: one. Blocks: run(). Throws
/// Error{mismatch} when a peer sends more or less than was to be received.
class Exchange {
public:
    /// Users' own messages have a tag of their own, and so never meet those of collectives.
    enum class Tag : int { user = 0, collective = 1 };

    Exchange(Group& group, std::size_t piece_bytes) : group_(group), piece_bytes_(piece_bytes) {}

    void send(const void* data, std::size_t bytes, int peer);
    /// `type` is for errors.
    void receive(void* data, std::size_t bytes, int peer, DataType type = DataType::u8);
    bool empty() const noexcept { return sends_.empty() && receives_.empty(); }
    /// Moves and forgets what was collected. `name` is for errors, too.
    void run(const char* name, Tag tag = Tag::collective);

private:
    struct Send {
        const std::byte* data;
        int bytes, peer;
    };
    struct Receive {
        std::byte* data;
        int bytes, peer;
        DataType type;
    };
    int start(Tag tag);
    void check_received(const Receive& wanted, const MPI_Status& status) const;

    Group& group_;
    std::size_t piece_bytes_;
    std::vector<Send> sends_;  // in pieces
    std::vector<Receive> receives_;
    std::vector<MPI_Request> requests_;  // the receives first
    std::vector<MPI_Status> statuses_;
};

}  // namespace autolaunch::mpi
