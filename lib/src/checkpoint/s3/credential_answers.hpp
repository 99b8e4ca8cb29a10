#pragma once
#include "checkpoint/s3/sigv4.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::s3 {

// What those answer who give credentials for a time. Pure. All throw Error{corrupt}, which quotes
// nothing of the answer, for what is no credentials, has characters that no header may have, or no
// end.

struct TemporaryCredentials {
    Credentials credentials;
    std::chrono::system_clock::time_point end;
};

/// Of STS, to AssumeRoleWithWebIdentity: XML.
TemporaryCredentials parse_sts_credentials(std::string_view xml);
/// Of a container's agent, and of an instance's metadata: JSON with AccessKeyId, SecretAccessKey,
/// Token and Expiration. An instance's says Code, too: other than Success is refused.
TemporaryCredentials parse_credentials_json(std::string_view json);
/// Of an instance's metadata: the name of its role, the first where there are several.
std::string parse_role_name(std::string_view text);
/// Of an instance's metadata: what its further requests have to show.
std::string parse_metadata_token(std::string_view text);

}  // namespace autolaunch::s3
