#pragma once
#include "base/escaped_word.hpp"
#include "base/path_within.hpp"

#include <autolaunch/digest.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// One folder, file or symbolic link of a tree.
struct TreeEntry {
    enum class Kind : char { folder = 'd', file = 'f', link = 'l' };
    std::string path;  ///< below the root, without "." and ".."
    Kind kind = Kind::file;
    unsigned mode = 0;        ///< of a file: who may read and execute it, see kept_mode()
    std::int64_t bytes = 0;   ///< of a file
    Digest128 digest = {};    ///< of a file, see ChunkedDigest
    std::string target = {};  ///< of a link
    /// Of a server's file: its ETag, as the server writes it; not of the content.
    std::string version = {};
    // As the file system said where somebody looked; not of the content.
    std::int64_t mtime_ns = 0, ctime_ns = 0;
    std::uint64_t inode = 0;
};

/// What is staged under one name: a folder with all it holds, or one file.
struct Tree {
    bool is_file = false;             ///< the one entry is what was asked for
    std::vector<TreeEntry> entries;   ///< by path, ascending; a folder is before what it holds
    std::int64_t bytes() const;       ///< of all files
    std::int64_t file_count() const;  ///< without folders and links
};

/// A copy's bits of those of its original: no writer, and its owner may read.
inline unsigned kept_mode(unsigned mode) { return (mode & 0555U) | 0400U; }
inline constexpr unsigned kKeptFolderMode = 0555;

// docs/stage-cache.md has the forms of both texts, byte by byte.

/// What a tree holds: its address is this text's digest. Times, inodes and owners are not in it.
std::string manifest_text(const Tree& tree);
/// Throws Error{corrupt} for anything that manifest_text() does not write: also paths that lead out
/// of the tree, and links that do.
Tree parse_manifest_text(std::string_view text);
/// The first line alone.
struct ManifestHead {
    bool is_file = false;
    std::int64_t files = 0, bytes = 0;
};
ManifestHead parse_manifest_head(std::string_view text);
/// 32 hexadecimal digits.
std::string address_of(std::string_view manifest);

/// A source as somebody has seen it: `from` and all its entries with their times, without digests.
std::string listing_text(std::string_view from, const Tree& tree);
/// The tree of one. Throws Error{corrupt}.
Tree parse_listing_text(std::string_view text);
/// Which version of a source this is, as far as sizes and times of change tell: the digest of its
/// listing, 32 hexadecimal digits.
std::string source_key(std::string_view from, const Tree& tree);

/// How a copy looked when it was published: of its root and of each entry, in the manifest's order.
struct Mark {
    std::uint64_t inode = 0;
    std::int64_t mtime_ns = 0;
    bool operator==(const Mark&) const = default;
};
std::string marks_text(const std::vector<Mark>& marks);
/// Throws Error{corrupt}.
std::vector<Mark> parse_marks_text(std::string_view text);

/// What escaped_word() has made. Throws Error{corrupt}.
std::string unescaped_word(std::string_view word);

/// Whether a link of this path, by its words alone, leads to a place within the tree: upwards first
/// and no higher than the root, then down.
bool leads_within(std::string_view link_path, std::string_view target);

}  // namespace autolaunch::launcher
