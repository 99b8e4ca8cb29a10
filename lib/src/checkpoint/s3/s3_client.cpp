#include "checkpoint/s3/s3_client.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"
#include "checkpoint/crypto/crypto.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <mutex>
#include <random>
#include <thread>

namespace autolaunch::s3 {
namespace {

constexpr auto kStopInterval = std::chrono::milliseconds(50);
constexpr char kServerEncryption[] = "x-amz-server-side-encryption";
constexpr char kChecksum[] = "x-amz-checksum-sha256";
constexpr char kChecksumMode[] = "x-amz-checksum-mode", kEnabled[] = "ENABLED";
constexpr char kKmsKeyId[] = "x-amz-server-side-encryption-aws-kms-key-id";

crypto::Digest sha256_of(std::span<const std::byte> bytes) {
    return crypto::sha256({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

double random_share() {
    thread_local std::mt19937 generator(std::random_device{}());
    return std::uniform_real_distribution<double>()(generator);
}

// Servers say where a bucket is, when they are asked for it in another region.
std::string region_advice(const HttpResponse& response, const std::string& mine,
                          std::string otherwise) {
    const auto said = response.headers.find("x-amz-bucket-region");
    if (said == response.headers.end() || said->second.empty() || said->second.size() > 40 ||
        said->second == mine)
        return otherwise;
    for (const char c : said->second)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-')
            return otherwise;
    return "the bucket is in " + said->second + ": set AWS_REGION=" + said->second +
           ", and the endpoint to that region's if one is set";
}

std::string header_of(const HttpResponse& response, const char* name) {
    const auto found = response.headers.find(name);
    return found == response.headers.end() ? std::string() : found->second;
}

/// As it stands in headers: some servers list it without its marks.
std::string quoted(const std::string& etag) {
    return etag.empty() || etag.ends_with('"') ? etag : '"' + etag + '"';
}

/// Of an object, by the answer to a request for a part of it, or for its headers.
std::uint64_t size_told(const HttpResponse& response) {
    const std::string range = header_of(response, "content-range");
    const std::string told = response.status == 206 ? range.substr(range.find('/') + 1)
                                                    : header_of(response, "content-length");
    long long bytes = -1;
    if (!parse_integer(told, bytes) || bytes < 0)
        throw Error(ErrorCode::corrupt, "the S3 server does not say how long an object is");
    return static_cast<std::uint64_t>(bytes);
}

void replace_all(std::string& text, std::string_view what) {
    if (what.empty())
        return;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at))
        text.replace(at, what.size(), "…");
}

}  // namespace

S3Client::S3Client(Location location, std::shared_ptr<CredentialSource> credentials,
                   std::shared_ptr<const std::atomic<bool>> stop)
    : location_(std::move(location)),
      source_(std::move(credentials)),
      stop_(std::move(stop)),
      http_(location_.ca_file, stop_) {}

std::string S3Client::describe() const {
    return "s3://" + location_.bucket + '/' + location_.prefix;
}

std::string S3Client::redacted(std::string text) const {
    if (!credentials_)
        return text;
    for (const auto secret :
         {crypto::as_text(credentials_->secret), crypto::as_text(credentials_->session_token),
          std::string_view(credentials_->key_id)})
        replace_all(text, secret);
    return text;
}

std::string S3Client::where(const Operation& operation) const {
    return operation.method + ' ' + describe() + operation.key + " at " + location_.host;
}

void S3Client::fail(const Operation& operation, const HttpResponse& response) const {
    const Problem problem = parse_problem(response.body);
    std::string what = where(operation) + ": the server says " + std::to_string(response.status);
    if (!problem.code.empty())
        what += ' ' + problem.code;
    if (!problem.message.empty())
        what += ": " + problem.message;
    throw Refusal(response.status, problem.code, redacted(what),
                  region_advice(response, location_.region, advice(response.status, problem.code)));
}

HttpRequest S3Client::signed_request(const Operation& operation,
                                     const crypto::Digest& payload) const {
    const std::string key = operation.key.empty() && !operation.query.empty()
                                ? std::string()
                                : location_.prefix + operation.key;
    RequestToSign to_sign;
    to_sign.method = operation.method;
    to_sign.path = (location_.path_style ? '/' + location_.bucket : std::string()) + '/' + key;
    to_sign.query = operation.query;
    to_sign.headers = operation.headers;
    to_sign.headers["host"] = (location_.path_style ? "" : location_.bucket + '.') + location_.host;
    if (operation.keeps_checksum)
        to_sign.headers[kChecksum] = base64_of(payload);
    to_sign.payload_sha256 = hex(payload);
    sign(to_sign, *credentials_, location_.region, std::chrono::system_clock::now());
    HttpRequest request;
    request.method = operation.method;
    request.url =
        location_.scheme + "://" + to_sign.headers["host"] + uri_encode(to_sign.path, true);
    if (!operation.query.empty())
        request.url += '?' + canonical_query(operation.query);
    request.headers = std::move(to_sign.headers);
    request.body = operation.body;
    request.into = operation.into;
    request.arrived = operation.arrived;
    // So that there is time for another attempt.
    if (operation.patience.count() > 0)
        request.stall =
            std::clamp(std::chrono::duration_cast<std::chrono::seconds>(operation.patience / 2),
                       std::chrono::seconds(1), request.stall);
    // What is not encrypted stays on this machine, whatever proxy the environment names.
    request.direct = location_.scheme == "http";
    return request;
}

// Status 0: the connection failed; the body says how.
HttpResponse S3Client::attempt(const Operation& operation, const crypto::Digest& payload,
                               const Deadline& deadline) {
    try {
        credentials_ = source_->get(deadline);
        return http_.perform(signed_request(operation, payload), deadline);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::closed)
            throw;
        HttpResponse failed;
        failed.body = error.what();
        return failed;
    }
}

HttpResponse S3Client::request(const Operation& operation, const Deadline& deadline,
                               std::initializer_list<int> accepted) {
    const crypto::Digest payload = sha256_of(operation.body);
    const auto arrived = [&] {
        return operation.arrived != nullptr ? operation.arrived->load() : 0;
    };
    bool has_renewed = false;
    Deadline patience = deadline;
    for (int number = 1;; ++number) {
        const std::int64_t before = arrived();
        if (operation.patience.count() > 0 && number == 1)
            patience = Deadline::after(operation.patience);
        HttpResponse response = attempt(operation, payload, deadline);
        if (operation.patience.count() > 0 && arrived() != before)
            patience = Deadline::after(operation.patience);
        const std::string code = response.status == 0 ? "" : parse_problem(response.body).code;
        // CompleteMultipartUpload may fail after it has said 200.
        if (response.status / 100 == 2 && code.empty()) {
            require_checksum(operation, payload, response);
            return response;
        }
        // Those for a time may end sooner than was said.
        if (code == "ExpiredToken" && !std::exchange(has_renewed, true) &&
            source_->have_ended(*credentials_))
            continue;
        if (std::find(accepted.begin(), accepted.end(), response.status) != accepted.end())
            return response;
        if (!is_worth_retrying(response.status, code))
            fail(operation, response);
        const auto time = retry_delay(number + 1, random_share());
        if (std::min(deadline.remaining(), patience.remaining()) <= time) {
            const std::string tried = " (" + std::to_string(number) + " attempts)";
            if (response.status == 0)
                throw TimeoutError(redacted(where(operation) + ": " + response.body + tried),
                                   "is the endpoint right, and does the server run?");
            fail(operation, response);
        }
        pause(time);
    }
}

void S3Client::pause(std::chrono::milliseconds time) const {
    for (const Deadline over = Deadline::after(time); !over.passed();) {
        if (stop_ && *stop_)
            throw AbortedError("stopped while the server was to be asked again");
        std::this_thread::sleep_for(
            std::min<Deadline::Clock::duration>(over.remaining(), kStopInterval));
    }
}

void S3Client::ask_for_encryption(Operation& operation) const {
    if (!location_.server_encryption.empty())
        operation.headers[kServerEncryption] = location_.server_encryption;
    if (!location_.kms_key_id.empty())
        operation.headers[kKmsKeyId] = location_.kms_key_id;
}

// A server that does not know the header stores in the clear and says 200. One that does, says so.
void S3Client::require_encryption(const Operation& operation, const HttpResponse& response) const {
    if (location_.server_encryption.empty())
        return;
    const auto said = response.headers.find(kServerEncryption);
    if (said != response.headers.end() && said->second == location_.server_encryption)
        return;
    throw Error(ErrorCode::unsupported,
                where(operation) + ": the server was asked for encryption (AUTOLAUNCH_S3_SSE=" +
                    location_.server_encryption + ") and does not say that it did it",
                "the object may lie there in the clear: remove it, and set "
                "checkpoint.recipients, which encrypts before anything is sent");
}

// A server that keeps checksums says what it has.
void S3Client::require_checksum(const Operation& operation, const crypto::Digest& payload,
                                const HttpResponse& response) const {
    const auto said = response.headers.find(kChecksum);
    if (operation.keeps_checksum && said != response.headers.end() &&
        said->second != base64_of(payload))
        throw Error(ErrorCode::corrupt,
                    where(operation) + ": the server has other bytes than were sent, by SHA-256");
}

S3Client::Put S3Client::put(const std::string& key, std::span<const std::byte> bytes,
                            bool if_absent, const Deadline& deadline) {
    Operation operation{.method = "PUT", .key = key};
    operation.body = bytes;
    operation.keeps_checksum = location_.checksums;
    ask_for_encryption(operation);
    if (!if_absent) {
        require_encryption(operation, request(operation, deadline));
        return Put::created;
    }
    operation.headers["if-none-match"] = "*";
    const HttpResponse response = request(operation, deadline, {412});
    if (response.status == 412)
        return Put::exists;
    require_encryption(operation, response);
    return Put::created;
}

S3Client::Put S3Client::put_locked(const std::string& key, std::span<const std::byte> bytes,
                                   const std::map<std::string, std::string>& lock,
                                   const Deadline& deadline) {
    Operation operation{.method = "PUT", .key = key};
    operation.body = bytes;
    operation.headers = lock;
    operation.headers["if-none-match"] = "*";
    operation.keeps_checksum = true;
    return request(operation, deadline, {412}).status == 412 ? Put::exists : Put::created;
}

std::string S3Client::locked_until(const std::string& key, const Deadline& deadline) {
    const HttpResponse response = request({.method = "HEAD", .key = key}, deadline, {404});
    const auto found = response.headers.find("x-amz-object-lock-retain-until-date");
    return found == response.headers.end() ? std::string() : found->second;
}

std::optional<std::uint64_t> S3Client::find(const std::string& key, const Deadline& deadline) {
    const HttpResponse response = request({.method = "HEAD", .key = key}, deadline, {404});
    if (response.status == 404)
        return std::nullopt;
    long long bytes = -1;
    const auto length = response.headers.find("content-length");
    if (length == response.headers.end() || !parse_integer(length->second, bytes) || bytes < 0)
        throw Error(ErrorCode::corrupt,
                    describe() + key + ": the server does not say how long it is");
    return static_cast<std::uint64_t>(bytes);
}

std::optional<Object> S3Client::look(const std::string& key, const Deadline& deadline) {
    std::array<std::byte, 1> byte{};
    Operation operation{.method = "GET", .key = key};
    operation.headers["range"] = "bytes=0-0";
    operation.into = byte;
    HttpResponse response = request(operation, deadline, {404, 416});
    if (response.status == 416)  // it is empty
        response = request({.method = "HEAD", .key = key}, deadline, {404});
    if (response.status == 404 && parse_problem(response.body).code == "NoSuchBucket")
        fail(operation, response);
    if (response.status == 404)
        return std::nullopt;
    Object object{.key = key, .bytes = size_told(response)};
    object.etag = header_of(response, "etag");
    object.modified = header_of(response, "last-modified");
    return object;
}

std::size_t S3Client::get(const std::string& key, std::uint64_t offset, std::span<std::byte> bytes,
                          const Deadline& deadline, const ReadTerms& terms) {
    if (bytes.empty())
        return 0;
    Operation operation{.method = "GET", .key = key};
    const bool asks = terms.checksum != nullptr && location_.tells_checksums;
    // With a range a server tells none, or one that is of something else.
    if (asks)
        operation.headers[kChecksumMode] = kEnabled;
    else
        operation.headers["range"] =
            "bytes=" + std::to_string(offset) + '-' + std::to_string(offset + bytes.size() - 1);
    if (!terms.etag.empty())
        operation.headers["if-match"] = quoted(terms.etag);
    operation.into = bytes;
    operation.arrived = terms.arrived;
    operation.patience = terms.patience;
    const HttpResponse response = request(operation, deadline, {412, 416});
    require_version(operation, response, terms);
    if (response.status == 416)
        return 0;  // begins at its end or beyond
    // A server that ignores the range sends all of it: right only for one that starts at 0, and
    // then cut by `into`.
    if (response.status != 206 && offset != 0)
        throw Error(ErrorCode::unsupported, where(operation) + ": the server does not send ranges");
    if (asks)
        *terms.checksum = checksum_in(response.headers);
    return response.into_bytes;
}

void S3Client::require_version(const Operation& operation, const HttpResponse& response,
                               const ReadTerms& terms) const {
    // A server that does not know the header sends what there is.
    const std::string etag = header_of(response, "etag");
    const bool is_other = !terms.etag.empty() && !etag.empty() && response.status / 100 == 2 &&
                          quoted(etag) != quoted(terms.etag);
    if (response.status == 412 || is_other)
        throw Error(ErrorCode::mismatch, describe() + operation.key + " is another version now",
                    "nobody may write there meanwhile");
}

// Nothing where the server gives the object, but not so. An answer to HEAD says not why it is
// refused, as that credentials have ended: one to GET does.
std::optional<HttpResponse> S3Client::head(Operation operation, const Deadline& deadline,
                                           const ReadTerms& terms) {
    operation.method = "HEAD";
    if (!terms.etag.empty())
        operation.headers["if-match"] = quoted(terms.etag);
    operation.arrived = terms.arrived;
    operation.patience = terms.patience;
    HttpResponse response;
    try {
        response = request(operation, deadline, {412});
    } catch (const Refusal&) {
        std::array<std::byte, 1> byte{};
        ReadTerms of_byte = terms;
        of_byte.checksum = nullptr;
        get(operation.key, 0, byte, deadline, of_byte);
        response = request(operation, deadline, {400, 405, 412, 416, 501});
        if (response.status / 100 != 2 && response.status != 412)
            return std::nullopt;
    }
    require_version(operation, response, terms);
    if (terms.arrived != nullptr)
        ++*terms.arrived;
    return response;
}

std::optional<ObjectChecksum> S3Client::checksum(const std::string& key, const Deadline& deadline,
                                                 const ReadTerms& terms) {
    if (!location_.tells_checksums)
        return std::nullopt;
    const auto response =
        head({.key = key, .headers = {{kChecksumMode, kEnabled}}}, deadline, terms);
    return response ? checksum_in(response->headers) : std::nullopt;
}

std::optional<std::uint64_t> S3Client::part_bytes(const std::string& key, std::uint64_t number,
                                                  const Deadline& deadline,
                                                  const ReadTerms& terms) {
    const auto response =
        head({.key = key, .query = {{"partNumber", std::to_string(number)}}}, deadline, terms);
    long long bytes = -1;
    if (!response || !parse_integer(header_of(*response, "content-length"), bytes) || bytes < 0)
        return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
}

Listing S3Client::list(const std::string& prefix, bool deep, const Deadline& deadline,
                       const ReadTerms& terms) {
    Listing listing;
    Operation operation;
    operation.arrived = terms.arrived;
    operation.patience = terms.patience;
    operation.query = {
        {"list-type", "2"}, {"encoding-type", "url"}, {"prefix", location_.prefix + prefix}};
    if (!deep)
        operation.query["delimiter"] = "/";
    const auto ours = [&](std::string key) {
        if (!key.starts_with(location_.prefix))
            throw Error(ErrorCode::corrupt,
                        describe() + ": the server lists keys that were not asked for");
        return key.substr(location_.prefix.size());
    };
    for (;;) {
        ListPage page = parse_list(request(operation, deadline).body);
        for (auto& object : page.objects)
            listing.objects.push_back({ours(object.key), object.bytes, std::move(object.etag),
                                       std::move(object.modified)});
        for (auto& common : page.prefixes)
            listing.prefixes.push_back(ours(common));
        if (page.next.empty())
            return listing;
        operation.query["continuation-token"] = page.next;
    }
}

void S3Client::remove(const std::string& key, const Deadline& deadline) {
    request({.method = "DELETE", .key = key}, deadline, {404});
}

}  // namespace autolaunch::s3
