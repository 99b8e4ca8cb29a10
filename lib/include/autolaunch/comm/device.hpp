#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>

namespace autolaunch {

/// Where memory is and work runs.
enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
    DeviceType type = DeviceType::cpu;
    int index = 0;  ///< CUDA device number; 0 for the CPU
    bool operator==(const Device&) const = default;
};

/// A queue in which work runs in order. A CPU stream has no queue: work on it is done when the call returns, so a
/// default-constructed Stream is right for every CPU trainer. A CUDA stream refers to a cudaStream_t that somebody
/// else owns.
class Stream {
public:
    Stream() = default;
    /// `handle` is a cudaStream_t; it must outlive the work put on it.
    static Stream cuda(int device_index, void* handle) { return Stream({DeviceType::cuda, device_index}, handle); }

    Device device() const noexcept { return device_; }
    void* handle() const noexcept { return handle_; }

private:
    Stream(Device device, void* handle) : device_(device), handle_(handle) {}
    Device device_;
    void* handle_ = nullptr;
};

}  // namespace autolaunch
