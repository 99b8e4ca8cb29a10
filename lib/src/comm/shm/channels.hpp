#pragma once
// Sends and receives between the ranks of a segment.
#include "comm/call.hpp"
#include "comm/shm/peers.hpp"
#include "comm/shm/segment.hpp"

#include <cstddef>
#include <vector>

namespace autolaunch::shm {

/// The sends and receives of one group of calls. They proceed side by side: none waits for another
/// with another peer, or in the other direction, so ranks may all send first, whatever the sizes.
///
/// Owner: the call. Threads: one. Blocks: run(), until all are done; a send is done when its last
/// chunk is in the channel (256 KiB fit). Throws Error{mismatch} when a message has another size or
/// type than its receive.
class Transfers {
public:
    Transfers(const Segment& segment, Peers& peers, int rank);

    /// The call must outlive run().
    void add(const CollectiveCall& call);
    void run(const Operation& operation);

private:
    struct Message {
        const CollectiveCall* call;
        std::size_t bytes;
    };
    /// One peer and direction.
    struct Lane {
        int peer;
        std::size_t message;  // the current one
        std::size_t chunk;    // of the current one
        std::vector<Message> messages;
    };

    bool advance();
    std::vector<int> waiting_for() const;
    bool send_chunk(const Lane& lane, const Message& message);
    bool receive_chunk(const Lane& lane, const Message& message);

    const Segment& segment_;
    Peers& peers_;
    int rank_;
    std::vector<Lane> lanes_;
};

}  // namespace autolaunch::shm
