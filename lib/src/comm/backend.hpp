#pragma once
// The one interface behind Communicator. A backend is a folder beside this file.
#include "comm/call.hpp"

#include <autolaunch/comm/communicator.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace autolaunch {

class CudaDevice;  // nccl/cuda_device.hpp

/// How one group of ranks moves bytes. Calls are checked (checks.hpp): buffers are not null unless
/// they are empty, byte counts fit std::ptrdiff_t, send and recv are in place or apart, roots and
/// peers are in range, a peer is never this rank, the stream is of device_type().
///
/// Owner: the Communicator handles, by shared_ptr. Threads: one at a time, except abort(), status()
/// and check(). Blocks: a CPU backend returns from a call when it is done and throws from it, and
/// never sees a queue; a device backend returns a Work. A failed collective leaves the group
/// aborted: the pending calls of the other ranks throw, and every later call throws AbortedError.
class AUTOLAUNCH_API CommunicatorBackend {
public:
    virtual ~CommunicatorBackend() = default;

    virtual std::string_view name() const noexcept = 0;
    virtual int rank() const noexcept = 0;
    virtual int size() const noexcept = 0;
    /// Where the buffers are and which streams are taken.
    virtual DeviceType device_type() const noexcept = 0;
    /// The GPU of a device backend; null for others.
    virtual std::shared_ptr<CudaDevice> cuda_device() const { return nullptr; }

    virtual Work start(const CollectiveCall& call, Stream stream) = 0;
    /// Sends and receives side by side, then the collectives in order.
    virtual Work start_group(std::span<const CollectiveCall> calls, Stream stream) = 0;

    /// Returns when all ranks have called it; a device backend also waits for what it has put on
    /// streams.
    virtual void barrier() = 0;

    /// At least `bytes` that this backend moves best; page-aligned. Collective. Plain memory where
    /// nothing is better.
    virtual std::shared_ptr<void> allocate(std::size_t bytes);

    /// Null for a negative color.
    virtual std::shared_ptr<CommunicatorBackend> split(int color, int key) = 0;
    virtual void abort(const std::string& reason) = 0;
    /// Of the ranks that are not in `lost`, which is sorted and does not name this rank. Aborts
    /// this group. Throws Error{unsupported} by default.
    virtual std::shared_ptr<CommunicatorBackend> shrink(std::span<const int> lost);
    virtual CommunicatorStatus status() const = 0;
    /// Throws what it failed with where it was aborted.
    virtual void check() const;
    /// Why it was aborted, where the backend keeps it; any thread may ask.
    virtual std::string abort_reason() const { return {}; }
};

}  // namespace autolaunch
