#pragma once
#include <autolaunch/checkpoint/checkpointer.hpp>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch {

/// File systems that spread a file over servers as its directory says.
enum class ParallelFileSystem { none, lustre, beegfs };

/// Of the directory, by statfs(2); none where it cannot be asked. Blocks: on the file system.
ParallelFileSystem parallel_file_system_of(const std::filesystem::path& directory);

/// The commands that say so, each to be tried where the one before is not installed: `lfs`, or
/// `beegfs-ctl` (up to version 7) and `beegfs` (from 8 on). None where the file system has no words
/// for it. Pure.
std::vector<std::vector<std::string>> stripe_commands(ParallelFileSystem kind,
                                                      const StripeOptions& stripe,
                                                      const std::filesystem::path& directory);

/// Runs them: files and directories that are made there from now on are so. Returns a line for
/// people where it had no effect, with the reason; else an empty one. Blocks: at most `timeout`.
std::string stripe_directory(ParallelFileSystem kind, const StripeOptions& stripe,
                             const std::filesystem::path& directory,
                             std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace autolaunch
