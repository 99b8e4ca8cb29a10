#pragma once
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/export.hpp>

#include <memory>

namespace autolaunch {

/// The GPU whose memory and streams the communicator takes; null where it is of CPUs. For parts of
/// the library that put work of their own beside its collectives.
AUTOLAUNCH_API std::shared_ptr<CudaDevice> cuda_device_of(const Communicator& communicator);

}  // namespace autolaunch
