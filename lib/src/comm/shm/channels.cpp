// send and recv on the shm backend: a ring of chunks from every rank to every other.
#include "comm/shm/collective.hpp"
#include "comm/shm/shm_backend.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <cstring>

namespace autolaunch {

using shm::Range;

namespace {

// A message of no bytes has one empty chunk, so that the two sides still meet.
std::size_t chunks_in(std::size_t bytes) {
    return std::max<std::size_t>(1, shm::pieces_in(bytes, shm::kChannelChunkBytes));
}

}  // namespace

Work ShmBackend::send(const void* buffer, std::size_t count, DataType type, int peer) {
    const shm::Operation operation = peers_.begin("send");
    const std::size_t bytes = count * size_of(type);
    shm::Channel& channel = segment_.channel(rank_, peer);
    std::uint64_t chunk = channel.filled.load(std::memory_order_relaxed);
    for (std::size_t step = 0; step < chunks_in(bytes); ++step, ++chunk) {
        const Range range = shm::piece_of(bytes, shm::kChannelChunkBytes, step);
        peers_.wait(peer, operation,
                    [&] { return channel.drained.load(std::memory_order_acquire) + shm::kChannelChunks > chunk; });
        auto& header = channel.chunks[chunk % shm::kChannelChunks];
        header.message_bytes = bytes;
        header.type = static_cast<std::uint64_t>(type);
        if (range.count != 0) {
            std::memcpy(segment_.channel_chunk(rank_, peer, chunk), static_cast<const std::byte*>(buffer) + range.begin,
                        range.count);
        }
        peers_.publish(channel.filled, chunk + 1);
    }
    return {};
}

Work ShmBackend::recv(void* buffer, std::size_t count, DataType type, int peer) {
    const shm::Operation operation = peers_.begin("recv");
    const std::size_t bytes = count * size_of(type);
    shm::Channel& channel = segment_.channel(peer, rank_);
    std::uint64_t chunk = channel.drained.load(std::memory_order_relaxed);
    for (std::size_t step = 0; step < chunks_in(bytes); ++step, ++chunk) {
        const Range range = shm::piece_of(bytes, shm::kChannelChunkBytes, step);
        peers_.wait(peer, operation, [&] { return channel.filled.load(std::memory_order_acquire) > chunk; });
        const auto& header = channel.chunks[chunk % shm::kChannelChunks];
        if (header.message_bytes != bytes || header.type != static_cast<std::uint64_t>(type)) {
            const std::string text =
                fmt::format("rank {} expects {} bytes of {} from rank {}, which sent {} bytes of {}", rank_, bytes,
                            name_of(type), peer, header.message_bytes, name_of(static_cast<DataType>(header.type)));
            peers_.abort_for(ErrorCode::mismatch, text);
            throw Error(ErrorCode::mismatch, text, "send and recv must agree on count and type");
        }
        if (range.count != 0) {
            std::memcpy(static_cast<std::byte*>(buffer) + range.begin, segment_.channel_chunk(peer, rank_, chunk),
                        range.count);
        }
        peers_.publish(channel.drained, chunk + 1);
    }
    return {};
}

}  // namespace autolaunch
