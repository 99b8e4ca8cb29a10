#pragma once
#include <autolaunch/export.hpp>

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace autolaunch {

// What std::filesystem does, with errors of ours. Its own functions throw a filesystem_error unless
// they are given an error_code, and nobody here catches one: tests/unit/structure_test.cpp keeps
// such calls out of the project. All of these throw SystemError, which names the path and what was
// to be done with it.
//
// Where the question is whether something is there, ENOENT and ENOTDIR are the answer "no". Every
// other error is no answer, and thrown: what cannot be read is not absent.

/// Links are followed; one that points nowhere is absent.
AUTOLAUNCH_API bool path_exists(const std::filesystem::path& path);
/// False too for what is there and no folder.
AUTOLAUNCH_API bool is_folder(const std::filesystem::path& path);
/// False too for what is there and no regular file.
AUTOLAUNCH_API bool is_file(const std::filesystem::path& path);
AUTOLAUNCH_API std::uintmax_t file_bytes(const std::filesystem::path& path);

/// With those above it, as workspace() says (base/workspace.hpp); what is there already is left.
AUTOLAUNCH_API void make_folders(const std::filesystem::path& path);
/// Replaces a file at `to`.
AUTOLAUNCH_API void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
/// A file, a link or an empty folder. It need not be there.
AUTOLAUNCH_API void remove_path(const std::filesystem::path& path);

/// The paths of what is in a folder, sorted, without "." and "..".
AUTOLAUNCH_API std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);
/// The same for those who make do with what can be read: `error` says what kept the rest away. Only
/// names that begin so: in /tmp there may be thousands of others.
AUTOLAUNCH_API std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder,
                                                              std::error_code& error,
                                                              std::string_view prefix = {});

/// Fails where the working directory was removed, or may not be searched.
AUTOLAUNCH_API std::filesystem::path current_folder();
/// Fails as current_folder() does, for relative paths.
AUTOLAUNCH_API std::filesystem::path absolute_path(const std::filesystem::path& path);

}  // namespace autolaunch
