#pragma once
#include "checkpoint/s3/credential_answers.hpp"
#include "checkpoint/s3/object_checksum.hpp"
#include "checkpoint/s3/s3_answers.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

namespace autolaunch::s3 {

inline std::size_t or_corrupt(auto parse) {
    try {
        return parse();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt)
            std::abort();
        return 0;
    }
}

/// It can stand in a header.
inline std::size_t check_header_word(std::string_view text) {
    for (const char c : text)
        if (c <= ' ' || c > '~')
            std::abort();
    return text.empty() ? (std::abort(), 0U) : 1U;
}

inline std::size_t check_credentials(const TemporaryCredentials& got) {
    check_header_word(crypto::as_text(got.credentials.secret));
    check_header_word(crypto::as_text(got.credentials.session_token));
    return check_header_word(got.credentials.key_id);
}

/// "name: value" in each line, as an answer's headers are. What is taken of them can be printed.
inline std::size_t check_object_headers(std::string_view bytes) {
    std::map<std::string, std::string> headers;
    while (!bytes.empty()) {
        const std::string_view line = bytes.substr(0, bytes.find('\n'));
        const std::size_t colon = line.find(": ");
        if (colon != std::string_view::npos)
            headers[std::string(line.substr(0, colon))] = line.substr(colon + 2);
        bytes.remove_prefix(std::min(line.size() + 1, bytes.size()));
    }
    const auto checksum = checksum_in(headers);
    if (checksum && (checksum->value.size() % 4 != 0 || checksum->parts > 10'000))
        std::abort();
    return checksum ? check_header_word(checksum->value) : 0;
}

/// What a bucket's server answers, and who gives credentials for a time: a listing, uploads, an
/// upload's id, an object's checksum, or refused as corrupt; and what is shown of a problem is
/// printable. Aborts where that is not so. How much was in it.
inline std::size_t check_s3_bytes(std::string_view bytes) {
    std::size_t found = or_corrupt([&] {
        const ListPage page = parse_list(bytes);
        return page.objects.size() + page.prefixes.size();
    });
    found += or_corrupt([&] { return parse_uploads(bytes).uploads.size(); });
    found += or_corrupt([&] { return parse_parts(bytes).parts.size(); });
    found += or_corrupt([&] { return parse_upload_id(bytes).empty() ? 0U : 1U; });
    const Problem problem = parse_problem(bytes);
    for (const char c : problem.code + problem.message)
        if (c < ' ' || c > '~')
            std::abort();
    advice(403, problem.code);
    found += or_corrupt([&] { return check_credentials(parse_sts_credentials(bytes)); });
    found += or_corrupt([&] { return check_credentials(parse_credentials_json(bytes)); });
    or_corrupt([&] { return check_header_word(parse_metadata_token(bytes)); });
    or_corrupt([&] {
        const std::string role = parse_role_name(bytes);
        if (role.find('/') != std::string::npos)
            std::abort();
        return check_header_word(role);
    });
    found += or_corrupt([&] { return check_object_headers(bytes); });
    return found + (problem.code.empty() ? 0 : 1);
}

}  // namespace autolaunch::s3
