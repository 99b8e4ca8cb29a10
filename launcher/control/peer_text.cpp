#include "control/peer_text.hpp"

#include <asio/ip/address.hpp>

namespace autolaunch::launcher {

std::string numeric_address(const asio::ip::tcp::endpoint& endpoint) {
    const auto address = endpoint.address();
    if (address.is_v6() && address.to_v6().is_v4_mapped())
        return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
    return address.to_string();
}

std::string describe_end(const std::string& who, const ConnectionEnd& end) {
    const auto sentence = [&](const std::string& what) {
        return who + what + (end.reason.empty() ? "" : ": " + end.reason);
    };
    switch (end.kind) {
        case ConnectionEnd::Kind::silent:
            return sentence(" has fallen silent");
        case ConnectionEnd::Kind::too_slow:
            return sentence(" does not read what it is sent");
        case ConnectionEnd::Kind::corrupt:
        case ConnectionEnd::Kind::not_ours:
        case ConnectionEnd::Kind::key_refused:
            return sentence(" cannot be understood");
        case ConnectionEnd::Kind::closed:
        case ConnectionEnd::Kind::by_us:
            break;
    }
    return sentence(" broke its connection");
}

}  // namespace autolaunch::launcher
