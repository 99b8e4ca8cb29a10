#include "data/convert.hpp"

namespace autolaunch::data {

namespace {

template <class Token, bool checks>
bool convert_row(const Token* __restrict tokens, std::int64_t length,
                 std::int32_t* __restrict inputs, std::int32_t* __restrict targets,
                 std::uint32_t limit) {
    std::uint32_t too_large = checks ? tokens[0] >= limit : 0;
    for (std::int64_t i = 0; i < length; ++i) {
        inputs[i] = static_cast<std::int32_t>(tokens[i]);
        targets[i] = static_cast<std::int32_t>(tokens[i + 1]);
        if constexpr (checks)
            too_large |= static_cast<std::uint32_t>(tokens[i + 1] >= limit);
    }
    return too_large == 0;
}

template <class Token>
bool convert_row(const std::byte* tokens, std::int64_t length, std::int32_t* inputs,
                 std::int32_t* targets, std::uint64_t limit) {
    const auto* from = static_cast<const Token*>(static_cast<const void*>(tokens));
    if (limit >= kNoLimit)
        return convert_row<Token, false>(from, length, inputs, targets, 0);
    return convert_row<Token, true>(from, length, inputs, targets,
                                    static_cast<std::uint32_t>(limit));
}

}  // namespace

bool convert(const std::byte* tokens, TokenType type, std::int64_t length, std::int32_t* inputs,
             std::int32_t* targets, std::uint64_t limit) {
    if (type == TokenType::u8)
        return convert_row<std::uint8_t>(tokens, length, inputs, targets, limit);
    if (type == TokenType::u16)
        return convert_row<std::uint16_t>(tokens, length, inputs, targets, limit);
    return convert_row<std::uint32_t>(tokens, length, inputs, targets, limit);
}

}  // namespace autolaunch::data
