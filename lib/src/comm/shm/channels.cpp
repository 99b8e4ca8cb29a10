// Sends and receives on the shm backend: a ring of chunks from every rank to every other. All of a
// group proceed side by side; those with the same peer in the same direction keep their order.
#include "comm/shm/channels.hpp"

#include "comm/shm/ranges.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace autolaunch::shm {
namespace {

// A message of no bytes has one empty chunk, so that the two sides still meet.
std::size_t chunks_in(std::size_t bytes) {
    return std::max<std::size_t>(1, pieces_in(bytes, kChannelChunkBytes));
}

bool is_send(const CollectiveCall& call) { return call.kind == CollectiveKind::send; }

}  // namespace

Transfers::Transfers(const Segment& segment, Peers& peers, int rank)
    : segment_(segment), peers_(peers), rank_(rank) {}

void Transfers::add(const CollectiveCall& call) {
    const std::size_t bytes = call.count * call.element_bytes();
    for (Lane& lane : lanes_) {
        if (lane.peer != call.root || is_send(*lane.messages.front().call) != is_send(call))
            continue;
        lane.messages.push_back({&call, bytes});
        return;
    }
    lanes_.push_back({call.root, 0, 0, {{&call, bytes}}});
}

void Transfers::run(const Operation& operation) {
    while (!lanes_.empty()) {
        if (!advance()) {
            peers_.wait_for_bell(
                operation, [this] { return advance(); }, [this] { return waiting_for(); });
        }
        std::erase_if(lanes_,
                      [](const Lane& lane) { return lane.message == lane.messages.size(); });
    }
}

// Every lane as far as it goes.
bool Transfers::advance() {
    bool advanced = false;
    for (Lane& lane : lanes_) {
        while (lane.message < lane.messages.size()) {
            const Message& message = lane.messages[lane.message];
            if (!(is_send(*message.call) ? send_chunk(lane, message)
                                         : receive_chunk(lane, message)))
                break;
            advanced = true;
            if (++lane.chunk == chunks_in(message.bytes)) {
                lane.chunk = 0;
                ++lane.message;
            }
        }
    }
    return advanced;
}

std::vector<int> Transfers::waiting_for() const {
    std::vector<int> peers;
    for (const Lane& lane : lanes_) {
        if (lane.message < lane.messages.size())
            peers.push_back(lane.peer);
    }
    return peers;
}

bool Transfers::send_chunk(const Lane& lane, const Message& message) {
    Channel& channel = segment_.channel(rank_, lane.peer);
    const std::uint64_t chunk = channel.filled.load(std::memory_order_relaxed);
    if (channel.drained.load(std::memory_order_acquire) + kChannelChunks <= chunk)
        return false;
    auto& header = channel.chunks[chunk % kChannelChunks];
    header.message_bytes = message.bytes;
    header.type = static_cast<std::uint64_t>(message.call->type);
    const Range range = piece_of(message.bytes, kChannelChunkBytes, lane.chunk);
    if (range.count != 0) {
        std::memcpy(segment_.channel_chunk(rank_, lane.peer, chunk),
                    static_cast<const std::byte*>(message.call->send) + range.begin, range.count);
    }
    peers_.publish_to(lane.peer, channel.filled, chunk + 1);
    return true;
}

bool Transfers::receive_chunk(const Lane& lane, const Message& message) {
    Channel& channel = segment_.channel(lane.peer, rank_);
    const std::uint64_t chunk = channel.drained.load(std::memory_order_relaxed);
    if (channel.filled.load(std::memory_order_acquire) <= chunk)
        return false;
    const auto& header = channel.chunks[chunk % kChannelChunks];
    if (header.message_bytes != message.bytes ||
        header.type != static_cast<std::uint64_t>(message.call->type)) {
        const std::string text =
            fmt::format("rank {} expects {} bytes of {} from rank {}, which sent {} bytes of {}",
                        rank_, message.bytes, name_of(message.call->type), lane.peer,
                        header.message_bytes, name_of(static_cast<DataType>(header.type)));
        peers_.abort_for(ErrorCode::mismatch, text);
        throw Error(ErrorCode::mismatch, text, "send and recv must agree on count and type");
    }
    const Range range = piece_of(message.bytes, kChannelChunkBytes, lane.chunk);
    if (range.count != 0) {
        std::memcpy(static_cast<std::byte*>(message.call->recv) + range.begin,
                    segment_.channel_chunk(lane.peer, rank_, chunk), range.count);
    }
    peers_.publish_to(lane.peer, channel.drained, chunk + 1);
    return true;
}

}  // namespace autolaunch::shm
