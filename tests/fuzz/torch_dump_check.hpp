#pragma once
#include "hang_evidence/nccl_ras.hpp"
#include "hang_evidence/pickle.hpp"
#include "hang_evidence/torch_recorder.hpp"
#include "require.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string_view>

namespace autolaunch::launcher {

/// A dump of PyTorch's flight recorder, which a rank wrote, and a rank's variables: groups in text
/// of bounded size, or Error{corrupt}. Aborts where that is not so. How many groups there were.
inline std::size_t check_torch_bytes(std::string_view bytes) {
    using fuzz::require;
    ras_address(bytes);
    try {
        read_pickle(bytes);
    } catch (const Error& error) {
        require(error.code() == ErrorCode::corrupt);
    }
    try {
        const auto groups = read_torch_dump(bytes);
        constexpr std::size_t kMostGroups = 64, kMostText = 2048;
        require(groups.size() <= kMostGroups);
        const std::string text = describe_torch_groups(groups);
        require(text.size() <= kMostGroups * kMostText);
        for (const char c : text)
            require(c == '\n' || static_cast<unsigned char>(c) >= ' ');
        return groups.size();
    } catch (const Error& error) {
        require(error.code() == ErrorCode::corrupt);
        return 0;
    }
}

}  // namespace autolaunch::launcher
