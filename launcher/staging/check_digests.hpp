#pragma once
#include "stage_cache/tree.hpp"

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

/// Whether a copy has the digests that the spec names: `verify` is sha256:… of the one file, or the
/// name of a list in the folder, which must have each of its files but itself. Throws ExitError 65,
/// which names the file. Blocks: while all of it is read.
void check_digests(int folder, const Tree& tree, const std::string& verify,
                   const std::string& shown);

}  // namespace autolaunch::launcher
