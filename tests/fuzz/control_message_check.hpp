#pragma once
#include "control/control_message.hpp"

#include <autolaunch/error.hpp>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher::control {

/// What must hold for any bytes; aborts when it does not. The fuzzer and the replay of its corpus
/// share it. Returns how many messages there were.
inline std::size_t check_control_bytes(std::string_view bytes) {
    const auto require = [](bool holds) {
        if (!holds)
            std::abort();
    };
    std::size_t count = 0;
    MessageReader reader(std::size_t{1} << 20);
    const std::size_t half = bytes.size() / 2;
    for (const std::string_view piece : {bytes.substr(0, half), bytes.substr(half)}) {
        try {
            reader.feed(piece);
            while (const std::optional<Message> message = reader.next()) {
                ++count;
                const std::string frame = encode(*message);
                MessageReader again(kFrameLimit);
                again.feed(frame);
                const std::optional<Message> copy = again.next();
                require(copy.has_value() && *copy == *message);
                require(!again.next().has_value());
                // The encoding is canonical: the same message came from these very bytes.
                require(bytes.find(frame) != std::string_view::npos);
            }
        } catch (const Error& error) {
            require(error.code() == ErrorCode::corrupt);
            return count;
        }
    }
    return count;
}

}  // namespace autolaunch::launcher::control
