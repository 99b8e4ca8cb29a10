#pragma once
// The one interface behind Communicator. A backend is a folder beside this file.
#include <autolaunch/comm/communicator.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace autolaunch {

/// How one group of ranks moves bytes. Communicator has checked the arguments: buffers are not null unless the count is
/// 0, byte counts fit std::ptrdiff_t, send and recv are in place or apart, roots and peers are in range, a peer is
/// never this rank, the stream is of device_type().
///
/// Owner: the Communicator handles, by shared_ptr. Threads: one at a time, except abort() and status(). Blocks: a CPU
/// backend returns from a collective when it is done and throws from the call, so that no error is lost with a Work
/// that nobody waits for; a device backend returns a Work. A failed collective leaves the group aborted: the pending
/// calls of the other ranks throw, and every later call throws AbortedError.
class AUTOLAUNCH_API CommunicatorBackend {
public:
    virtual ~CommunicatorBackend() = default;

    virtual std::string_view name() const noexcept = 0;
    virtual int rank() const noexcept = 0;
    virtual int size() const noexcept = 0;
    /// Where the buffers are and which streams are taken.
    virtual DeviceType device_type() const noexcept = 0;

    virtual Work all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
                            Stream stream) = 0;
    virtual Work all_gather(const void* send, void* recv, std::size_t send_count, DataType type, Stream stream) = 0;
    virtual Work reduce_scatter(const void* send, void* recv, std::size_t recv_count, DataType type, ReduceOp op,
                                Stream stream) = 0;
    virtual Work broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream) = 0;
    virtual Work all_to_all(const void* send, void* recv, std::size_t count_per_rank, DataType type, Stream stream) = 0;
    virtual Work send(const void* buffer, std::size_t count, DataType type, int peer, Stream stream) = 0;
    virtual Work recv(void* buffer, std::size_t count, DataType type, int peer, Stream stream) = 0;
    virtual void barrier() = 0;

    /// Null for a negative color.
    virtual std::shared_ptr<CommunicatorBackend> split(int color, int key) = 0;
    virtual void abort(const std::string& reason) = 0;
    virtual CommunicatorStatus status() const = 0;
};

}  // namespace autolaunch
