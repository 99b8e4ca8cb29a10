#pragma once
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// Where the main thread of a Python rank is.
struct PythonPlace {
    std::string collective;  ///< of torch.distributed, that it is in: "all_reduce"; empty: none
    std::string place;       ///< of the user's code: "train (train.py:40)"; empty: unknown
    bool operator==(const PythonPlace&) const = default;
};

/// By what faulthandler wrote of all threads. Pure.
PythonPlace python_place(std::string_view stacks);

}  // namespace autolaunch::launcher
