#include "base/file_system.hpp"

#include "base/workspace.hpp"

#include <autolaunch/error.hpp>

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

void check(const std::error_code& error, const std::string& doing, std::string hint = {}) {
    if (error)
        throw SystemError(error.value(), doing, std::move(hint));
}

fs::file_type type_of(const fs::path& path) {
    std::error_code error;
    const fs::file_type type = fs::status(path, error).type();
    if (type != fs::file_type::not_found)
        check(error, "look at " + path.string());
    return type;
}

}  // namespace

bool path_exists(const fs::path& path) { return type_of(path) != fs::file_type::not_found; }

bool is_folder(const fs::path& path) { return type_of(path) == fs::file_type::directory; }

bool is_file(const fs::path& path) { return type_of(path) == fs::file_type::regular; }

std::uintmax_t file_bytes(const fs::path& path) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path, error);
    check(error, "tell the size of " + path.string());
    return bytes;
}

void make_folders(const fs::path& path) {
    std::error_code unknown;
    if (path.empty() || fs::is_directory(path, unknown))
        return;
    if (path.has_parent_path() && path.parent_path() != path)
        make_folders(path.parent_path());
    make_one_folder(path, workspace());
}

void rename_path(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::rename(from, to, error);
    check(error, "rename " + from.string() + " to " + to.string());
}

void remove_path(const fs::path& path) {
    std::error_code error;
    fs::remove(path, error);
    check(error, "remove " + path.string());
}

// A directory_iterator makes a path of every entry, which /tmp may have many of.
std::vector<fs::path> list_folder(const fs::path& folder, std::error_code& error,
                                  std::string_view prefix) {
    std::vector<fs::path> entries;
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
    const dirent* entry = nullptr;
    while (open != nullptr && (errno = 0, entry = ::readdir(open.get())) != nullptr) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != ".." && name.starts_with(prefix))
            entries.push_back(folder / name);
    }
    error.assign(errno, std::generic_category());
    std::sort(entries.begin(), entries.end());
    return entries;
}

std::vector<fs::path> list_folder(const fs::path& folder) {
    std::error_code error;
    auto entries = list_folder(folder, error);
    check(error, "list " + folder.string());
    return entries;
}

fs::path current_folder() {
    std::error_code error;
    fs::path folder = fs::current_path(error);
    check(error, "tell the working directory",
          "it may have been removed: cd into one that is there");
    return folder;
}

fs::path absolute_path(const fs::path& path) {
    return path.is_absolute() ? path : current_folder() / path;
}

}  // namespace autolaunch
