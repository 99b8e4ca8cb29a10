#pragma once
#include "stage_cache/stage_cache.hpp"

#include <string_view>

namespace autolaunch::launcher {

/// In a part: of which boot of the machine it is. What an earlier one wrote may not have come to
/// the disk.
inline constexpr char kBootFile[] = "boot";
/// In a part and in what is whole: the tree itself.
inline constexpr char kTree[] = "tree";

/// In a part: which chunks of its files have come (PieceJournal).
inline constexpr char kPieces[] = "pieces";

/// Throws SystemError.
void write_part_file(const StagePart& part, const char* name, std::string_view text);

}  // namespace autolaunch::launcher
