#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/borrowed.hpp>
#include <autolaunch/comm/types.hpp>
#include <autolaunch/digest.hpp>
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

/// What a checkpoint holds and where: the content of manifest.json (docs/checkpoint-format.md). A
/// plain value.
struct AUTOLAUNCH_API Manifest {
    static constexpr int kVersion = 2;
    /// Digests are of blocks of this size, counted from the start of a file; the last may be
    /// shorter.
    static constexpr std::uint64_t kBlockBytes = 4 << 20;

    struct File {
        std::string name;         ///< within the checkpoint's directory
        int rank = 0;             ///< that wrote it
        std::uint64_t bytes = 0;  ///< as it is stored, which the digests are of too
        Digest128 digest;  ///< over the block digests in order: hash128_of() in base/hash.hpp
        std::vector<Digest128> block_digests;  ///< XXH3-128
        /// An encrypted file (docs/encryption.md): of its plaintext, in which the pieces lie.
        std::optional<std::uint64_t> plain_bytes = {};
        /// SHA-256 of the same blocks, where the checkpoint is encrypted or has a MAC; else empty.
        std::vector<Digest256> block_sha256 = {};

        std::uint64_t content_bytes() const { return plain_bytes.value_or(bytes); }
        bool operator==(const File&) const = default;
    };
    /// A run of a tensor's elements in a file. In the file it is one box of the tensor, as
    /// boxes_of_run() cuts them.
    struct Piece {
        std::size_t file_index = 0;
        std::uint64_t file_offset = 0;  ///< bytes from the start of the file
        std::int64_t offset = 0;        ///< first element in the row-major flattened tensor
        std::int64_t count = 0;

        bool operator==(const Piece&) const = default;
    };
    struct Tensor {
        std::string name;
        DataType type = DataType::f32;
        std::vector<std::int64_t> shape;
        std::vector<Piece> pieces;

        std::int64_t element_count() const;  ///< Throws Error{corrupt} for an impossible shape.
        bool operator==(const Tensor&) const = default;
    };
    /// One dimension of how the ranks were arranged, such as {"replica", 2} or {"shard", 4}.
    struct MeshDimension {
        std::string name;
        int size = 1;

        bool operator==(const MeshDimension&) const = default;
    };

    std::int64_t step = 0;
    std::uint64_t generation = 0;  ///< of the job that saved it: its attempt number
    std::string run_id;            ///< of that job; empty when nobody launched it
    int world_size = 1;            ///< of the ranks that saved it
    std::vector<MeshDimension>
        mesh;  ///< slowest first; empty when nobody said. The sizes multiply to world_size
    std::string
        strategy;  ///< "full_shard", …; empty when nobody said. For people: loading needs neither
    std::optional<std::int64_t>
        parent_step;                 ///< the newest complete checkpoint when this one was saved
    std::optional<double> metric;    ///< the trainer's measure of it, to keep the best
    std::string library;             ///< version of the library that wrote it
    std::int64_t saved_unix_ms = 0;  ///< milliseconds since 1970, UTC; 0 when nobody said
    std::string extra = "{}";        ///< the trainer's own JSON text
    /// Who saved it, of what: a JSON object (docs/checkpoint-format.md); empty: nobody said.
    std::string lineage = {};
    std::vector<File> files;  ///< by rank
    std::vector<Tensor> tensors;

    /// JSON text that starts with a digest of the rest.
    std::string to_text() const;
    /// Verifies the digest and every field's type and range. Throws Error{corrupt}. Checks what can
    /// be checked of one rank's fragment too; require_complete() does the rest.
    static Manifest parse(std::string_view text);
    /// Throws Error{corrupt} unless the pieces of every tensor cover it exactly once, and no two
    /// share a byte.
    void require_complete() const;
    /// Looks through all of them; null where there is none.
    const Tensor* find(std::string_view name) const&;
    const Tensor* find(std::string_view name) const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;

    bool operator==(const Manifest&) const = default;
};

}  // namespace autolaunch
