#pragma once
#include "checkpoint/crypto/secret.hpp"

#include <chrono>
#include <map>
#include <string>
#include <string_view>

namespace autolaunch::s3 {

// Signatures of AWS, version 4, in the Authorization header. Ours and not curl's --aws-sigv4:
// libcurl 7.88 signs what it is given without x-amz-content-sha256, which servers refuse, sorts no
// query and encodes no path; and these functions can be held against the published examples. Pure.

struct Credentials {
    std::string key_id;
    crypto::SecretBytes secret;
    crypto::SecretBytes session_token;  ///< empty: none
};

/// What is signed. Paths and queries are not encoded yet.
struct RequestToSign {
    std::string method = "GET";
    std::string path = "/";
    std::map<std::string, std::string> query;
    std::map<std::string, std::string> headers;  ///< lower-case names; host is one of them
    std::string payload_sha256;                  ///< 64 hexadecimal digits
};

/// Everything but letters, digits and "-._~" as %XX; a slash stays in a path.
std::string uri_encode(std::string_view text, bool keep_slashes);
/// "a=1&b=%20": sorted, as it is signed and sent.
std::string canonical_query(const std::map<std::string, std::string>& query);

/// Adds x-amz-date, x-amz-content-sha256, x-amz-security-token where there is one, and
/// authorization to the headers.
void sign(RequestToSign& request, const Credentials& credentials, std::string_view region,
          std::chrono::system_clock::time_point now);

}  // namespace autolaunch::s3
