#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/export.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// The job's data on this node's own disk, where the spec's `storage.stage_in` has put it
/// (docs/guides/data.md). With `start: streaming` ranks run before all of it is there: each file
/// appears under its name once it is whole.
namespace autolaunch::data {

/// Where the job's data of that name is on this node: a file or a folder: AUTOLAUNCH_DATA_NAME.
/// Throws Error{invalid_argument} where that is not set, with what to write into the spec.
AUTOLAUNCH_API std::filesystem::path staged_data(const std::string& name);

/// A file of it, and its size.
struct StagedFile {
    std::filesystem::path path;
    std::uint64_t bytes = 0;
};
/// All files of the data of that name, in folders below it, too, in the order in which they come:
/// by their names. Those that are not there yet are among them. Throws as staged_data(),
/// SystemError, and Error{corrupt} where the launcher's listing is none. Blocks: while the disk
/// does.
AUTOLAUNCH_API std::vector<StagedFile> staged_files(const std::string& name);

/// Waits until a file of the job's data is there, whole; returns at once for any file that is.
/// Returns for how many seconds it has waited. Throws Error{invalid_argument} where it is not there
/// and none of that name will come, Error{closed} with the reason where it comes no more, and
/// TimeoutError. Threads: any. Blocks: at most for `patience`.
AUTOLAUNCH_API double await_file(const std::filesystem::path& path,
                                 std::chrono::milliseconds patience = std::chrono::hours(24));

}  // namespace autolaunch::data
