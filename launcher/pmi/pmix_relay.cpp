#include "pmi/pmix_relay.hpp"

#include <cstddef>

namespace autolaunch::launcher {

namespace {

enum Kind : char { kQuestion = 0, kReply = 1 };

void append_number(std::string& bytes, std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i)
        bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
        value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
    return value;
}

}  // namespace

std::string encode_relay(const PmixRelay& message) {
    std::string bytes;
    if (const auto* question = std::get_if<ModexQuestion>(&message)) {
        bytes.push_back(kQuestion);
        append_number(bytes, question->call, 8);
        append_number(bytes, static_cast<std::uint32_t>(question->rank), 4);
    } else if (const auto* reply = std::get_if<ModexReply>(&message)) {
        bytes.push_back(kReply);
        append_number(bytes, reply->call, 8);
        bytes.push_back(reply->good ? 1 : 0);
        bytes += reply->blob;
    }
    return bytes;
}

std::optional<PmixRelay> decode_relay(std::string_view bytes) {
    if (bytes.size() == 13 && bytes[0] == kQuestion)
        return ModexQuestion{number_at(bytes, 1, 8),
                             static_cast<int>(static_cast<std::uint32_t>(number_at(bytes, 9, 4)))};
    if (bytes.size() >= 10 && bytes[0] == kReply)
        return ModexReply{number_at(bytes, 1, 8), bytes[9] != 0, std::string(bytes.substr(10))};
    return std::nullopt;
}

}  // namespace autolaunch::launcher
