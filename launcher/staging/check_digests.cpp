#include "staging/check_digests.hpp"

#include "base/hash.hpp"
#include "base/mapped_file.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/beneath.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <set>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kSha256 = "sha256:";
constexpr std::size_t kDigits = 64;

[[noreturn]] void is_not(const std::string& what, std::string hint) {
    throw ExitError(exit_code::kBadData, ErrorCode::mismatch, what, std::move(hint));
}

/// A copy's file; nobody else writes there.
UniqueFd open_copy(int folder, const TreeEntry& entry) {
    UniqueFd file = open_beneath(folder, entry.path, O_RDONLY);
    if (!file)
        throw SystemError(errno, "open " + entry.path);
    return file;
}

}  // namespace

DigestCheck::DigestCheck(const Tree& tree, std::string verify, std::string shown)
    : verify_(std::move(verify)), shown_(std::move(shown)) {
    if (verify_.empty())
        return;
    const bool is_one = verify_.starts_with(kSha256);
    if (is_one && !tree.is_file)
        is_not(shown_ + " is a folder",
               "of a folder `verify` is the name of a list in it, as sha256sum writes one");
    if (!is_one && tree.is_file)
        is_not(shown_ + " is a file", "of a file `verify` is sha256: and its 64 digits");
    if (is_one)
        return;
    list_ = verify_;
    const bool is_there =
        std::any_of(tree.entries.begin(), tree.entries.end(), [this](const TreeEntry& entry) {
            return entry.kind == TreeEntry::Kind::file && entry.path == list_;
        });
    if (!is_there)
        is_not(shown_ + " has no " + list_,
               "storage.stage_in's `verify` has to name a list that is in the folder");
}

void DigestCheck::load(const Tree& tree, int file) {
    const std::string shown_list = shown_ + "/" + list_;
    try {
        for (ListedDigest& line : parse_digest_list(MappedFile(file, "read " + shown_list).text()))
            wanted_[line.path] = line.digest;
    } catch (const SystemError&) {
        throw;
    } catch (const Error& error) {
        is_not(shown_list + ": " + error.what(), "write it with sha256sum");
    }
    std::set<std::string> seen;
    for (const TreeEntry& entry : tree.entries) {
        if (entry.kind != TreeEntry::Kind::file || entry.path == list_)
            continue;
        if (!wanted_.contains(entry.path))
            is_not(shown_ + "/" + entry.path + " is not in " + list_,
                   "add it there, or remove it from the folder");
        seen.insert(entry.path);
    }
    for (const auto& [path, digest] : wanted_)
        if (!seen.contains(path))
            is_not(shown_ + "/" + path + " is not there, and " + list_ + " has it",
                   "the folder is not whole");
    is_loaded_ = true;
}

void DigestCheck::check(const TreeEntry& entry, int file) const {
    if (verify_.empty() || entry.path == list_)
        return;
    const std::string shown = list_.empty() ? shown_ : shown_ + "/" + entry.path;
    const std::string wanted =
        list_.empty() ? verify_.substr(kSha256.size()) : wanted_.at(entry.path);
    const MappedFile bytes(file, "read " + shown);
    if (const std::string digest = hex(crypto::sha256(crypto::bytes_of(bytes.text())));
        digest != wanted)
        is_not(shown + " has sha256:" + digest + ", and not " + wanted + ", as " +
                   (list_.empty() ? "the spec" : list_) + " says",
               "it is another version or was damaged: fetch it anew, or write down the new digest");
}

std::vector<ListedDigest> parse_digest_list(std::string_view text) {
    std::vector<ListedDigest> list;
    int number = 0;
    for (const std::string& line : split(text, '\n')) {
        ++number;
        if (line.empty())
            continue;
        std::array<std::uint8_t, 32> digest{};
        // A name with a line end or a backslash is escaped, with a backslash before the line.
        if (line.size() < kDigits + 3 || !parse_hex(line.substr(0, kDigits), digest) ||
            line[kDigits] != ' ' || (line[kDigits + 1] != ' ' && line[kDigits + 1] != '*'))
            throw Error(ErrorCode::corrupt, "line " + std::to_string(number) +
                                                " is no SHA-256 with the name of a file");
        std::string path = line.substr(kDigits + 2);
        while (path.starts_with("./"))
            path.erase(0, 2);
        list.push_back({line.substr(0, kDigits), std::move(path)});
    }
    return list;
}

void check_digests(int folder, const Tree& tree, const std::string& verify,
                   const std::string& shown) {
    DigestCheck digests(tree, verify, shown);
    for (const TreeEntry& entry : tree.entries)
        if (digests.needs_list() && entry.path == digests.list())
            digests.load(tree, open_copy(folder, entry).get());
    for (const TreeEntry& entry : tree.entries)
        if (entry.kind == TreeEntry::Kind::file && !verify.empty())
            digests.check(entry, open_copy(folder, entry).get());
}

}  // namespace autolaunch::launcher
