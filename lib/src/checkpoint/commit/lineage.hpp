#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch {

// Where a checkpoint comes from: a JSON object in its manifest (docs/checkpoint-format.md), as
// texts for who reads it. Nothing here is a secret.

/// Lower-case digits of the SHA-256; empty where libcrypto is missing.
std::string sha256_text(std::string_view bytes);

/// The checkpoint that this one follows, or was made of.
struct LineageParent {
    std::int64_t step = 0;
    std::string manifest_sha256;  ///< of its manifest's text; empty: not known
    std::string path;             ///< empty: in the same directory
    std::string lineage;          ///< its own, JSON; empty: it has none
};

/// What this process can say of a checkpoint that it saves: user, host, job, program and its
/// digest, the digests of the spec and of what it says of data. Reads the program's file, once.
/// `made_by`: "save", "reshard", "convert"; `source`: a file that was no checkpoint.
std::string lineage_text(const std::string& made_by, const std::optional<LineageParent>& parent,
                         const std::string& signed_by = {}, const std::string& source = {});
/// Of tensors that leave the cluster: which checkpoint they are of, and no user, host or path.
std::string published_lineage(const LineageParent& parent);

/// Whether it is what a manifest may hold: one JSON object of at most 64 KiB, not nested deeply.
bool is_lineage(std::string_view text);

/// Of a lineage: nothing where it has none, or is none.
std::optional<LineageParent> parent_of_lineage(std::string_view lineage);
std::string signer_of_lineage(std::string_view lineage);

}  // namespace autolaunch
