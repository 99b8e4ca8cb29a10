#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"
#include "submission/code_state.hpp"
#include "submission/slurm_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 20, kMostFiles = 50'000;
constexpr std::size_t kLongestList = std::size_t{64} << 20;
constexpr int kDeepest = 64;

bool lies_in(const fs::path& path, const std::vector<fs::path>& folders) {
    return std::any_of(folders.begin(), folders.end(), [&](const fs::path& folder) {
        const auto [end, rest] =
            std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
        return end == folder.end();
    });
}

/// Below the repository's root. git writes the list, which may be long, into a file.
std::vector<std::string> files_of_git(const CodeState& state, const fs::path& list,
                                      const Deadline& deadline) {
    const CommandAnswer answer = ask_command(
        {"sh", "-c",
         "exec git --no-optional-locks -C \"$1\" ls-files -z --cached --others --exclude-standard "
         ">\"$2\"",
         "sh", state.root, list.string()},
        deadline);
    if (!answer.good())
        throw ExitError(exit_code::kUnavailable, ErrorCode::system,
                        "--snapshot: git does not list the files of " + state.root,
                        std::string(trim(answer.errors)));
    const std::string text = read_regular_file(list, kLongestList);
    remove_path(list);
    auto names = split(text, '\0');
    std::erase(names, "");
    return names;
}

void list_below(const fs::path& root, const fs::path& below, const std::vector<fs::path>& without,
                int depth, std::vector<std::string>& names) {
    if (depth > kDeepest || names.size() > kMostFiles)
        return;
    for (const fs::path& path : list_folder(root / below)) {
        const std::string name = path.filename();
        std::error_code ignored;
        if (name.starts_with('.') || name == "__pycache__" || lies_in(path, without))
            continue;
        if (fs::symlink_status(path, ignored).type() == fs::file_type::directory)
            list_below(root, below / name, without, depth + 1, names);
        else
            names.push_back(below / name);
    }
}

[[noreturn]] void too_much(const fs::path& folder) {
    throw ExitError(exit_code::kUnavailable, ErrorCode::unsupported,
                    "--snapshot: " + folder.string() +
                        " has more than 512 MiB or 50,000 files: that is not code alone",
                    "name data and outputs in .gitignore, or submit without --snapshot");
}

void copy_one(const fs::path& root, const fs::path& name, const fs::path& folder, CodeCopy& copy) {
    const fs::path from = root / name, to = folder / name;
    std::error_code error;
    const fs::file_type type = fs::symlink_status(from, error).type();
    if (type == fs::file_type::not_found)
        return;  // tracked, and deleted
    make_folders(to.parent_path());
    if (type == fs::file_type::symlink) {
        fs::copy_symlink(from, to, error);
    } else if (type == fs::file_type::regular) {
        copy.bytes += file_bytes(from);
        if (copy.bytes > kMostBytes)
            too_much(root);
        fs::copy_file(from, to, error);
    } else {
        return;  // a submodule, whose files git lists for itself alone; a socket
    }
    if (error)
        throw SystemError(error.value(), "copy " + from.string() + " to " + to.string());
    ++copy.files;
}

}  // namespace

CodeCopy copy_code(const fs::path& folder, const std::optional<CodeState>& state,
                   const std::vector<fs::path>& without, const fs::path& to,
                   const Deadline& deadline) {
    const fs::path root = state ? fs::path(state->root) : folder;
    std::vector<std::string> names;
    make_folders(to);
    if (state)
        names = files_of_git(*state, to / ".list", deadline);
    else
        list_below(root, {}, without, 0, names);
    if (names.size() > kMostFiles)
        too_much(root);
    CodeCopy copy;
    for (const std::string& name : names) {
        if (lies_in(root / name, without))
            continue;
        copy_one(root, name, to, copy);
    }
    copy.workdir = (to / folder.lexically_relative(root)).lexically_normal();
    make_folders(copy.workdir);
    return copy;
}

}  // namespace autolaunch::launcher
