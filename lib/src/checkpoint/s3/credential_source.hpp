#pragma once
#include "base/deadline.hpp"
#include "base/environment.hpp"
#include "checkpoint/s3/credential_answers.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace autolaunch::s3 {

/// Where a client's credentials come from; they may be others each time. Threads: any. Blocks:
/// get(), while it asks for new ones.
class CredentialSource {
public:
    virtual ~CredentialSource() = default;

    /// Good ones. Throws Error, with who was asked and what to do; closed: he may answer later.
    virtual std::shared_ptr<const Credentials> get(const Deadline& deadline) = 0;
    /// A server says that these have ended. False: there will be no others.
    virtual bool have_ended(const Credentials& credentials) = 0;
};

std::shared_ptr<CredentialSource> fixed_credentials(Credentials credentials);

/// Asked for when they are first wanted, and again before they end: when half of their time is
/// over, or 5 minutes are left, whatever is later. Where that fails the old ones serve while they
/// are good, and are asked for again half a minute later.
using AskForCredentials = std::function<TemporaryCredentials(const Deadline& deadline)>;
using WallClock = std::function<std::chrono::system_clock::time_point()>;
std::shared_ptr<CredentialSource> renewed_credentials(
    AskForCredentials ask, WallClock now = std::chrono::system_clock::now);

/// Where AWS's own tools look, in this order: AWS_ACCESS_KEY_ID; a web identity
/// (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, for which STS is asked); a profile of the
/// credentials file; the container's agent (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or
/// AWS_CONTAINER_CREDENTIALS_FULL_URI); the instance's metadata (IMDSv2), which are asked here, at
/// once, and not with AWS_EC2_METADATA_DISABLED=true. Throws Error{invalid_argument} that names
/// where it looked.
std::shared_ptr<CredentialSource> find_credential_source(const Environment& environment);

// The askers, in a file of their own each. Pure, but for what they return.
AskForCredentials ask_web_identity(const Environment& environment);
AskForCredentials ask_container(const Environment& environment);
AskForCredentials ask_instance(const Environment& environment);

/// One line of printable characters, which others may read: whoever signed it says for whom it is.
/// Throws Error{invalid_argument} or SystemError, and never quotes it.
std::string read_token_file(const std::string& file);

}  // namespace autolaunch::s3
