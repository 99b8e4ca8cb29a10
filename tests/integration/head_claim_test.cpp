// Agents of one machine without numbers agree on the head, whatever another user holds.
#include "rendezvous/head_claim.hpp"

#include "base/hash.hpp"
#include "base/unique_fd.hpp"
#include "other_user.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace head_claim_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::can_be_other_user;
using autolaunch::testing::kOtherUser;

namespace {

JobIdentity job_of_this_test(const std::string& what) {
    return {"static/localhost:1/" + what + "-" + std::to_string(::getpid()), {}};
}

HeadClaim claim(const JobIdentity& job) { return claim_head("localhost", true, "here", job); }

/// As docs/rendezvous.md has it; the i-th of its names.
std::string name_of(const JobIdentity& job, int i) {
    return "autolaunch/" + std::to_string(::geteuid()) + "/head/" +
           hex64(hash64(job.name.data(), job.name.size())) +
           (i == 0 ? "" : "/" + std::to_string(i));
}

UniqueFd squat(const std::string& name, bool listens) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) == 0);
    if (listens)
        REQUIRE(::listen(socket.get(), 1) == 0);
    return socket;
}

/// What the kernel keeps of who listens is the effective user, which libc changes for all threads.
template <typename Act>
void with_other_credentials(Act act) {
    std::thread([&act] {
        REQUIRE(::syscall(SYS_setresuid, -1, kOtherUser, -1) == 0);
        act();
    }).join();
}

}  // namespace

TEST_CASE("of several agents the first is the head, and the next when it has gone") {
    const JobIdentity job = job_of_this_test("first");
    HeadClaim first = claim(job);
    CHECK(first.is_head);
    CHECK_FALSE(claim(job).is_head);
    CHECK(claim(job_of_this_test("other")).is_head);
    first = {};
    CHECK(claim(job).is_head);
}

TEST_CASE("a name that another user holds is passed over by all agents alike") {
    if (!can_be_other_user())
        return;
    for (const bool listens : {true, false}) {
        CAPTURE(listens);
        const JobIdentity job = job_of_this_test(listens ? "listens" : "silent");
        const std::string name = name_of(job, 0);
        UniqueFd held;
        with_other_credentials([&] { held = squat(name, listens); });
        const HeadClaim first = claim(job);
        CHECK(first.is_head);
        CHECK_FALSE(claim(job).is_head);
    }
}

TEST_CASE("another user who holds all names is named as the reason") {
    if (!can_be_other_user())
        return;
    const JobIdentity job = job_of_this_test("all");
    std::vector<UniqueFd> held;
    for (int i = 0; i < 16; ++i) {
        const std::string name = name_of(job, i);
        with_other_credentials([&] { held.push_back(squat(name, true)); });
    }
    CHECK_THROWS_WITH_AS(claim(job),
                         doctest::Contains("other users of this machine hold the names"), Error);
}

}  // namespace head_claim_test
