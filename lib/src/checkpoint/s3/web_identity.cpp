// Credentials for a token that somebody else has signed: of Kubernetes' service accounts, of a CI.
#include "base/hash.hpp"
#include "base/private_way.hpp"
#include "base/refuse.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "checkpoint/crypto/key_file.hpp"
#include "checkpoint/s3/credential_http.hpp"
#include "checkpoint/s3/credential_source.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace autolaunch::s3 {
namespace {

constexpr char kVersion[] = "2011-06-15";

std::string endpoint_of(const Environment& environment) {
    for (const char* name : {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"}) {
        std::string endpoint = value_of(environment, name);
        if (endpoint.empty())
            continue;
        if (const std::string why = why_not_private(endpoint); !why.empty())
            refuse(std::string(name) + " is " + endpoint + ": " + why,
                   "STS gets a token there: write https://");
        return endpoint.ends_with('/') ? endpoint : endpoint + '/';
    }
    std::string region = value_of(environment, "AWS_REGION");
    if (region.empty())
        region = value_of(environment, "AWS_DEFAULT_REGION");
    return "https://sts." + (region.empty() ? "us-east-1" : region) + ".amazonaws.com/";
}

}  // namespace

std::string read_token_file(const std::string& file) {
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!fd)
        throw SystemError(errno, "open " + file);
    crypto::SecretBytes text;
    for (std::size_t before = 1; before != text.size();) {
        before = text.size();
        crypto::read_some(fd.get(), text, file);
    }
    const std::string_view token = trim(crypto::as_text(text));
    const bool is_odd =
        std::any_of(token.begin(), token.end(), [](unsigned char c) { return c < ' ' || c > '~'; });
    if (token.empty() || is_odd)
        throw Error(ErrorCode::invalid_argument, file + " holds no token",
                    "it is one line of printable characters");
    return std::string(token);
}

AskForCredentials ask_web_identity(const Environment& environment) {
    const std::string file = value_of(environment, "AWS_WEB_IDENTITY_TOKEN_FILE"),
                      role = value_of(environment, "AWS_ROLE_ARN");
    if (role.empty())
        refuse("AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not",
               "set it to the role that the token is for");
    std::string session = value_of(environment, "AWS_ROLE_SESSION_NAME");
    if (session.empty())
        session = "autolaunch-" + random_hex(8);
    CredentialQuestion question{.method = "POST", .url = endpoint_of(environment)};
    question.headers = {{"content-type", "application/x-www-form-urlencoded"}};
    question.direct = question.url.starts_with("http://");
    question.ca_file = value_of(environment, "AWS_CA_BUNDLE");
    question.whom = "STS at " + question.url;
    // The token is read each time: who signs it renews it, too.
    return [question, file, role, session](const Deadline& deadline) {
        CredentialQuestion asked = question;
        asked.body = canonical_query({{"Action", "AssumeRoleWithWebIdentity"},
                                      {"Version", kVersion},
                                      {"RoleArn", role},
                                      {"RoleSessionName", session},
                                      {"WebIdentityToken", read_token_file(file)}});
        try {
            return parse_sts_credentials(ask(asked, deadline));
        } catch (const Error& error) {
            throw Error(
                error.code(), std::string("no credentials for S3: ") + error.what(),
                "see AWS_ROLE_ARN, and whether the role trusts who signed the token in " + file);
        }
    };
}

}  // namespace autolaunch::s3
