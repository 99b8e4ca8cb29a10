#include "checkpoint/s3/s3_settings.hpp"

#include "base/file_system.hpp"
#include "base/private_way.hpp"
#include "base/refuse.hpp"
#include "base/text.hpp"
#include "checkpoint/crypto/key_file.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

namespace autolaunch::s3 {
namespace {

using crypto::SecretBytes;

constexpr std::string_view kScheme = "s3://";

std::string get(const Environment& environment, std::initializer_list<const char*> names) {
    for (const char* name : names)
        if (const auto found = environment.find(name);
            found != environment.end() && !found->second.empty())
            return found->second;
    return {};
}

SecretBytes secret_of(std::string_view text) { return {text.begin(), text.end()}; }

// "https://host:port", perhaps with a slash. A user, a path or a query in it would be signed
// wrongly.
void set_endpoint(Location& location, const std::string& endpoint, const std::string& variable) {
    const std::size_t end = endpoint.find("://");
    if (end == std::string::npos)
        refuse("the S3 endpoint " + endpoint + " has no scheme", "write https://host:port");
    location.scheme = endpoint.substr(0, end);
    location.host = endpoint.substr(end + 3);
    if (location.host.ends_with('/'))
        location.host.pop_back();
    if (location.scheme != "http" && location.scheme != "https")
        refuse("the S3 endpoint's scheme is " + location.scheme, "it is http or https");
    if (location.host.empty() || location.host.find_first_of("/?#@ \r\n") != std::string::npos)
        refuse("the S3 endpoint is not a host with a port",
               "write https://host:port, without a user or a path");
    if (const std::string why = why_not_private(endpoint); !why.empty())
        refuse(variable + " is " + endpoint + ": " + why,
               "set " + variable + "=https://" + location.host +
                   ", and AWS_CA_BUNDLE to the authority that signed its certificate");
}

std::string name_of_set(const Environment& environment, std::initializer_list<const char*> names) {
    for (const char* name : names)
        if (!value_of(environment, name).empty())
            return name;
    return {};
}

// What a server does with the bytes it stores. SSE-C is left out: the key would travel in each
// request, and age keeps it here.
void set_server_encryption(Location& location, const Environment& environment) {
    location.server_encryption = get(environment, {"AUTOLAUNCH_S3_SSE"});
    location.kms_key_id = get(environment, {"AUTOLAUNCH_S3_SSE_KMS_KEY_ID"});
    const std::string& how = location.server_encryption;
    if (!how.empty() && how != "AES256" && how != "aws:kms" && how != "aws:kms:dsse")
        refuse("AUTOLAUNCH_S3_SSE is " + how,
               "it is AES256, aws:kms or aws:kms:dsse; keys of one's own (SSE-C) are not "
               "supported: checkpoint.recipients encrypts before anything is sent");
    if (!location.kms_key_id.empty() && !how.starts_with("aws:kms"))
        refuse("AUTOLAUNCH_S3_SSE_KMS_KEY_ID is set, and AUTOLAUNCH_S3_SSE is " +
                   (how.empty() ? "not" : how),
               "set AUTOLAUNCH_S3_SSE=aws:kms");
    const bool odd = std::any_of(location.kms_key_id.begin(), location.kms_key_id.end(),
                                 [](char c) { return c <= ' ' || c > '~'; });
    if (odd)
        refuse("AUTOLAUNCH_S3_SSE_KMS_KEY_ID has a character that no key's name has");
}

std::string file_of_profiles(const Environment& environment) {
    const std::string file = get(environment, {"AWS_SHARED_CREDENTIALS_FILE"}),
                      home = get(environment, {"HOME"});
    return file.empty() && !home.empty() ? home + "/.aws/credentials" : file;
}

// What S3 allows, so that a bucket's name is always a host's name too.
bool is_bucket_name(std::string_view name) {
    return name.size() >= 3 && name.size() <= 63 && name.front() != '.' && name.back() != '.' &&
           name.find("..") == std::string_view::npos &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
           });
}

bool is_when_required(const Environment& environment, const char* variable) {
    std::string when = get(environment, {variable});
    std::transform(when.begin(), when.end(), when.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return when == "when_required";
}

}  // namespace

bool is_s3_url(std::string_view text) { return text.starts_with(kScheme); }

Location locate(std::string_view url, const Environment& environment) {
    if (!is_s3_url(url))
        refuse("not an S3 place: " + std::string(url), "write s3://bucket/prefix");
    Location location;
    const std::string_view place = url.substr(kScheme.size());
    location.bucket = place.substr(0, place.find('/'));
    if (place.size() > location.bucket.size())
        location.prefix = place.substr(location.bucket.size() + 1);
    if (!location.prefix.empty() && !location.prefix.ends_with('/'))
        location.prefix += '/';
    if (!is_bucket_name(location.bucket))
        refuse("not a bucket's name: " + location.bucket);
    if (location.prefix.starts_with('/') || location.prefix.find("//") != std::string::npos)
        refuse("the prefix " + location.prefix + " has an empty part");
    const std::string region = get(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"});
    if (!region.empty())
        location.region = region;
    location.ca_file = get(environment, {"AWS_CA_BUNDLE"});
    const std::string variable =
        name_of_set(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
    const std::string endpoint = get(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
    if (endpoint.empty()) {
        location.host = "s3." + location.region + ".amazonaws.com";
    } else {
        set_endpoint(location, endpoint, variable);
        location.path_style = true;
    }
    set_server_encryption(location, environment);
    location.checksums = !is_when_required(environment, "AWS_REQUEST_CHECKSUM_CALCULATION");
    location.tells_checksums = !is_when_required(environment, "AWS_RESPONSE_CHECKSUM_VALIDATION");
    const std::string style = get(environment, {"AUTOLAUNCH_S3_STYLE"});
    if (!style.empty() && style != "path" && style != "host")
        refuse("AUTOLAUNCH_S3_STYLE is neither path nor host");
    if (!style.empty())
        location.path_style = style == "path";
    // A dot in the bucket's name is beyond what a certificate's wildcard covers.
    if (location.scheme == "https" && location.bucket.find('.') != std::string::npos)
        location.path_style = true;
    return location;
}

Credentials parse_credentials(std::string_view text, std::string_view profile,
                              const std::string& source) {
    Credentials credentials;
    bool here = false, found = false;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = trim(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.empty() || line.front() == '#' || line.front() == ';')
            continue;
        if (line.front() == '[') {
            here = line.back() == ']' && trim(line.substr(1, line.size() - 2)) == profile;
            found = found || here;
            continue;
        }
        const std::size_t equals = line.find('=');
        if (!here || equals == std::string_view::npos)
            continue;
        const std::string_view name = trim(line.substr(0, equals)),
                               value = trim(line.substr(equals + 1));
        if (name == "aws_access_key_id")
            credentials.key_id = value;
        if (name == "aws_secret_access_key")
            credentials.secret = secret_of(value);
        if (name == "aws_session_token")
            credentials.session_token = secret_of(value);
    }
    if (!found)
        refuse(source + " has no profile [" + std::string(profile) + "]",
               "set AWS_PROFILE to one it has");
    if (credentials.key_id.empty() || credentials.secret.empty())
        refuse(source + ": profile [" + std::string(profile) +
               "] lacks aws_access_key_id or aws_secret_access_key");
    return credentials;
}

std::string why_no_profile(const Environment& environment) {
    const std::string file = file_of_profiles(environment);
    if (!file.empty() && path_exists(file))
        return {};
    return "no credentials for S3: AWS_ACCESS_KEY_ID is not set, and there is no file " +
           (file.empty() ? "~/.aws/credentials" : file);
}

Credentials find_credentials(const Environment& environment) {
    const std::string key_id = get(environment, {"AWS_ACCESS_KEY_ID"});
    if (!key_id.empty()) {
        Credentials credentials;
        credentials.key_id = key_id;
        credentials.secret = secret_of(get(environment, {"AWS_SECRET_ACCESS_KEY"}));
        credentials.session_token = secret_of(get(environment, {"AWS_SESSION_TOKEN"}));
        if (credentials.secret.empty())
            refuse("AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
        return credentials;
    }
    if (const std::string nothing = why_no_profile(environment); !nothing.empty())
        refuse(nothing,
               "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write the file with mode 600");
    const std::string file = file_of_profiles(environment),
                      profile = get(environment, {"AWS_PROFILE"});
    const SecretBytes text = crypto::read_key_file(file);
    return parse_credentials(crypto::as_text(text), profile.empty() ? "default" : profile, file);
}

}  // namespace autolaunch::s3
