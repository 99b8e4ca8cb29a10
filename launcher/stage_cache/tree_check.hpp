#pragma once
#include "stage_cache/tree.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Whether a copy still looks as it did when it was published, without reading it: sizes, modes,
/// times of change and inodes of all of it, and that nothing has come. Empty: it does; else what
/// does not, in words. With `owner` all of it has to be his, and only he may write there.
std::string why_not_as_marked(int folder, const Tree& tree, const std::vector<Mark>& marks,
                              std::optional<uid_t> owner = {});

/// The same by reading every byte.
std::string why_damaged(int folder, const Tree& tree);

}  // namespace autolaunch::launcher
