#include "stage_cache/held_tree.hpp"

#include "base/deadline.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/stage_part.hpp"
#include "stage_cache/stage_text.hpp"
#include "stage_cache/tree_check.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kDigitsOfName = 32;
constexpr auto kWhileOthersLook = std::chrono::seconds(2);

/// The folder of that name is the one that is open: nobody has removed it since.
bool is_still_there(int folder, const std::string& name, int opened) {
    struct stat here {};
    struct stat there {};
    return ::fstat(opened, &here) == 0 &&
           ::fstatat(folder, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

}  // namespace

std::optional<StagedSource> parse_source_text(std::string_view text) {
    if (text.empty() || text.back() != '\n')
        return std::nullopt;
    const auto lines = split(std::string(text), '\n');
    long long keep = 0;
    if (lines.size() != 4 || !is_tree_name(lines[0]) || !parse_integer(lines[1], keep) || keep < 0)
        return std::nullopt;
    try {
        return StagedSource{.name = lines[0], .from = unescaped_word(lines[2]), .keep_s = keep};
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::string source_text(const StagedSource& source) {
    return fmt::format("{}\n{}\n{}\n", source.name, source.keep_s, escaped_word(source.from));
}

bool is_tree_name(const std::string& name) {
    return name.size() >= kDigitsOfName && parse_hex128(name.substr(0, kDigitsOfName)) &&
           (name.size() == kDigitsOfName ||
            (name[kDigitsOfName] == '.' && name.find('/') == std::string::npos));
}

bool take_tree(int data, const std::string& name, int folder) {
    const Deadline deadline = Deadline::after(kWhileOthersLook);
    while (::flock(folder, LOCK_SH | LOCK_NB) != 0) {
        if (errno != EINTR && (errno != EWOULDBLOCK || deadline.passed()))
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return is_still_there(data, name, folder);
}

HeldTree held_tree(UniqueFd lock, const std::string& name, const std::filesystem::path& data) {
    HeldTree held;
    const ManifestHead head = parse_manifest_head(read_text(lock.get(), kManifest, kManifestHead));
    held.bytes = head.bytes;
    held.files = head.files;
    held.path = data / name / kTree;
    held.name = name;
    held.lock = std::move(lock);
    if (head.is_file)
        held.path /= manifest_of(held).entries.at(0).path;
    return held;
}

void mark_used(const HeldTree& held) {
    const timespec now[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW},
                             {.tv_sec = 0, .tv_nsec = UTIME_NOW}};
    if (::futimens(held.lock.get(), now) == 0)
        return;
    // Another's: who reads the manifest leaves a time there, where the disk keeps such.
    const UniqueFd manifest(
        ::openat(held.lock.get(), kManifest, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    char byte = 0;
    if (manifest && ::read(manifest.get(), &byte, 1) < 0)
        return;  // it is as it was used before
}

Tree manifest_of(const HeldTree& held) {
    const std::string text = read_text(held.lock.get(), kManifest, kMostText);
    if (address_of(text) != held.name.substr(0, kDigitsOfName))
        throw Error(ErrorCode::corrupt, "its manifest is another one's");
    return parse_manifest_text(text);
}

std::string why_unusable(const HeldTree& held, std::optional<uid_t> owner) {
    try {
        const UniqueFd tree(::openat(held.lock.get(), kTree, kOpenFolder));
        if (!tree)
            return "it has no tree";
        return why_not_as_marked(tree.get(), manifest_of(held),
                                 parse_marks_text(read_text(held.lock.get(), kMarks, kMostText)),
                                 owner);
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace autolaunch::launcher
