#include "remote_data/remote_errors.hpp"

#include "checkpoint/s3/s3_client.hpp"
#include "exit_codes/exit_error.hpp"

#include <array>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// AWS says of some of these 400.
bool is_about_who_asks(const s3::Refusal& refusal) {
    static constexpr std::array<std::string_view, 6> kProblems = {
        "ExpiredToken",         "InvalidToken",         "InvalidAccessKeyId",
        "TokenRefreshRequired", "RequestTimeTooSkewed", "SignatureDoesNotMatch"};
    for (const std::string_view problem : kProblems)
        if (refusal.problem() == problem)
            return true;
    return refusal.status() == http_status::kUnauthorized ||
           refusal.status() == http_status::kForbidden;
}

}  // namespace

void remote_changed(const std::string& shown) {
    throw ExitError(exit_code::kNoInput, ErrorCode::mismatch,
                    shown + " was changed while it was staged",
                    "start the job once nobody writes there any more");
}

void remote_missing(const std::string& shown, std::string hint) {
    throw ExitError(exit_code::kNoInput, ErrorCode::system, "there is no " + shown,
                    std::move(hint));
}

void remote_unusable(const std::string& what, std::string hint) {
    throw ExitError(exit_code::kBadData, ErrorCode::invalid_argument, what, std::move(hint));
}

void remote_damaged(const std::string& shown, const std::string& checksum, const std::string& ours,
                    const std::string& theirs) {
    throw ExitError(exit_code::kBadData, ErrorCode::mismatch,
                    shown + " was damaged at its server or on its way: what has come has " +
                        checksum + ' ' + ours + ", and its server has written down " + theirs,
                    "start the job again, which reads it anew; if it is the same then, put the "
                    "object there anew");
}

void remote_forbids(const std::string& what, const std::string& who, const std::string& hint) {
    throw ExitError(exit_code::kNotPermitted, ErrorCode::system, what + " (asked with " + who + ")",
                    hint);
}

void remote_away(const std::string& what, std::string hint) {
    throw ExitError(exit_code::kUnavailable, ErrorCode::closed, what, std::move(hint));
}

void translate_remote(const std::string& shown, const Error& error, const std::string& who,
                      const char* doing) {
    if (dynamic_cast<const ExitError*>(&error) != nullptr)
        throw;
    const std::string what = "cannot " + std::string(doing) + " " + shown + ": " + error.what();
    if (const auto* refusal = dynamic_cast<const s3::Refusal*>(&error)) {
        if (refusal->problem() == "InvalidObjectState")
            throw ExitError(exit_code::kNoInput, ErrorCode::system, what,
                            "it is in an archive of the bucket's: have it restored first");
        if (is_about_who_asks(*refusal))
            remote_forbids(what, who, refusal->hint());
        if (refusal->status() == http_status::kNotFound || refusal->status() == http_status::kGone)
            throw ExitError(exit_code::kNoInput, ErrorCode::system, what, refusal->hint());
        remote_away(what, refusal->hint().empty() ? "ask who runs the server" : refusal->hint());
    }
    switch (error.code()) {
        case ErrorCode::mismatch:
            remote_changed(shown);
        case ErrorCode::invalid_argument:
        case ErrorCode::corrupt:
            remote_unusable(what, error.hint());
        default:
            remote_away(what, error.hint().empty()
                                  ? "the server has to answer; what has come is gone on with"
                                  : error.hint());
    }
}

}  // namespace autolaunch::launcher
