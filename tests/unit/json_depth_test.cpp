// Readers of JSON that somebody else may have written, each with a nesting that would take a stack
// of its own: tests/unit/structure_test.cpp keeps the list of them.
#include "causes/failure_evidence.hpp"
#include "doctor/finding.hpp"
#include "doctor/rails.hpp"
#include "session/session_protocol.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

namespace json_depth_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

constexpr std::size_t kDeep = 1'000'000;

// Closed, open, and of objects; behind a member that is right.
std::vector<std::string> deep_values() {
    std::string objects;
    for (std::size_t i = 0; i < kDeep; ++i)
        objects += "{\"a\":";
    return {std::string(kDeep, '[') + std::string(kDeep, ']'), std::string(kDeep, '['),
            objects + "1" + std::string(kDeep, '}')};
}

void check_refused(const std::string& before, const std::string& after,
                   const std::function<void(const std::string&)>& read) {
    for (const std::string& deep : deep_values())
        CHECK_THROWS_WITH_AS(read(before + deep + after), doctest::Contains("nested too deeply"),
                             Error);
}

}  // namespace

TEST_CASE("what another node's doctor says") {
    check_refused("", "", decode_report);
    check_refused(R"({"node":"n","facts":)", "}", decode_report);
    check_refused("", "", decode_targets);
    check_refused(R"([["eth0","::1","::2","x",)", "]]", decode_targets);
}

TEST_CASE("what a process says on the session's socket") {
    check_refused("", "", session::parse_rank_line);
    check_refused(R"({"type":"message","text":)", "}", session::parse_rank_line);
    check_refused(R"({"type":"stop","reason":)", "}", session::parse_agent_line);
}

TEST_CASE("what a program leaves in its error file") {
    for (const std::string& deep : deep_values()) {
        CHECK_FALSE(parse_error_file(deep));
        CHECK_FALSE(parse_error_file(R"({"message":)" + deep + "}"));
        CHECK_FALSE(parse_error_file(R"({"message":{"message":"x","extraInfo":)" + deep + "}}"));
    }
}

}  // namespace json_depth_test
