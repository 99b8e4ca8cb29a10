#pragma once
#include "base/environment.hpp"
#include "checkpoint/s3/sigv4.hpp"

#include <map>
#include <string>
#include <string_view>

namespace autolaunch::s3 {

/// Where a bucket is, and how it is spoken to.
struct Location {
    std::string scheme = "https";
    std::string host;  ///< with ":port" where it is not the scheme's
    std::string region = "us-east-1";
    std::string bucket;
    std::string prefix;             ///< of keys: "" or "runs/7/", with its slash
    bool path_style = false;        ///< the bucket in the path, not in the host's name
    std::string ca_file;            ///< certificates to trust; empty: the system's
    std::string server_encryption;  ///< AES256, aws:kms, aws:kms:dsse; empty: the bucket's own
    std::string kms_key_id;         ///< empty: the account's
    bool checksums = true;          ///< the server is asked to keep SHA-256 of objects and parts
    bool tells_checksums = true;    ///< it is asked for those that it has
};

/// Of "s3://bucket/prefix" and the variables that AWS's own tools read: AWS_ENDPOINT_URL_S3,
/// AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION, AWS_CA_BUNDLE. A server of one's own is spoken
/// to in path style, AWS with the bucket in the host's name; AUTOLAUNCH_S3_STYLE=path or =host
/// decides otherwise. AWS_REQUEST_CHECKSUM_CALCULATION=when_required has no checksums kept, and
/// AWS_RESPONSE_CHECKSUM_VALIDATION=when_required has none asked for. AUTOLAUNCH_S3_SSE and
/// AUTOLAUNCH_S3_SSE_KMS_KEY_ID ask the server to encrypt what it stores. Pure. Throws
/// Error{invalid_argument}, also for http to another machine.
Location locate(std::string_view url, const Environment& environment);
bool is_s3_url(std::string_view text);

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; else the profile AWS_PROFILE (or
/// "default") of AWS_SHARED_CREDENTIALS_FILE (or ~/.aws/credentials), which nobody else may read.
/// Throws Error{invalid_argument} that names where it looked, and never quotes a secret.
Credentials find_credentials(const Environment& environment);
/// Where a profile was looked for in vain, in words; empty: there is a file. Looks at the disk.
std::string why_no_profile(const Environment& environment);
/// One profile of such a file's text; `source` names it in errors. Pure.
Credentials parse_credentials(std::string_view text, std::string_view profile,
                              const std::string& source);

}  // namespace autolaunch::s3
