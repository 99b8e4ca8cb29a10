#pragma once
// A rank's GPU, for benches of backend nccl.
#include "perf_device.hpp"

#include <autolaunch/session.hpp>

#include <memory>

namespace autolaunch::bench {

/// The GPU that the session's communicators are on, and a stream of its own there. Buffers are
/// cudaMalloc's kind, and wait() is for that stream. Throws Error when there is no driver, or it
/// refuses.
std::unique_ptr<PerfDevice> open_gpu(const RankInfo& info);

}  // namespace autolaunch::bench
