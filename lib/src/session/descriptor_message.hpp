#pragma once
#include "base/unique_fd.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace autolaunch {

/// send(2) on a Unix socket, with a descriptor beside the first byte unless that is -1. Does not
/// block; what it returns and errno are send's.
long send_with_descriptor(int socket, std::string_view bytes, int descriptor);
/// The same with several, four at most.
long send_with_descriptors(int socket, std::string_view bytes, std::span<const int> descriptors);

/// recv(2) on a Unix socket; the last descriptor that came replaces `descriptor`, and others are
/// closed. Does not block; what it returns and errno are recv's.
long receive_with_descriptor(int socket, std::span<char> bytes, UniqueFd& descriptor);
/// The same; all that came are added.
long receive_with_descriptors(int socket, std::span<char> bytes,
                              std::vector<UniqueFd>& descriptors);

}  // namespace autolaunch
