#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::s3 {

// What S3 answers, and what to do about it. Pure.

struct Object {
    std::string key;
    std::uint64_t bytes = 0;
    std::string etag = {};      ///< with its quotation marks; empty: the server does not say
    std::string modified = {};  ///< as the server writes it: ISO 8601, or as HTTP does

    bool operator==(const Object&) const = default;
};

/// A page of a listing.
struct ListPage {
    std::vector<Object> objects;
    std::vector<std::string> prefixes;  ///< up to the delimiter, which ends them
    std::string next;                   ///< token of the next page; empty: the last

    bool operator==(const ListPage&) const = default;
};
/// Of ListObjectsV2 with encoding-type=url. Throws Error{corrupt}.
ListPage parse_list(std::string_view xml);

struct UnfinishedUpload {
    std::string key, upload_id;
    std::string checksum = {};  ///< the algorithm of its parts' checksums, such as SHA256; or empty

    bool operator==(const UnfinishedUpload&) const = default;
};
/// A page of them, in the order of their keys, and of one key in the order that they were begun.
struct UploadPage {
    std::vector<UnfinishedUpload> uploads;
    std::string next_key, next_upload_id;  ///< where the next page begins; empty: the last

    bool operator==(const UploadPage&) const = default;
};
/// Of ListMultipartUploads with encoding-type=url. Throws Error{corrupt}.
UploadPage parse_uploads(std::string_view xml);

struct UploadedPart {
    std::uint64_t number = 0, bytes = 0;
    std::string tag;
    std::string sha256;  ///< base64; empty: the server has none

    bool operator==(const UploadedPart&) const = default;
};
struct PartPage {
    std::vector<UploadedPart> parts;
    std::string next;  ///< the number before the next page; empty: the last

    bool operator==(const PartPage&) const = default;
};
/// Of ListParts. Throws Error{corrupt}.
PartPage parse_parts(std::string_view xml);
/// Of CreateMultipartUpload. Throws Error{corrupt}.
std::string parse_upload_id(std::string_view xml);

/// Of the first element `parent` the text of its elements `names`, without entities; one that it
/// lacks is empty. Nothing without such an element. Throws Error{corrupt} for what is cut off.
std::vector<std::string> parse_elements(std::string_view xml, const std::string& parent,
                                        const std::vector<std::string>& names);

struct Problem {
    std::string code,
        message;  ///< one line of printable characters each; empty when the answer has none
};
/// Of any answer; nothing when its text is no error.
Problem parse_problem(std::string_view xml);
/// What to do about a status or a code, for people; empty when nothing is known.
std::string advice(int status, std::string_view code);

/// The request of CompleteMultipartUpload. The tags are in the order of the parts, and so are their
/// SHA-256 in base64, where the server keeps them; else empty.
std::string complete_request(const std::vector<std::string>& part_tags,
                             const std::vector<std::string>& part_sha256 = {});

/// Parts of a multipart upload: the size of all but the last. At least `wanted`, and few enough
/// (10,000).
std::uint64_t part_bytes_for(std::uint64_t total_bytes, std::uint64_t wanted);

/// May another attempt go better? Status 0: the connection failed.
bool is_worth_retrying(int status, std::string_view code);
/// Before attempt 2, 3, …: doubled each time up to 10 s, and a random part of it (0 to 1), so that
/// nodes do not come back together.
std::chrono::milliseconds retry_delay(int attempt, double random);

}  // namespace autolaunch::s3
