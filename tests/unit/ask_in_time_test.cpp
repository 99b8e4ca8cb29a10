#include "base/ask_in_time.hpp"
#include "base/user_database.hpp"

#include <doctest/doctest.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace ask_in_time_test {

using namespace autolaunch;
using namespace std::chrono_literals;

TEST_CASE("a question is answered in time, or not at all") {
    CHECK(ask_in_time([] { return 7; }, Deadline::after(1min)) == 7);
    CHECK_THROWS_WITH_AS(
        ask_in_time([]() -> int { throw std::runtime_error("no"); }, Deadline::after(1min)), "no",
        std::runtime_error);
    auto held = std::make_shared<std::promise<int>>();
    const auto silent = [answer = held->get_future().share()] { return answer.get(); };
    CHECK_FALSE(ask_in_time(silent, Deadline::after(20ms)));
    held->set_value(3);
    CHECK(ask_in_time(silent, Deadline::after(1min)) == 3);
}

TEST_CASE("a thread that is left behind takes no signal of the process's") {
    const auto blocked = ask_in_time(
        [] {
            sigset_t mask;
            ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
            return ::sigismember(&mask, SIGTERM) == 1 && ::sigismember(&mask, SIGCHLD) == 1;
        },
        Deadline::after(1min));
    CHECK(blocked == true);
    sigset_t own;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &own);
    CHECK(::sigismember(&own, SIGTERM) == 0);
}

TEST_CASE("a database's answer: there, not there, and none") {
    passwd record{};
    std::vector<char> room;
    int asked = 0;
    const auto known = [&](passwd* user, char* texts, std::size_t size, passwd** found) {
        ++asked;
        if (size < 10000)
            return ERANGE;
        if (asked == 3)
            return EINTR;
        std::strcpy(texts, "amy");
        user->pw_name = texts;
        *found = user;
        return 0;
    };
    CHECK(ask_database(known, record, room) == DatabaseAnswer::exists);
    CHECK(asked == 4);
    CHECK(record.pw_name == std::string("amy"));
    const auto unknown = [](passwd*, char*, std::size_t, passwd**) { return 0; };
    CHECK(ask_database(unknown, record, room) == DatabaseAnswer::none);
    const auto broken = [](passwd*, char*, std::size_t, passwd**) { return EIO; };
    CHECK(ask_database(broken, record, room) == DatabaseAnswer::no_answer);
    const auto endless = [](passwd*, char*, std::size_t, passwd**) { return ERANGE; };
    CHECK(ask_database(endless, record, room) == DatabaseAnswer::no_answer);
}

TEST_CASE("who this process is, as the system knows it") {
    const UserRecord user = own_user_record();
    const passwd* known = ::getpwuid(::geteuid());
    REQUIRE((known != nullptr) == (user.answer == DatabaseAnswer::exists));
    CHECK(user.name == (known != nullptr ? known->pw_name : "user " + std::to_string(::geteuid())));
    CHECK(user.home == (known != nullptr ? known->pw_dir : ""));
}

}  // namespace ask_in_time_test
