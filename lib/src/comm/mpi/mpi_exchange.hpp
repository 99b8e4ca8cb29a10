#pragma once
// Point-to-point messages that go on side by side, private to the mpi backend's sources.
#include "comm/mpi/mpi_backend.hpp"
#include "comm/mpi/mpi_group.hpp"

#include <string>
#include <vector>

namespace autolaunch {

/// Collects messages, then moves them all. Messages between two ranks with one tag arrive in the order in which they
/// were collected. A message longer than MPI can count goes in pieces.
///
/// Owner: one call. Blocks: run(). Throws Error{mismatch} when a peer sends more or less than was to be received.
class MpiBackend::Exchange {
public:
    /// Users' own messages have a tag of their own, and so never meet those of collectives.
    enum class Tag : int { user = 0, collective = 1 };

    Exchange(MpiBackend& backend, Tag tag) : backend_(backend), tag_(tag) {}
    void send(const Message& message) { add(message, sends_); }
    void receive(const Message& message) { add(message, receives_); }
    void run(const char* name);

private:
    void add(const Message& message, std::vector<Message>& pieces);
    void check_received(const Message& message, const MPI_Status& status) const;

    MpiBackend& backend_;
    Tag tag_;
    std::vector<Message> sends_;  // in pieces
    std::vector<Message> receives_;
};

}  // namespace autolaunch
