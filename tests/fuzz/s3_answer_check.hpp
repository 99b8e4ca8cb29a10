#pragma once
#include "checkpoint/s3/s3_answers.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <cstdlib>
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

/// What a bucket's server answers: a listing, uploads, an upload's id, or refused as corrupt; and
/// what is shown of a problem is printable. Aborts where that is not so. How much was in it.
inline std::size_t check_s3_bytes(std::string_view bytes) {
    std::size_t found = or_corrupt([&] {
        const ListPage page = parse_list(bytes);
        return page.objects.size() + page.prefixes.size();
    });
    found += or_corrupt([&] { return parse_uploads(bytes).size(); });
    found += or_corrupt([&] { return parse_upload_id(bytes).empty() ? 0U : 1U; });
    const Problem problem = parse_problem(bytes);
    for (const char c : problem.code + problem.message)
        if (c < ' ' || c > '~')
            std::abort();
    advice(403, problem.code);
    return found + (problem.code.empty() ? 0 : 1);
}

}  // namespace autolaunch::s3
