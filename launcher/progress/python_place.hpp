#pragma once
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// Where the main thread of a Python rank is.
struct PythonPlace {
    std::string collective;  ///< of torch.distributed, that it is in: "all_reduce"; empty: none
    std::string place;       ///< of the user's code: "train (train.py:40)"; empty: unknown
    /// In torch's backward, and in no Python function that it calls: it computes, or it waits for
    /// the gradients of others, as DistributedDataParallel does there without a frame of its own.
    bool in_backward = false;
    bool awaits_children = false;  ///< for what processes of its own send it: torch's data loader
    bool operator==(const PythonPlace&) const = default;
};

/// By what faulthandler wrote of all threads. Pure.
PythonPlace python_place(std::string_view stacks);

}  // namespace autolaunch::launcher
