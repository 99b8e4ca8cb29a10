#pragma once
#include "base/environment.hpp"
#include "checkpoint/s3/object_checksum.hpp"
#include "stage_cache/tree.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace autolaunch::launcher {

/// What a server has of all bytes of a file.
struct KnownChecksum {
    s3::ObjectChecksum checksum;
    std::string shown;                           ///< the file, as it is printed
    std::atomic<std::int64_t>* signs = nullptr;  ///< grows while all of it is read once more
};

/// One connection to a source's server. Each call asks again, with growing pauses, as long as bytes
/// come from time to time. Throws ExitError: 66 where a file is not there or is another version
/// now, 77 where the server refuses who asks, 69 where it does not answer.
///
/// Owner: one. Threads: one. Blocks: every call, while bytes come and for RemoteTerms::patience.
class RemoteReader {
public:
    virtual ~RemoteReader() = default;
    /// Exactly these bytes of a file of that version.
    virtual void read(const TreeEntry& file, std::int64_t at, std::span<std::byte> into) = 0;
    /// All of it in parts, in order, for servers that give no ranges; from 0 again where a
    /// connection broke.
    using Take = std::function<void(std::int64_t at, std::span<const std::byte> part)>;
    virtual void read_all(const TreeEntry& file, const Take& take) = 0;
    /// Of that version; nothing where it has none that can be compared. Costs nothing for the file
    /// whose bytes were the last that were read, all at once.
    virtual std::optional<KnownChecksum> checksum(const TreeEntry&) { return std::nullopt; }
    /// For a checksum of parts' checksums: how long one of them is, from 1; nothing where the
    /// server does not say it.
    virtual std::optional<std::int64_t> part_bytes(const TreeEntry&, std::uint64_t) {
        return std::nullopt;
    }
};

/// What lies on a server, under one address.
///
/// Owner: one. Threads: look() one, connect() any.
class RemoteSource {
public:
    virtual ~RemoteSource() = default;
    /// What is there now: sizes, times and versions, without digests. Throws ExitError as
    /// RemoteReader, and 65 for names that can be no files'. Blocks: as a RemoteReader does.
    virtual Tree look() = 0;
    virtual std::unique_ptr<RemoteReader> connect() const = 0;
    /// After look(): whether a part of a file can be asked for.
    virtual bool gives_ranges() const { return true; }
    /// Whether its files are to be compared with what the server has of them (checksum()): not
    /// where it is of a kind that has nothing, or the user wants none.
    virtual bool is_checked() const { return false; }
};

struct RemoteTerms {
    std::atomic<std::int64_t>* signs = nullptr;  ///< grows while bytes come
    std::chrono::milliseconds patience{60'000};  ///< with a server that sends nothing
};

/// Whether data of that name lies on a server: s3://, http:// or https://. Pure.
bool is_remote(const std::string& from);
/// How it is printed: without what signs it. Pure.
std::string shown_source(const std::string& from);
/// What tells one source from another, without what signs it. Pure.
std::string source_words(const std::string& from);

/// Which variables or file the credentials of a bucket are from: for who has to renew them. Pure.
std::string origin_of_credentials(const Environment& environment);

/// `verify` as in the spec. Credentials are those of the environment (docs/s3.md). Throws
/// ExitError: 65 for an address that makes no sense, 77 where there are no credentials, 69 where
/// libcurl is missing.
std::unique_ptr<RemoteSource> open_remote(const std::string& from, const std::string& verify,
                                          const Environment& environment, const RemoteTerms& terms);

}  // namespace autolaunch::launcher
