#include "checkpoint/s3/credential_answers.hpp"

#include "base/clock_time.hpp"
#include "base/text.hpp"
#include "base/utc_time.hpp"
#include "checkpoint/format/json.hpp"
#include "checkpoint/s3/s3_answers.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cctype>
#include <utility>

namespace autolaunch::s3 {
namespace {

constexpr std::size_t kMostName = 256, kMostText = 32 << 10;

[[noreturn]] void refuse_credentials(const std::string& why) {
    throw Error(ErrorCode::corrupt, "the answer to a question for credentials " + why);
}

// What goes into a header, or into a path: without spaces, and printable.
std::string word(std::string_view text, const char* what, std::size_t most) {
    const auto is_odd = [](unsigned char c) { return c <= ' ' || c > '~'; };
    if (text.empty() || text.size() > most || std::any_of(text.begin(), text.end(), is_odd))
        refuse_credentials(std::string("has no ") + what + " that can be one");
    return std::string(text);
}

crypto::SecretBytes secret_word(std::string_view text, const char* what) {
    const std::string checked = word(text, what, kMostText);
    return {checked.begin(), checked.end()};
}

TemporaryCredentials made_of(std::string_view key_id, std::string_view secret,
                             std::string_view token, std::string_view end) {
    TemporaryCredentials made;
    made.credentials.key_id = word(key_id, "key id", kMostName);
    made.credentials.secret = secret_word(secret, "secret");
    made.credentials.session_token = secret_word(token, "token");
    const auto until = parse_utc(end);
    if (!until)
        refuse_credentials("does not say until when they are good");
    made.end = clock_time(until->seconds.time_since_epoch().count());
    return made;
}

}  // namespace

TemporaryCredentials parse_sts_credentials(std::string_view xml) {
    const auto found = parse_elements(
        xml, "Credentials", {"AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"});
    if (found.empty())
        refuse_credentials("has no credentials");
    return made_of(found[0], found[1], found[2], found[3]);
}

TemporaryCredentials parse_credentials_json(std::string_view json) {
    nlohmann::json object;
    try {
        object = parse_strictly(std::string(json), "it");
    } catch (const Error&) {
        refuse_credentials("is no JSON");
    }
    const auto text = [&](const char* name) -> std::string {
        const auto found = object.is_object() ? object.find(name) : object.end();
        return found != object.end() && found->is_string() ? found->get<std::string>() : "";
    };
    if (object.is_object() && object.contains("Code") && text("Code") != "Success")
        refuse_credentials("says that there are none");
    return made_of(text("AccessKeyId"), text("SecretAccessKey"), text("Token"), text("Expiration"));
}

std::string parse_role_name(std::string_view text) {
    const std::string name = word(trim(text.substr(0, text.find('\n'))), "role", kMostName);
    // It becomes a part of a path.
    if (name.find_first_of("/?#%") != std::string::npos || name.find("..") != std::string::npos)
        refuse_credentials("has no role that can be one");
    return name;
}

std::string parse_metadata_token(std::string_view text) {
    return word(trim(text), "token", kMostText);
}

}  // namespace autolaunch::s3
