#include "base/user_database.hpp"

#include "base/ask_in_time.hpp"
#include "base/text.hpp"

#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>

namespace autolaunch {

namespace {

constexpr auto kUserTime = std::chrono::seconds(10);

UserRecord ask_for(uid_t uid) {
    passwd record{};
    std::vector<char> room;
    const auto ask = [uid](auto... rest) { return ::getpwuid_r(uid, rest...); };
    const DatabaseAnswer answer = ask_database(ask, record, room);
    if (answer != DatabaseAnswer::exists)
        return {answer, "user " + std::to_string(uid), {}};
    return {answer, record.pw_name, record.pw_dir != nullptr ? record.pw_dir : ""};
}

// Of a user who asks: one thread has the question, whoever else wants to know waits for it.
struct UserQuestion {
    uid_t uid = 0;
    std::chrono::steady_clock::time_point until;
    std::shared_future<UserRecord> answer;
};

UserQuestion question_of(uid_t uid) {
    static std::mutex mutex;
    static auto* asked = new UserQuestion;  // its thread may outlive the statics
    const std::lock_guard lock(mutex);
    if (asked->answer.valid() && asked->uid == uid)
        return *asked;
    auto promise = std::make_shared<std::promise<UserRecord>>();
    *asked = {uid, std::chrono::steady_clock::now() + kUserTime, promise->get_future().share()};
    start_detached([promise, uid] { promise->set_value(ask_for(uid)); });
    return *asked;
}

UserNumber ask_for_number(const std::string& name) {
    passwd record{};
    std::vector<char> room;
    const auto ask = [&name](auto... rest) { return ::getpwnam_r(name.c_str(), rest...); };
    const DatabaseAnswer answer = ask_database(ask, record, room);
    return {answer, answer == DatabaseAnswer::exists ? record.pw_uid : 0};
}

}  // namespace

// Root needs no database, nor does a number.
UserNumber number_of_user(const std::string& name) {
    constexpr long long kMostUser = 0xFFFFFFFELL;
    long long number = 0;
    if (name == "root")
        return {DatabaseAnswer::exists, 0};
    if (parse_integer(name, number) && number >= 0 && number <= kMostUser)
        return {DatabaseAnswer::exists, static_cast<uid_t>(number)};
    return ask_in_time([name] { return ask_for_number(name); }, Deadline::after(kUserTime))
        .value_or(UserNumber{DatabaseAnswer::no_answer, 0});
}

UserRecord own_user_record() {
    const uid_t uid = ::geteuid();
    const UserQuestion question = question_of(uid);
    if (question.answer.wait_until(question.until) == std::future_status::ready)
        return question.answer.get();
    return {DatabaseAnswer::no_answer, "user " + std::to_string(uid), {}};
}

}  // namespace autolaunch
