#pragma once
// What another user of this machine can do, done by a thread of the test.
#include <doctest/doctest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <thread>

namespace autolaunch::testing {

constexpr uid_t kOtherUser = 65534;

/// Only root can become somebody else.
inline bool can_be_other_user() {
    if (::geteuid() == 0)
        return true;
    MESSAGE("not checked: other users can be played by root alone");
    return false;
}

/// Sockets and memory files that `act` makes belong to another user; nothing else of the process
/// changes, as setfsuid(2) is of one thread.
template <typename Act>
void as_other_user(Act act) {
    std::thread([&act] {
        ::setfsuid(kOtherUser);
        act();
    }).join();
}

}  // namespace autolaunch::testing
