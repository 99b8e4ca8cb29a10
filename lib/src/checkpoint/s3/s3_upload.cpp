// Objects in parts: sent side by side, and what an upload before has left of them.
#include "base/hash.hpp"
#include "checkpoint/s3/s3_client.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

namespace autolaunch::s3 {
namespace {

constexpr auto kAbortTime = std::chrono::seconds(20), kStoppedAbortTime = std::chrono::seconds(2);
constexpr std::uint64_t kLeastPartBytes = 5 << 20;
constexpr char kChecksumAlgorithm[] = "x-amz-checksum-algorithm", kSha256[] = "SHA256";

crypto::Bytes bytes_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

// A tag is the MD5 of a part's bytes where the server does not encrypt with KMS.
bool is_md5_tag(std::string_view tag, std::span<const std::byte> content) {
    while (tag.starts_with('"') && tag.ends_with('"') && tag.size() > 1)
        tag = tag.substr(1, tag.size() - 2);
    const auto digest = crypto::md5(bytes_of(content));
    return digest && tag == hex(*digest);
}

bool is_same(const UploadedPart& there, std::span<const std::byte> content) {
    if (there.bytes != content.size() || there.tag.find_first_of("<>&") != std::string::npos)
        return false;
    if (!there.sha256.empty())
        return there.sha256 == base64_of(crypto::sha256(bytes_of(content)));
    return is_md5_tag(there.tag, content);
}

}  // namespace

std::vector<UnfinishedUpload> S3Client::unfinished_uploads(const std::string& prefix,
                                                           const Deadline& deadline) {
    const std::string whole = location_.prefix + prefix;
    Operation operation;
    operation.query = {{"uploads", ""}, {"encoding-type", "url"}, {"prefix", whole}};
    std::vector<UnfinishedUpload> found;
    for (;;) {
        const UploadPage page = parse_uploads(request(operation, deadline).body);
        for (const UnfinishedUpload& upload : page.uploads)
            if (upload.key.starts_with(whole))
                found.push_back({upload.key.substr(location_.prefix.size()), upload.upload_id,
                                 upload.checksum});
        if (page.next_key.empty() || page.next_key == operation.query["key-marker"])
            return found;
        operation.query["key-marker"] = page.next_key;
        operation.query["upload-id-marker"] = page.next_upload_id;
    }
}

void S3Client::abort_upload(const UnfinishedUpload& upload, const Deadline& deadline) {
    request({.method = "DELETE", .key = upload.key, .query = {{"uploadId", upload.upload_id}}},
            deadline, {404});
}

std::size_t S3Client::abort_uploads(const std::string& prefix, const Deadline& deadline,
                                    const std::function<bool(const std::string& key)>& which) {
    std::size_t aborted = 0;
    for (const UnfinishedUpload& upload : unfinished_uploads(prefix, deadline)) {
        if (which && !which(upload.key))
            continue;
        abort_upload(upload, deadline);
        ++aborted;
    }
    return aborted;
}

/// One object on its way in parts. Its threads take the next part until none is left or one failed.
class S3Client::MultipartUpload {
public:
    using Read = std::function<void(std::uint64_t, std::span<std::byte>)>;

    MultipartUpload(S3Client& client, const std::string& key, std::uint64_t bytes, const Read& read,
                    std::uint64_t part_bytes, const UploadOptions& options,
                    const Deadline& deadline)
        : client_(client),
          key_(key),
          bytes_(bytes),
          read_(read),
          part_bytes_(part_bytes),
          options_(options),
          deadline_(deadline),
          tags_((bytes + part_bytes - 1) / part_bytes),
          sha256_(tags_.size()) {
        if (!options_.resume || !go_on())
            start();
    }

    Put run() {
        try {
            std::vector<std::jthread> threads;
            for (int i = 0;
                 i < std::max(1, options_.parallel) && static_cast<std::size_t>(i) < tags_.size();
                 ++i)
                threads.emplace_back([this] { work(); });
            threads.clear();
            if (failure_)
                std::rethrow_exception(failure_);
            return finish();
        } catch (const Error& error) {
            const std::string left_behind = leaves_parts(error) ? "" : take_back();
            throw Error(error.code(), error.what() + left_behind, error.hint());
        } catch (...) {
            take_back();
            throw;
        }
    }

private:
    void start() {
        Operation start{.method = "POST", .key = key_, .query = {{"uploads", ""}}};
        client_.ask_for_encryption(start);
        if (client_.location_.checksums)
            start.headers[kChecksumAlgorithm] = kSha256;
        const HttpResponse started = client_.request(start, deadline_);
        id_ = parse_upload_id(started.body);
        sends_checksums_ = client_.location_.checksums;
        const auto said = started.headers.find(kChecksumAlgorithm);
        keeps_checksums_ = said != started.headers.end() && said->second == kSha256;
        try {
            client_.require_encryption(start, started);
        } catch (...) {
            take_back();
            throw;
        }
    }

    // The upload of this key that was begun last, if there is one that fits; others go. How the
    // server encrypts one that is there, nobody says.
    bool go_on() {
        const bool may = client_.location_.server_encryption.empty();
        bool found = false;
        auto uploads = client_.unfinished_uploads(key_, deadline_);
        std::reverse(uploads.begin(), uploads.end());
        for (const UnfinishedUpload& upload : uploads) {
            if (upload.key != key_)
                continue;
            const bool fits = upload.checksum.empty() || upload.checksum == kSha256;
            if (may && fits && !found)
                found = take_over(upload);
            else
                client_.abort_upload(upload, deadline_);
        }
        return found;
    }

    // False when it is gone.
    bool take_over(const UnfinishedUpload& upload) {
        Operation list{.key = key_, .query = {{"uploadId", upload.upload_id}}};
        for (;;) {
            const HttpResponse response = client_.request(list, deadline_, {404});
            if (response.status == 404)
                return false;
            PartPage page = parse_parts(response.body);
            for (UploadedPart& part : page.parts)
                there_[part.number] = std::move(part);
            if (page.next.empty() || page.next == list.query["part-number-marker"])
                break;
            list.query["part-number-marker"] = page.next;
        }
        id_ = upload.upload_id;
        sends_checksums_ = keeps_checksums_ = !upload.checksum.empty();
        return true;
    }

    void work() {
        try {
            S3Client client(client_.location_, client_.source_, client_.stop_);
            std::vector<std::byte> buffer(part_bytes_);
            while (const auto part = take(buffer)) {
                const auto content = content_of(*part, buffer);
                if (!is_there(*part, content))
                    send(client, *part, content);
            }
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failure_)
                failure_ = std::current_exception();
        }
    }

    std::span<std::byte> content_of(std::size_t part, std::span<std::byte> buffer) const {
        return buffer.first(std::min<std::uint64_t>(part_bytes_, bytes_ - part * part_bytes_));
    }

    // Fills the buffer with the next part, in order.
    std::optional<std::size_t> take(std::span<std::byte> buffer) {
        const std::lock_guard lock(mutex_);
        if (next_ == tags_.size() || failure_)
            return std::nullopt;
        const std::size_t part = next_++;
        read_(part * part_bytes_, content_of(part, buffer));
        return part;
    }

    bool is_there(std::size_t part, std::span<const std::byte> content) {
        const auto found = there_.find(part + 1);
        if (found == there_.end() || (keeps_checksums_ && found->second.sha256.empty()) ||
            !is_same(found->second, content))
            return false;
        tags_[part] = found->second.tag;
        sha256_[part] = found->second.sha256;
        return true;
    }

    void send(S3Client& client, std::size_t part, std::span<const std::byte> content) {
        if (options_.pass)
            options_.pass(content.size());
        Operation operation{.method = "PUT",
                            .key = key_,
                            .query = {{"partNumber", std::to_string(part + 1)}, {"uploadId", id_}}};
        operation.body = content;
        operation.keeps_checksum = sends_checksums_;
        const HttpResponse response = client.request(operation, deadline_);
        const auto tag = response.headers.find("etag");
        if (tag == response.headers.end() || tag->second.find_first_of("<>&") != std::string::npos)
            throw Error(ErrorCode::corrupt,
                        client.where(operation) + ": the server gave a part no tag");
        tags_[part] = tag->second;
        if (keeps_checksums_)
            sha256_[part] = base64_of(crypto::sha256(bytes_of(content)));
    }

    Put finish() {
        const std::string body =
            complete_request(tags_, keeps_checksums_ ? sha256_ : std::vector<std::string>());
        Operation operation{.method = "POST", .key = key_, .query = {{"uploadId", id_}}};
        operation.body = std::as_bytes(std::span(body));
        if (!options_.if_absent) {
            client_.request(operation, deadline_);
            return Put::created;
        }
        operation.headers["if-none-match"] = "*";
        if (client_.request(operation, deadline_, {412}).status != 412)
            return Put::created;
        take_back();
        return Put::exists;
    }

    // Whoever comes next goes on with them. What failed otherwise would fail again.
    bool leaves_parts(const Error& error) const {
        return options_.resume &&
               (error.code() == ErrorCode::aborted || error.code() == ErrorCode::timeout ||
                error.code() == ErrorCode::closed);
    }

    // What to add to the error when the parts stay.
    std::string take_back() noexcept {
        try {
            const bool stopped = client_.stop_ && *client_.stop_;
            S3Client(client_.location_, client_.source_)
                .request({.method = "DELETE", .key = key_, .query = {{"uploadId", id_}}},
                         Deadline::after(stopped ? kStoppedAbortTime : kAbortTime), {404});
            return {};
        } catch (const std::exception&) {
            return "; its parts could not be taken back";
        }
    }

    S3Client& client_;
    const std::string& key_;
    std::uint64_t bytes_;
    const Read& read_;
    std::uint64_t part_bytes_;
    const UploadOptions& options_;
    Deadline deadline_;
    std::string id_;
    bool sends_checksums_ = false, keeps_checksums_ = false;
    std::map<std::uint64_t, UploadedPart> there_;  ///< by number, from 1
    std::vector<std::string> tags_, sha256_;
    std::mutex mutex_;  ///< for `read_` and what follows
    std::size_t next_ = 0;
    std::exception_ptr failure_;
};

S3Client::Put S3Client::upload(const std::string& key, std::uint64_t bytes,
                               const std::function<void(std::uint64_t, std::span<std::byte>)>& read,
                               const UploadOptions& options, const Deadline& deadline) {
    const std::uint64_t part_bytes =
        part_bytes_for(bytes, std::max(options.part_bytes, kLeastPartBytes));
    if (bytes > part_bytes)
        return MultipartUpload(*this, key, bytes, read, part_bytes, options, deadline).run();
    std::vector<std::byte> content(bytes);
    if (bytes > 0)
        read(0, content);
    if (options.pass)
        options.pass(bytes);
    return put(key, content, options.if_absent, deadline);
}

}  // namespace autolaunch::s3
