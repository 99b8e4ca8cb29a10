// Where a rank's shared memory is said to be: what others may have written there.
#include "base/memory_file.hpp"
#include "base/unique_fd.hpp"
#include "comm/shm/shared_mapping.hpp"
#include "other_user.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace shm_address_test {

using namespace autolaunch;
using autolaunch::testing::as_other_user;
using autolaunch::testing::can_be_other_user;

namespace {

constexpr std::size_t kBytes = 8192;
constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

std::string address_of(const UniqueFd& fd) {
    return fmt::format("{} {} {}", ::getpid(), fd.get(), kToken);
}

/// As a rank's memory would be, but for one thing.
UniqueFd memory_with_token(UniqueFd fd) {
    REQUIRE(::pwrite(fd.get(), kToken, std::strlen(kToken), 0) ==
            static_cast<ssize_t>(std::strlen(kToken)));
    return fd;
}

bool is_refused(const std::string& address) {
    try {
        shm::SharedMapping::attach(address, kBytes);
        return false;
    } catch (const Error& error) {
        return error.code() == ErrorCode::corrupt;
    }
}

}  // namespace

TEST_CASE("memory that a rank made is found by its address, and by nothing that only looks so") {
    const auto made = shm::SharedMapping::create("shm-address-test", kBytes);
    const std::string address = made.address();
    REQUIRE(shm::SharedMapping::attach(address, kBytes).has_value());
    CHECK_FALSE(shm::SharedMapping::attach(address, 2 * kBytes).has_value());
    const std::string token = address.substr(address.rfind(' ') + 1);
    const std::string place = address.substr(0, address.rfind(' ') + 1);
    CHECK_FALSE(shm::SharedMapping::attach(place + std::string(kToken), kBytes).has_value());
    for (const std::string& bad :
         {std::string(), std::string("1 2"), place, place + "abc", place + token + " ",
          "+" + address, " " + address, "0x1 3 " + token, "-1 3 " + token, "0 3 " + token,
          "1 +3 " + token, "99999999999 3 " + token, "1/../self 3 " + token, "self 3 " + token,
          "../tmp/evil 3 " + token, "1 ../../../../tmp/evil " + token}) {
        CAPTURE(bad);
        CHECK(is_refused(bad));
    }
}

TEST_CASE("an empty token does not stand for memory that is still all zeros") {
    const UniqueFd zeros = create_memory_file("shm-address-test", kBytes);
    CHECK(is_refused(fmt::format("{} {} ", ::getpid(), zeros.get())));
    CHECK_FALSE(shm::SharedMapping::attach(address_of(zeros), kBytes).has_value());
}

TEST_CASE("only a sealed memory file of our own user is taken") {
    const auto plain = memory_with_token(UniqueFd(::memfd_create("plain", MFD_CLOEXEC)));
    REQUIRE(::ftruncate(plain.get(), kBytes) == 0);
    CHECK(is_refused(address_of(plain)));
    char name[] = "/tmp/autolaunch-shm-address-XXXXXX";
    const auto file = memory_with_token(UniqueFd(::mkostemp(name, O_CLOEXEC)));
    REQUIRE(::ftruncate(file.get(), kBytes) == 0);
    CHECK(is_refused(address_of(file)));
    ::unlink(name);
    CHECK(is_refused(address_of(file)));  // no name, no seals
    const UniqueFd device(::open("/dev/zero", O_RDWR | O_CLOEXEC));
    CHECK(is_refused(address_of(device)));
    const auto ours = memory_with_token(create_memory_file("ours", kBytes));
    CHECK(shm::SharedMapping::attach(address_of(ours), kBytes).has_value());
    if (!can_be_other_user())
        return;
    UniqueFd theirs;
    as_other_user([&] { theirs = create_memory_file("theirs", kBytes); });
    theirs = memory_with_token(std::move(theirs));
    CHECK(is_refused(address_of(theirs)));
}

}  // namespace shm_address_test
