#pragma once
#include <autolaunch/comm/communicator.hpp>

#include <memory>

struct CUevent_st;

namespace autolaunch::fsdp {

/// A point in a lane's or a stream's work that others wait for. Empty: it is past. Copies share it.
struct Fence {
    Work work;                          ///< of a lane that is a thread
    std::shared_ptr<CUevent_st> event;  ///< on a GPU
};

}  // namespace autolaunch::fsdp
