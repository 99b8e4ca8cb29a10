#pragma once
#include "stage_cache/tree.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A line of what sha256sum writes.
struct ListedDigest {
    std::string digest;  ///< 64 hexadecimal digits
    std::string path;
    bool operator==(const ListedDigest&) const = default;
};
/// Throws Error{corrupt}, with the line's number, for what is none. Pure.
std::vector<ListedDigest> parse_digest_list(std::string_view text);

/// What the spec says of files' digests, compared file by file as they come.
///
/// Owner: one. Threads: check() any, once load() was called where needs_list().
class DigestCheck {
public:
    /// `tree` is what will be there. Throws ExitError 65 where `verify` is of another kind.
    DigestCheck(const Tree& tree, std::string verify, std::string shown);

    /// The list in the folder by which the others are judged; empty: there is none.
    const std::string& list() const { return list_; }
    bool needs_list() const { return !list_.empty() && !is_loaded_; }
    /// The list, open. Throws ExitError 65 also where it has not the tree's files.
    void load(const Tree& tree, int file);
    /// An open file of the tree. Throws ExitError 65, which names it. Blocks: while it is read.
    void check(const TreeEntry& entry, int file) const;

private:
    const std::string verify_, shown_;
    std::string list_;
    bool is_loaded_ = false;
    std::map<std::string, std::string> wanted_;  ///< digest by path
};

/// Whether a copy has the digests that the spec names: `verify` is sha256:… of the one file, or the
/// name of a list in the folder, which must have each of its files but itself. Throws ExitError 65,
/// which names the file. Blocks: while all of it is read.
void check_digests(int folder, const Tree& tree, const std::string& verify,
                   const std::string& shown);

}  // namespace autolaunch::launcher
