#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/borrowed.hpp>
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace autolaunch {

/// Where memory is and work runs.
enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
    DeviceType type = DeviceType::cpu;
    int index = 0;  ///< CUDA device number; 0 for the CPU
    bool operator==(const Device&) const = default;
};

class CpuQueue;

/// A queue in which work runs in order. A default-constructed Stream is none: work on it is done
/// when the call returns, and on GPUs it may use memory of the CPU, too. A CUDA stream refers to a
/// cudaStream_t, and a stream of a CpuQueue to that queue; somebody else owns them, and they must
/// outlive the work put on them.
class Stream {
public:
    Stream() = default;
    /// `handle` is a cudaStream_t.
    static Stream cuda(int device_index, void* handle) {
        return Stream({DeviceType::cuda, device_index}, handle);
    }

    Device device() const noexcept { return device_; }
    /// The cudaStream_t, or the CpuQueue; null for none, and for CUDA's default stream.
    void* handle() const noexcept { return handle_; }
    bool is_given() const noexcept { return handle_ != nullptr || device_.type != DeviceType::cpu; }

private:
    friend class CpuQueue;
    Stream(Device device, void* handle) : device_(device), handle_(handle) {}
    Device device_;
    void* handle_ = nullptr;
};

/// The CPU's counterpart of a CUDA stream: a thread that runs what is put on it, in order, so that
/// collectives go on while the trainer computes.
///
/// Owner: the trainer. Threads: run() and synchronize() from any. Blocks: synchronize() and the
/// destructor, until all work is done.
class AUTOLAUNCH_API CpuQueue {
public:
    CpuQueue();
    ~CpuQueue();
    CpuQueue(const CpuQueue&) = delete;
    CpuQueue& operator=(const CpuQueue&) = delete;

    Stream stream() & noexcept { return Stream({DeviceType::cpu, 0}, this); }
    Stream stream() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// The thread calls `work` after all that was put before it. It must not throw.
    void run(std::function<void()> work);
    void synchronize();

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch
