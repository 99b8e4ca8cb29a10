#include "nccl_env/gid_choice.hpp"

#include "nccl_env/nccl_settings.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace autolaunch::launcher {
namespace {

using Bytes = std::array<std::uint8_t, 16>;

void read_number(const EnvironmentMap& settings, const char* name, int& value) {
    if (const std::string* text = find_setting(settings, name))
        value = static_cast<int>(number_of(*text));
}

std::optional<GidRange> read_range(const std::string& text, bool ipv6) {
    const auto slash = text.find('/');
    if (slash == std::string::npos)
        return std::nullopt;
    GidRange range;
    std::uint8_t* const place = ipv6 ? range.address.data() : range.address.data() + 12;
    if (::inet_pton(ipv6 ? AF_INET6 : AF_INET, text.substr(0, slash).c_str(), place) != 1)
        return std::nullopt;
    range.prefix_bits = static_cast<int>(std::strtol(text.c_str() + slash + 1, nullptr, 10));
    if (range.prefix_bits > (ipv6 ? 128 : 32))
        return std::nullopt;
    return range;
}

bool all_zero(const Bytes& bytes, std::size_t from) {
    return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(),
                       [](auto byte) { return byte == 0; });
}

bool is_link_local(const Bytes& bytes) {
    constexpr Bytes kPrefix = {0xfe, 0x80};
    return std::equal(bytes.begin(), bytes.begin() + 8, kPrefix.begin());
}

bool in_range(const Bytes& bytes, const GidRange& range, bool ipv6) {
    if (range.prefix_bits < 0)
        return false;
    std::size_t byte = ipv6 ? 0 : 12;
    for (int bits = range.prefix_bits; bits > 0; bits -= 8, ++byte) {
        const int mask = bits >= 8 ? 0xff : 0xff << (8 - bits);
        if ((bytes[byte] & mask) != (range.address[byte] & mask))
            return false;
    }
    return true;
}

const Gid* find_gid(const Hca::Port& port, int index) {
    const auto found = std::find_if(port.gids.begin(), port.gids.end(),
                                    [&](const Gid& gid) { return gid.index == index; });
    return found == port.gids.end() ? nullptr : &*found;
}

// ncclUpdateGidIndex, word for word; a hole reads as a GID of zeros without a version.
bool is_better(const Gid& candidate, const Gid& current, const GidRules& rules) {
    const bool wanted_family = is_ipv4(candidate) != rules.ipv6;
    const bool matches = !rules.range || in_range(candidate.bytes, *rules.range, rules.ipv6);
    if (!wanted_family || !matches)
        return false;
    if (is_ipv4(candidate) != is_ipv4(current))
        return true;
    if (!is_routable(candidate))
        return false;
    return (current.roce_version != candidate.roce_version || !is_routable(current)) &&
           candidate.roce_version == rules.roce_version;
}

}  // namespace

GidRules read_gid_rules(const EnvironmentMap& settings) {
    GidRules rules;
    read_number(settings, "NCCL_IB_GID_INDEX", rules.index);
    read_number(settings, "NCCL_IB_ROUTABLE_FLID_GID_INDEX", rules.flid_index);
    read_number(settings, "NCCL_IB_ROCE_VERSION_NUM", rules.roce_version);
    if (const std::string* family = find_setting(settings, "NCCL_IB_ADDR_FAMILY"))
        rules.ipv6 = *family == "AF_INET6";
    if (const std::string* range = find_setting(settings, "NCCL_IB_ADDR_RANGE"))
        rules.range = read_range(*range, rules.ipv6);
    return rules;
}

int choose_gid_index(const Hca::Port& port, const GidRules& rules) {
    if (port.link_layer == "InfiniBand") {
        const Gid* routable = find_gid(port, rules.flid_index);
        return routable != nullptr && (routable->bytes[4] != 0 || routable->bytes[5] != 0)
                   ? rules.flid_index
                   : 0;
    }
    if (rules.index >= 0)
        return rules.index;
    int table_length = 1;  // the real table is longer: what follows are zeros
    for (const Gid& gid : port.gids)
        table_length = std::max(table_length, gid.index + 2);
    const auto at = [&](int index) {
        const Gid* gid = find_gid(port, index);
        return gid != nullptr ? *gid : Gid{.index = index, .roce_version = -1};
    };
    int chosen = 0;
    for (int index = 1; index < table_length; ++index)
        if (is_better(at(index), at(chosen), rules))
            chosen = index;
    return chosen;
}

// As in NCCL, IPv4 multicast (ff0e::ffff:a.b.c.d) counts too.
bool is_ipv4(const Gid& gid) {
    constexpr Bytes kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    Bytes bytes = gid.bytes;
    if (bytes[0] == 0xff && bytes[1] == 0x0e)
        bytes[0] = bytes[1] = 0;
    return std::equal(bytes.begin(), bytes.begin() + 12, kMapped.begin());
}

bool is_routable(const Gid& gid) { return !all_zero(gid.bytes, 0) && !is_link_local(gid.bytes); }

std::string gid_problem(const Hca::Port& port, int index) {
    const Gid* gid = find_gid(port, index);
    if (gid == nullptr && index >= port.gids_read)
        return {};
    if (gid == nullptr || all_zero(gid->bytes, 0))
        return "a hole";
    if (port.link_layer == "InfiniBand")
        return {};
    if (!is_routable(*gid))
        return "link-local";
    if (gid->roce_version == 1)
        return "RoCE v1";
    return {};
}

}  // namespace autolaunch::launcher
