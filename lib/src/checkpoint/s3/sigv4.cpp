#include "checkpoint/s3/sigv4.hpp"

#include "base/hash.hpp"
#include "checkpoint/crypto/crypto.hpp"

#include <cstring>
#include <ctime>

namespace autolaunch::s3 {
namespace {

using crypto::bytes_of;
using crypto::SecretBytes;

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string iso_time(std::chrono::system_clock::time_point now) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    std::tm parts = {};
    ::gmtime_r(&seconds, &parts);
    char text[32];
    const std::size_t length = std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
    return {text, length};
}

SecretBytes keyed(crypto::Bytes key, std::string_view message) {
    crypto::Digest digest = crypto::hmac_sha256(key, bytes_of(message));
    SecretBytes bytes(digest.begin(), digest.end());
    ::explicit_bzero(digest.data(), digest.size());
    return bytes;
}

SecretBytes signing_key(const Credentials& credentials, std::string_view date,
                        std::string_view region) {
    SecretBytes first;
    first.reserve(4 + credentials.secret.size());
    for (const char c : {'A', 'W', 'S', '4'})
        first.push_back(static_cast<std::uint8_t>(c));
    first.insert(first.end(), credentials.secret.begin(), credentials.secret.end());
    return keyed(keyed(keyed(keyed(first, date), region), "s3"), "aws4_request");
}

}  // namespace

std::string uri_encode(std::string_view text, bool keep_slashes) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    std::string encoded;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                           (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~' ||
                           (c == '/' && keep_slashes);
        if (plain) {
            encoded += c;
        } else {
            encoded += '%';
            encoded += kDigits[byte >> 4];
            encoded += kDigits[byte & 15];
        }
    }
    return encoded;
}

std::string canonical_query(const std::map<std::string, std::string>& query) {
    std::map<std::string, std::string> encoded;  // sorted as they are written
    for (const auto& [name, value] : query)
        encoded[uri_encode(name, false)] = uri_encode(value, false);
    std::string text;
    for (const auto& [name, value] : encoded) {
        if (!text.empty())
            text += '&';
        text.append(name).append("=").append(value);
    }
    return text;
}

void sign(RequestToSign& request, const Credentials& credentials, std::string_view region,
          std::chrono::system_clock::time_point now) {
    const std::string time = iso_time(now), date = time.substr(0, 8);
    request.headers["x-amz-date"] = time;
    request.headers["x-amz-content-sha256"] = request.payload_sha256;
    if (!credentials.session_token.empty())
        request.headers["x-amz-security-token"] =
            std::string(crypto::as_text(credentials.session_token));

    std::string headers, names;
    for (const auto& [name, value] : request.headers) {
        headers.append(name).append(":").append(value).append("\n");
        names.append(names.empty() ? "" : ";").append(name);
    }
    const std::string canonical = request.method + '\n' + uri_encode(request.path, true) + '\n' +
                                  canonical_query(request.query) + '\n' + headers + '\n' + names +
                                  '\n' + request.payload_sha256;
    const crypto::Digest digest = crypto::sha256(bytes_of(canonical));
    const std::string scope = date + '/' + std::string(region) + "/s3/aws4_request";
    const std::string to_sign =
        std::string(kAlgorithm) + '\n' + time + '\n' + scope + '\n' + hex(digest);
    const crypto::Digest signature =
        crypto::hmac_sha256(signing_key(credentials, date, region), bytes_of(to_sign));
    request.headers["authorization"] = std::string(kAlgorithm) +
                                       " Credential=" + credentials.key_id + '/' + scope +
                                       ",SignedHeaders=" + names + ",Signature=" + hex(signature);
}

}  // namespace autolaunch::s3
