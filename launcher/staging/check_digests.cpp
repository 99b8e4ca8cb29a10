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

/// A copy's bytes; nobody else writes there.
MappedFile map_copy(int folder, const std::string& path) {
    return MappedFile(open_beneath(folder, path, O_RDONLY).get(), "read " + path);
}

std::string sha256_of(int folder, const std::string& path) {
    return hex(crypto::sha256(crypto::bytes_of(map_copy(folder, path).text())));
}

void check_one(int folder, const std::string& path, const std::string& wanted,
               const std::string& shown, const std::string& by) {
    if (const std::string digest = sha256_of(folder, path); digest != wanted)
        is_not(shown + " has sha256:" + digest + ", and not " + wanted + ", as " + by + " says",
               "it is another version or was damaged: fetch it anew, or write down the new digest");
}

void check_list(int folder, const Tree& tree, const std::string& list, const std::string& shown) {
    std::map<std::string, std::string> wanted;
    try {
        for (ListedDigest& line : parse_digest_list(map_copy(folder, list).text()))
            wanted[line.path] = line.digest;
    } catch (const SystemError&) {
        is_not(shown + " has no " + list,
               "storage.stage_in's `verify` has to name a list that is in the folder");
    } catch (const Error& error) {
        is_not(shown + "/" + list + ": " + error.what(), "write it with sha256sum");
    }
    std::set<std::string> seen;
    for (const TreeEntry& entry : tree.entries) {
        if (entry.kind != TreeEntry::Kind::file || entry.path == list)
            continue;
        const auto line = wanted.find(entry.path);
        if (line == wanted.end())
            is_not(shown + "/" + entry.path + " is not in " + list,
                   "add it there, or remove it from the folder");
        check_one(folder, entry.path, line->second, shown + "/" + entry.path, list);
        seen.insert(entry.path);
    }
    for (const auto& [path, digest] : wanted)
        if (!seen.contains(path))
            is_not(shown + "/" + path + " is not there, and " + list + " has it",
                   "the folder is not whole");
}

}  // namespace

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
    if (verify.empty())
        return;
    if (!verify.starts_with(kSha256)) {
        if (tree.is_file)
            is_not(shown + " is a file", "of a file `verify` is sha256: and its 64 digits");
        return check_list(folder, tree, verify, shown);
    }
    if (!tree.is_file)
        is_not(shown + " is a folder",
               "of a folder `verify` is the name of a list in it, as sha256sum writes one");
    check_one(folder, tree.entries.at(0).path, verify.substr(kSha256.size()), shown, "the spec");
}

}  // namespace autolaunch::launcher
