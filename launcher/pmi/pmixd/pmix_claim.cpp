#include "pmi/pmixd/pmix_claim.hpp"

#include <arpa/inet.h>

#include <cstdint>
#include <cstring>

namespace autolaunch::launcher::pmixd {

namespace {

// i32 index, u32 tag, u32 bytes that follow, padding; in the machine's byte order.
constexpr std::size_t kBytesAt = 8;
constexpr char kSimpleClient = 0;

/// Texts end with a zero byte; numbers have the network's byte order.
class Fields {
public:
    explicit Fields(std::string_view bytes) : rest_(bytes) {}

    bool text(std::string& to) {
        const std::size_t end = rest_.find('\0');
        if (end == std::string_view::npos)
            return false;
        to = rest_.substr(0, end);
        rest_.remove_prefix(end + 1);
        return true;
    }
    bool number(std::uint32_t& to) {
        if (rest_.size() < sizeof to)
            return false;
        std::memcpy(&to, rest_.data(), sizeof to);
        to = ntohl(to);
        rest_.remove_prefix(sizeof to);
        return true;
    }
    bool skip(std::size_t bytes) {
        if (rest_.size() < bytes)
            return false;
        rest_.remove_prefix(bytes);
        return true;
    }
    bool is_next(char byte) const { return !rest_.empty() && rest_.front() == byte; }

private:
    std::string_view rest_;
};

}  // namespace

std::optional<std::size_t> pmix_message_bytes(std::string_view header) {
    std::uint32_t bytes = 0;
    if (header.size() < kPmixHeaderBytes)
        return std::nullopt;
    std::memcpy(&bytes, header.data() + kBytesAt, sizeof bytes);
    return kPmixHeaderBytes + bytes;
}

std::optional<PmixClaim> parse_pmix_claim(std::string_view message) {
    if (message.size() < kPmixHeaderBytes)
        return std::nullopt;
    Fields fields(message.substr(kPmixHeaderBytes));
    std::string security;
    std::uint32_t credential = 0, rank = 0;
    PmixClaim claim;
    if (!fields.text(security) || !fields.number(credential) || !fields.skip(credential) ||
        !fields.is_next(kSimpleClient) || !fields.skip(1) || !fields.text(claim.name_space) ||
        !fields.number(rank))
        return std::nullopt;
    claim.rank = rank;
    return claim;
}

}  // namespace autolaunch::launcher::pmixd
