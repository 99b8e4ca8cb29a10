#pragma once
#include "base/deadline.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "checkpoint/s3/credential_source.hpp"
#include "checkpoint/s3/object_checksum.hpp"
#include "checkpoint/s3/s3_answers.hpp"
#include "checkpoint/s3/s3_settings.hpp"
#include "web/http_client.hpp"

#include <autolaunch/error.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::s3 {

using web::HttpClient;
using web::HttpRequest;
using web::HttpResponse;

struct UploadOptions {
    std::uint64_t part_bytes =
        16 << 20;      ///< smaller objects are put in one request; at least 5 MiB
    int parallel = 4;  ///< parts under way at once, each with a thread, a connection and a buffer
    /// Goes on with what another upload of the key has left, part by part as far as the bytes are
    /// the same; and leaves its own parts to the next one where it is stopped or out of time.
    bool resume = false;
    /// An object that is there stays, whenever it came. Servers that know no If-None-Match for
    /// objects in parts (Ceph's before 19) let the later one win.
    bool if_absent = false;
    /// Called before so many bytes are sent, by any thread; may wait, and throw. What is there
    /// already is not sent.
    std::function<void(std::uint64_t bytes)> pass = {};
};

struct Listing {
    std::vector<Object> objects;
    std::vector<std::string> prefixes;  ///< each ends with '/'
};

/// The server has answered, and refuses.
class Refusal : public Error {
public:
    Refusal(int status, std::string problem, const std::string& what, std::string hint)
        : Error(ErrorCode::system, what, std::move(hint)),
          status_(status),
          problem_(std::move(problem)) {}
    int status() const { return status_; }
    /// The server's own word, as "ExpiredToken"; empty where it gives none.
    const std::string& problem() const { return problem_; }

private:
    int status_;
    std::string problem_;
};

/// How an object of a certain version is read, which may take long.
struct ReadTerms {
    std::string etag = {};                         ///< another one is Error{mismatch}; empty: any
    std::atomic<std::int64_t>* arrived = nullptr;  ///< grows by each byte, at once
    std::chrono::milliseconds patience{0};  ///< with nothing of it, before one gives up; 0: any
    /// The bytes are all of the object: gets what the server has of them, see checksum().
    std::optional<ObjectChecksum>* checksum = nullptr;
};

/// One bucket, below one prefix: keys are without it. Every answer that may go better later is
/// asked for again, with growing pauses, until the deadline. Errors are Error with the request and
/// the server's own code, and never quote a key id, a secret or a token: unsupported without
/// libcurl or libcrypto, timeout, closed when it cannot be reached, Refusal when it refuses.
///
/// Owner: whoever stores. Threads: one (upload() starts others and ends them). Blocks: every
/// function, at most until its deadline.
class S3Client {
public:
    /// Everything that goes on ends with AbortedError soon after `stop`, which may be null, is
    /// true.
    S3Client(Location location, std::shared_ptr<CredentialSource> credentials,
             std::shared_ptr<const std::atomic<bool>> stop = {});
    S3Client(Location location, Credentials credentials,
             std::shared_ptr<const std::atomic<bool>> stop = {})
        : S3Client(std::move(location), fixed_credentials(std::move(credentials)),
                   std::move(stop)) {}

    enum class Put { created, exists };
    /// With `if_absent`, an object that is there stays, and the answer is `exists`. After a
    /// connection that broke, that may be the very object that was put: compare it.
    Put put(const std::string& key, std::span<const std::byte> bytes, bool if_absent,
            const Deadline& deadline);
    /// As put() where it is absent, with headers that lock the object (x-amz-object-lock-…); none:
    /// as the bucket's own rule says. A checksum goes with it, which locked buckets ask for.
    Put put_locked(const std::string& key, std::span<const std::byte> bytes,
                   const std::map<std::string, std::string>& lock, const Deadline& deadline);
    /// Until when an object is locked, as the server writes it; empty: it is not, or not known.
    std::string locked_until(const std::string& key, const Deadline& deadline);
    /// An object of any size: in parts where it is large. `read` fills the span from an offset of
    /// the source; it is called by one thread at a time, in order. On failure no object appears,
    /// and what was sent is taken back, but for what `options.resume` leaves. `exists` as of put().
    Put upload(const std::string& key, std::uint64_t bytes,
               const std::function<void(std::uint64_t offset, std::span<std::byte> bytes)>& read,
               const UploadOptions& options, const Deadline& deadline);

    /// Its size; nothing when there is none.
    std::optional<std::uint64_t> find(const std::string& key, const Deadline& deadline);
    /// Its size, version and time; nothing when there is none. Asks for a byte of it, for an answer
    /// to HEAD says not why.
    std::optional<Object> look(const std::string& key, const Deadline& deadline);
    /// Fills the span from an offset of the object; how much there was before its end.
    std::size_t get(const std::string& key, std::uint64_t offset, std::span<std::byte> bytes,
                    const Deadline& deadline) {
        return get(key, offset, bytes, deadline, {});
    }
    std::size_t get(const std::string& key, std::uint64_t offset, std::span<std::byte> bytes,
                    const Deadline& deadline, const ReadTerms& terms);
    /// What the server has of an object's bytes; nothing where it knows none, or is not to be asked
    /// (Location::tells_checksums).
    std::optional<ObjectChecksum> checksum(const std::string& key, const Deadline& deadline,
                                           const ReadTerms& terms);
    /// Of an object that was put in parts, the size of one of them (from 1). Nothing, or all of it,
    /// where the server tells no parts.
    std::optional<std::uint64_t> part_bytes(const std::string& key, std::uint64_t number,
                                            const Deadline& deadline, const ReadTerms& terms);
    /// Below `prefix`, to the next '/' or, with `deep`, all.
    Listing list(const std::string& prefix, bool deep, const Deadline& deadline) {
        return list(prefix, deep, deadline, {});
    }
    Listing list(const std::string& prefix, bool deep, const Deadline& deadline,
                 const ReadTerms& terms);
    /// Nothing happens when it is absent.
    void remove(const std::string& key, const Deadline& deadline);
    /// Takes back what uploads that died left below a prefix, all or those of the keys that
    /// `which` picks. How many there were.
    std::size_t abort_uploads(const std::string& prefix, const Deadline& deadline,
                              const std::function<bool(const std::string& key)>& which = {});

    /// "s3://bucket/prefix"
    std::string describe() const;

private:
    struct Operation {
        std::string method = "GET";
        std::string key;
        std::map<std::string, std::string> query = {};
        std::map<std::string, std::string> headers = {};
        std::span<const std::byte> body = {};
        std::span<std::byte> into = {};
        std::atomic<std::int64_t>* arrived = nullptr;
        std::chrono::milliseconds patience{0};
        bool keeps_checksum = false;  ///< the server is to store the body's SHA-256
    };
    class MultipartUpload;

    /// The answer, whose status is 2xx or one of `accepted`.
    HttpResponse request(const Operation& operation, const Deadline& deadline,
                         std::initializer_list<int> accepted = {});
    HttpResponse attempt(const Operation& operation, const crypto::Digest& payload,
                         const Deadline& deadline);
    HttpRequest signed_request(const Operation& operation, const crypto::Digest& payload) const;
    std::optional<HttpResponse> head(Operation operation, const Deadline& deadline,
                                     const ReadTerms& terms);
    void require_version(const Operation& operation, const HttpResponse& response,
                         const ReadTerms& terms) const;
    void require_checksum(const Operation& operation, const crypto::Digest& payload,
                          const HttpResponse& response) const;
    /// s3_upload.cpp: below a prefix, with keys as they are here.
    std::vector<UnfinishedUpload> unfinished_uploads(const std::string& prefix,
                                                     const Deadline& deadline);
    void abort_upload(const UnfinishedUpload& upload, const Deadline& deadline);
    void ask_for_encryption(Operation& operation) const;
    void require_encryption(const Operation& operation, const HttpResponse& response) const;
    [[noreturn]] void fail(const Operation& operation, const HttpResponse& response) const;
    void pause(std::chrono::milliseconds time) const;
    std::string redacted(std::string text) const;
    std::string where(const Operation& operation) const;

    Location location_;
    std::shared_ptr<CredentialSource> source_;
    std::shared_ptr<const Credentials> credentials_;  ///< of the last attempt
    std::shared_ptr<const std::atomic<bool>> stop_;
    HttpClient http_;
};

}  // namespace autolaunch::s3
