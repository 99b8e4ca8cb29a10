// The suite on the self backend, in this process.
#include "comm/self/self_backend.hpp"
#include "communicator_suite.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>

namespace comm_self_test {

using namespace autolaunch;

TEST_CASE("self passes the suite") {
    int run = 0;
    for (const conformance::Case& test : conformance::cases()) {
        if (test.min_ranks > 1)
            continue;
        CAPTURE(std::string(test.name));
        Communicator comm(std::make_shared<SelfBackend>());
        CHECK_NOTHROW(test.run(comm));
        CHECK((comm.status() == CommunicatorStatus::aborted) == test.ends_group);
        ++run;
    }
    CHECK(run > 8);
}

}  // namespace comm_self_test
