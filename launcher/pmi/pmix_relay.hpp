#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace autolaunch::launcher {

// What the agents of two nodes say to each other about MPI ranks, in the relays of the control
// plane's channel pmix; docs/pmi-protocol.md has the bytes.

/// What has `rank`, of the receiving node, published?
struct ModexQuestion {
    std::uint64_t call = 0;  ///< the asker's own number
    int rank = 0;
};
struct ModexReply {
    std::uint64_t call = 0;
    bool good = true;
    std::string blob;
};
using PmixRelay = std::variant<ModexQuestion, ModexReply>;

std::string encode_relay(const PmixRelay& message);
/// Nothing for bytes that are no such message.
std::optional<PmixRelay> decode_relay(std::string_view bytes);

}  // namespace autolaunch::launcher
