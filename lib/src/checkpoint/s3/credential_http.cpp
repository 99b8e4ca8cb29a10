#include "checkpoint/s3/credential_http.hpp"

#include "checkpoint/s3/s3_answers.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace autolaunch::s3 {
namespace {

constexpr std::size_t kMostAnswer = 64 << 10;
constexpr std::size_t kMostCode = 60;
constexpr int kAttempts = 3;

double chance() {
    thread_local std::mt19937 generator(std::random_device{}());
    return std::uniform_real_distribution<double>()(generator);
}

// A code of letters is a word for people, such as InvalidIdentityToken; anything else may repeat
// the token.
[[noreturn]] void fail(const CredentialQuestion& question, const web::HttpResponse& response) {
    std::string what = question.whom + " says " + std::to_string(response.status);
    const std::string code = parse_problem(response.body).code;
    const bool is_word = std::all_of(code.begin(), code.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    });
    if (!code.empty() && is_word && code.size() <= kMostCode)
        what += ' ' + code;
    const bool may_go_better = is_worth_retrying(response.status, {});
    throw Error(may_go_better ? ErrorCode::closed : ErrorCode::system, what);
}

std::string attempt(const CredentialQuestion& question, const Deadline& deadline) {
    std::vector<std::byte> answer(kMostAnswer);
    web::HttpRequest request;
    request.method = question.method;
    request.url = question.url;
    request.headers = question.headers;
    request.body = std::as_bytes(std::span(question.body));
    request.into = answer;
    request.direct = question.direct;
    web::HttpResponse response;
    try {
        response = web::HttpClient(question.ca_file).perform(request, deadline);
    } catch (const Error& error) {
        const bool is_silent = error.code() == ErrorCode::timeout;
        throw Error(is_silent ? ErrorCode::closed : error.code(),
                    question.whom + ": " + error.what(), error.hint());
    }
    if (response.status != 200)
        fail(question, response);
    return {reinterpret_cast<const char*>(answer.data()), response.into_bytes};
}

}  // namespace

std::string ask(const CredentialQuestion& question, const Deadline& deadline) {
    for (int number = 1;; ++number) {
        try {
            return attempt(question, deadline);
        } catch (const Error& error) {
            const auto pause = retry_delay(number + 1, chance());
            if (error.code() != ErrorCode::closed || number == kAttempts ||
                deadline.remaining() <= pause)
                throw;
            std::this_thread::sleep_for(pause);
        }
    }
}

}  // namespace autolaunch::s3
