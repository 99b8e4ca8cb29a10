#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Where a rank is in the collectives of one process group, as PyTorch's flight recorder tells it.
struct TorchGroup {
    std::string name;                                          ///< "default_pg"
    std::int64_t enqueued = -1, started = -1, completed = -1;  ///< collectives; -1: not told
    std::string oldest_open;  ///< "nccl:all_reduce #12, [1024, 1024] Float"; empty: none
    std::string place;        ///< "train (train.py:40)"; empty: not told
    bool operator==(const TorchGroup&) const = default;
};

/// A dump of PyTorch's flight recorder: a pickle (dump()) or JSON (dump_json()), of versions 2.x;
/// keys that are not there are left out. Throws Error{corrupt} for anything else. Pure.
std::vector<TorchGroup> read_torch_dump(std::string_view bytes);

/// A line for each group. Pure.
std::string describe_torch_groups(const std::vector<TorchGroup>& groups);

}  // namespace autolaunch::launcher
