#pragma once
#include "checkpoint/age/age_header.hpp"
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/crypto/crypto.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::age {

// Files of age v1, which plain `age -d` opens and `age -e` writes: a header with the file's key for
// each recipient, 16 bytes of nonce, and the payload in chunks of 64 KiB, each sealed on its own.

inline constexpr std::size_t kChunkBytes = 64 << 10;
inline constexpr std::size_t kTagBytes = crypto::ChaCha20Poly1305::kTagBytes;
inline constexpr std::size_t kSealedChunkBytes = kChunkBytes + kTagBytes;
inline constexpr std::size_t kNonceBytes = 16;

/// Of a payload, without what precedes it. Even an empty one has a chunk.
std::uint64_t sealed_bytes(std::uint64_t plain_bytes);
/// The reverse. Throws Error{corrupt} for a size that no payload has.
std::uint64_t plain_bytes(std::uint64_t sealed_bytes);

/// The key of one file's payload. Chunks are independent, and may be sealed and opened in any
/// order. Threads: one; a copy is another, for another thread.
class Payload {
public:
    explicit Payload(crypto::SecretBytes key) : key_(std::move(key)), cipher_(key_) {}
    Payload(const Payload& other) : Payload(other.key_) {}
    Payload(Payload&&) noexcept = default;
    Payload& operator=(Payload&&) noexcept = default;

    /// All chunks but the last have kChunkBytes. `sealed` is 16 bytes longer than `plain`; they may
    /// start together.
    void seal(std::uint64_t chunk, bool last, std::span<const std::byte> plain,
              std::span<std::byte> sealed);
    /// Throws Error{corrupt} that names the chunk.
    void open(std::uint64_t chunk, bool last, std::span<const std::byte> sealed,
              std::span<std::byte> plain);

private:
    crypto::SecretBytes key_;
    crypto::ChaCha20Poly1305 cipher_;
};

/// What a new file starts with, and the key for the rest.
struct NewFile {
    std::string start;  ///< header and nonce
    Payload payload;
};
/// Throws Error{invalid_argument} without recipients, or with too many for a header.
NewFile start_file(std::span<const Recipient> recipients);

struct OpenedFile {
    std::size_t start_bytes = 0;  ///< where the payload starts
    Payload payload;
};
/// `start` is the first min(kMaxHeaderBytes + kNonceBytes, all) bytes. Throws Error{corrupt} for
/// what is not an age file or was changed, and Error{mismatch} when it is for none of the
/// identities.
OpenedFile open_file_start(std::string_view start, std::span<const Identity> identities);

/// Where a stream's output goes, in order.
using Sink = std::function<void(std::span<const std::byte>)>;

/// Plaintext in, an age file out. Holds one chunk. Threads: one. Blocks: as `sink` does.
class Encryptor {
public:
    Encryptor(std::span<const Recipient> recipients, Sink sink);
    void write(std::span<const std::byte> plain);
    /// What is not finished cannot be read.
    void finish();

private:
    void seal_pending(bool last);

    NewFile file_;
    Sink sink_;
    std::vector<std::byte> pending_, sealed_;
    std::uint64_t chunk_ = 0;
};

/// An age file in, plaintext out; what comes out is authentic, but may be cut short until finish()
/// returns. Identities must outlive it. Threads: one. Blocks: as `sink` does.
class Decryptor {
public:
    Decryptor(std::span<const Identity> identities, Sink sink);
    void write(std::span<const std::byte> sealed);
    /// Throws Error{corrupt} when the file is not whole.
    void finish();

private:
    void open_start(bool all);
    void open_chunk(std::span<const std::byte> sealed, bool last);

    std::span<const Identity> identities_;
    Sink sink_;
    std::vector<std::byte> pending_, plain_;
    std::vector<OpenedFile> file_;  ///< one, once the header is known
    std::uint64_t chunk_ = 0;
};

/// Any range of an age file. Opening it reads its start and its last chunk, which proves its
/// length. Threads: one. Blocks: as `read_at` does.
class RandomAccess {
public:
    /// Fills the span from an offset in the file; what it throws passes through.
    using ReadAt = std::function<void(std::uint64_t offset, std::span<std::byte> bytes)>;

    RandomAccess(std::span<const Identity> identities, std::uint64_t file_bytes, ReadAt read_at);

    std::uint64_t size() const { return plain_bytes_; }  ///< of the plaintext
    /// Fills `bytes`; returns how many there were before the end. Reads and checks every chunk that
    /// it touches.
    std::size_t read(std::uint64_t offset, std::span<std::byte> bytes);

private:
    std::span<const std::byte> open_chunk(std::uint64_t chunk);

    ReadAt read_at_;
    OpenedFile file_;
    std::uint64_t plain_bytes_ = 0, chunks_ = 0;
    std::vector<std::byte> buffer_;
};

}  // namespace autolaunch::age
