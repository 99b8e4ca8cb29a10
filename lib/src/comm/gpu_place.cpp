#include "comm/gpu_place.hpp"

#include "base/file_system.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

namespace autolaunch {
namespace {

// CUDA ignores what comes after the first entry that names no GPU.
int count_visible(std::string_view text) {
    int count = 0;
    for (const std::string& entry : split(text, ',')) {
        const std::string_view name = trim(entry);
        long long number = -1;
        const bool is_number = parse_integer(name, number) && number >= 0;
        if (!is_number && !name.starts_with("GPU-") && !name.starts_with("MIG-"))
            break;
        ++count;
    }
    return count;
}

}  // namespace

GpuPlace place_on_gpu(const char* visible, int installed, const RankInfo& info) {
    const int count = visible != nullptr ? count_visible(visible) : installed;
    if (count == 0)
        return {.is_own = false, .index = info.local_rank};
    const bool masked = visible != nullptr && count == 1;
    return {.is_own = masked || info.local_world_size <= count, .index = info.local_rank % count};
}

int installed_gpus(const std::filesystem::path& folder) {
    std::error_code missing;
    return static_cast<int>(list_folder(folder, missing).size());
}

}  // namespace autolaunch
