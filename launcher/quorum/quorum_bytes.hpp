#pragma once
#include "succession/succession_message.hpp"

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What agents say about who is head, as the bytes of control::Succession; docs/control-protocol.md
/// has them. Pure.
std::string encode_succession(const succession::Message& message);
/// Throws Error{corrupt} for what no agent says: bytes missing or left over, an unknown kind, a
/// record whose parts do not fit together.
succession::Message decode_succession(std::string_view bytes);

}  // namespace autolaunch::launcher
