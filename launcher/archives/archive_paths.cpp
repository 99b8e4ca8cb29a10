#include "archives/archive_paths.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongestName = 255, kLongestPath = 4000, kMostEntries = 20'000'000;
constexpr int kDeepest = 200;
constexpr unsigned kSetIds = 06000;
constexpr const char* kMakeAnew =
    "make the archive anew without it, or fetch it from who can be trusted";

/// "./a/b/" is "a/b", and "./" nothing.
std::string plain(std::string path) {
    while (path.starts_with("./")) {
        path.erase(0, 2);
        path.erase(0, path.find_first_not_of('/'));
    }
    while (path.size() > 1 && path.ends_with('/'))
        path.pop_back();
    return path == "." ? std::string() : path;
}

/// For a line: whatever bytes there are.
std::string printable(const std::string& path) {
    constexpr std::size_t kMostShown = 200;
    std::string text = path.substr(0, kMostShown);
    std::replace_if(
        text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
    return text;
}

}  // namespace

void ArchivePaths::refuse(const std::string& why, const std::string& hint) const {
    throw ExitError(exit_code::kBadData, ErrorCode::invalid_argument,
                    fmt::format("{}: entry {}, \"{}\", {}", shown_, number_, printable(last_), why),
                    hint);
}

ArchivePaths::Placed ArchivePaths::place(const ArchivedEntry& entry) {
    ++number_;
    last_ = entry.path;
    if (number_ > kMostEntries)
        refuse("is one of more than 20,000,000", "stage several smaller archives");
    if (entry.is_encrypted)
        refuse("is encrypted", "make an archive that is not");
    if (entry.kind == ArchivedEntry::Kind::other)
        refuse("is neither a file nor a folder nor a link", kMakeAnew);
    const std::string path = plain(entry.path);
    const bool is_folder = entry.kind == ArchivedEntry::Kind::folder;
    Placed placed;
    if (path.empty() && is_folder && !entry.path.empty()) {
        placed.is_to_make = false;
        return placed;
    }
    if (!is_path_within(path))
        refuse("leads out of what is unpacked, or is no path", kMakeAnew);
    const auto names = split(path, '/');
    if (path.size() > kLongestPath || names.size() > kDeepest ||
        std::any_of(names.begin(), names.end(),
                    [](const std::string& name) { return name.size() > kLongestName; }))
        refuse("is longer or deeper than a path may be", kMakeAnew);
    if (!is_folder && (entry.mode & kSetIds) != 0)
        refuse("has a setuid or setgid bit", kMakeAnew);
    if (entry.bytes < 0)
        refuse("has fewer bytes than none", kMakeAnew);
    placed.entry.path = path;
    placed.entry.mtime_ns = entry.mtime_ns;
    check_parents(path, placed);
    const auto before = known_.find(path);
    if (before != known_.end() && is_folder && before->second == TreeEntry::Kind::folder) {
        placed.is_to_make = false;
        return placed;
    }
    if (before != known_.end())
        refuse("is there twice", kMakeAnew);
    switch (entry.kind) {
        case ArchivedEntry::Kind::folder:
            placed.entry.kind = TreeEntry::Kind::folder;
            break;
        case ArchivedEntry::Kind::link:
            placed.entry.kind = TreeEntry::Kind::link;
            placed.entry.target = entry.target;
            if (!leads_within(path, entry.target))
                refuse(
                    "is a link that leads out of what is unpacked, to " + printable(entry.target),
                    kMakeAnew);
            break;
        case ArchivedEntry::Kind::hard_link: {
            placed.same_as = plain(entry.target);
            const auto same = known_.find(placed.same_as);
            if (same == known_.end() || same->second != TreeEntry::Kind::file)
                refuse("is another name of " + printable(entry.target) +
                           ", which is no file before it",
                       kMakeAnew);
            break;
        }
        default:
            placed.entry.mode = kept_mode(entry.mode);
            placed.entry.bytes = entry.knows_bytes ? entry.bytes : 0;
    }
    known_[path] = placed.entry.kind;
    return placed;
}

void ArchivePaths::check_parents(const std::string& path, Placed& placed) {
    for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
        const std::string parent = path.substr(0, at);
        const auto [known, is_new] = known_.emplace(parent, TreeEntry::Kind::folder);
        if (known->second != TreeEntry::Kind::folder)
            refuse("is below \"" + printable(parent) + "\", which is no folder", kMakeAnew);
        if (is_new)
            placed.new_folders.push_back(parent);
    }
}

}  // namespace autolaunch::launcher
