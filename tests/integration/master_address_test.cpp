// Where ranks are told to meet: what the user gave, and a resolver that may be silent.

#include "rank_services/coordinator.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>

namespace master_address_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view kSilentHost = "silent.invalid";
std::atomic<int> look_ups{0};

}  // namespace

/// A resolver that never comes back for one name. It stands before libc's.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
    const bool numeric = (hints->ai_flags & AI_NUMERICHOST) != 0;
    if (!numeric)
        ++look_ups;
    while (!numeric && host != nullptr && std::string_view(host) == kSilentHost)
        std::this_thread::sleep_for(1s);
    const auto next = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    return next(host, service, hints, found);
}

namespace {

MasterAddress address_given(const std::string& address, const std::string& head_address = {}) {
    JobSpec spec;
    spec.rendezvous.address = address;
    return master_address(spec, head_address);
}

}  // namespace

TEST_CASE("a numeric address needs no resolver") {
    CHECK(address_given("127.0.0.2").listen == "127.0.0.2");
    CHECK(address_given("::1").listen == "::1");
    CHECK(address_given("").listen == "127.0.0.1");
    CHECK(address_given("", "10.0.0.1").told == "10.0.0.1");
    CHECK(address_given("127.0.0.1", "10.0.0.1").listen == "10.0.0.1");
    CHECK(look_ups == 0);
}

TEST_CASE("where no other node connects, the store is on the loopback, whatever is given") {
    CHECK(address_given("10.0.0.7").listen == "127.0.0.1");
    CHECK(address_given("10.0.0.7").told == "127.0.0.1");
    JobSpec spec;
    spec.local_addr = "10.0.0.7";
    CHECK(master_address(spec, "").listen == "127.0.0.1");
    spec.rendezvous.store = "node";
    CHECK(master_address(spec, "10.0.0.1").listen == "127.0.0.1");
    CHECK(master_address(spec, "10.0.0.1").told == "127.0.0.1");
    spec.rendezvous.address = "10.0.0.1";
    CHECK(master_address(spec, "10.0.0.1").listen == "127.0.0.1");
    spec.rendezvous.store = "head";
    CHECK(master_address(spec, "10.0.0.1").listen == "10.0.0.1");
}

TEST_CASE("a name is looked up, and told as it was given") {
    const MasterAddress found = address_given("localhost");
    CHECK(found.told == "localhost");
    CHECK((found.listen == "127.0.0.1" || found.listen == "::1"));
    CHECK(look_ups > 0);
}

TEST_CASE("a resolver that does not answer is not waited for without end") {
    try {
        address_given(std::string(kSilentHost));
        FAIL("an address was found");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
        CHECK(std::string(error.what()).find("silent.invalid could not be looked up in time") !=
              std::string::npos);
        CHECK(error.hint().find("--master-addr") != std::string::npos);
    }
}

}  // namespace master_address_test
