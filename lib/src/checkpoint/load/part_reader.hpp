#pragma once
#include "checkpoint/format/read_plan.hpp"
#include "checkpoint/load/read_keys.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>

#include <filesystem>
#include <functional>
#include <span>

namespace autolaunch {

/// A block that was read and verified. The content is there during the call only.
using UseBlock = std::function<void(const BlockNeed& need, std::span<const std::byte> content)>;

/// Reads blocks, each once and verified, in their order. Error{corrupt} names file, bytes and
/// tensors. Blocks: in storage.
void read_blocks(Storage& storage, const std::filesystem::path& directory, const Manifest& manifest,
                 std::span<const BlockNeed> needs, const UseBlock& use, const ReadKeys& keys = {});

/// Copies the parts, all read by this process.
void read_parts(Storage& storage, const std::filesystem::path& directory, const Manifest& manifest,
                std::span<const ReadPart> parts, const ReadKeys& keys = {});

/// Opens a shard anew and compares its size and the digests of its first and its last block, or of
/// all; Error{corrupt} says what differs.
void verify_file(Storage& storage, const std::filesystem::path& directory,
                 const Manifest::File& expected, SaveVerification verification);

}  // namespace autolaunch
