#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher::pmixd {

/// Whom a client of PMIx says that it is, in the first bytes that it sends.
struct PmixClaim {
    std::string name_space;
    unsigned rank = 0;

    bool operator==(const PmixClaim&) const = default;
};

/// The header before them, and the most of a first message that is looked at.
inline constexpr std::size_t kPmixHeaderBytes = 16;
inline constexpr std::size_t kPmixClaimLimit = 4096;

/// How long the message is, with its header, by its header's bytes; nothing where that is no
/// header. Pure.
std::optional<std::size_t> pmix_message_bytes(std::string_view header);

/// Of a first message (OpenPMIx 2.1 to 5); nothing for tools, which are no ranks, and for what
/// cannot be read. Pure.
std::optional<PmixClaim> parse_pmix_claim(std::string_view message);

}  // namespace autolaunch::launcher::pmixd
