#include "tasks/stand_in_message.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <variant>
#include <vector>

namespace stand_in_message_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

std::vector<stand_in::Message> samples() {
    stand_in::Start start;
    start.spec.argv = {"python3", "train.py", ""};
    start.spec.environment = {"A=1", std::string("B=\0x", 4)};
    start.spec.workdir = "/work";
    start.spec.cpus = {0, 1, 255};
    start.spec.memory_nodes = {1};
    start.spec.file_limit = 1024;
    start.descriptors = 0b1111;
    start.inherited_as = 7;
    return {
        stand_in::Hello{.local_task = 3, .pid = 4, .environment = {"A=1", "B="}, .cpus = {0, 2}},
        stand_in::Started{.pid = 12, .affinity_error = 22, .memory_policy_error = 1},
        stand_in::StartFailed{.stage = 7, .error_number = 2, .what = "cannot", .hint = "try"},
        stand_in::Ended{.exit_code = 3, .signal = {}, .core_dumped = false},
        stand_in::Ended{.exit_code = {}, .signal = 11, .core_dumped = true},
        stand_in::OffspringEnded{true},
        stand_in::Signalled{15},
        stand_in::Accepted{},
        stand_in::Refused{"no", "because"},
        start,
        stand_in::SignalGroup{9},
        stand_in::EndOffspring{5000},
        stand_in::Finish{75}};
}

}  // namespace

TEST_CASE("every message comes back as it went, byte by byte") {
    std::string stream;
    for (const auto& message : samples())
        stream += stand_in::encode(message);
    std::string received;
    std::size_t count = 0;
    const auto expected = samples();
    for (const char byte : stream) {
        received += byte;
        while (const auto message = stand_in::take_message(received)) {
            REQUIRE(count < expected.size());
            CHECK(message->index() == expected[count].index());
            CHECK(stand_in::encode(*message) == stand_in::encode(expected[count]));
            ++count;
        }
    }
    CHECK(count == expected.size());
    CHECK(received.empty());
}

TEST_CASE("the fields of a start") {
    std::string bytes = stand_in::encode(samples()[9]);
    const auto message = stand_in::take_message(bytes);
    REQUIRE(message);
    const auto& start = std::get<stand_in::Start>(*message);
    CHECK(start.spec.argv == std::vector<std::string>{"python3", "train.py", ""});
    CHECK(start.spec.environment[1].size() == 4);
    CHECK(start.spec.cpus == std::vector{0, 1, 255});
    CHECK(start.spec.file_limit == 1024);
    CHECK(start.inherited_as == 7);
}

TEST_CASE("what is no message is refused") {
    const auto take = [](std::string bytes) { return stand_in::take_message(bytes); };
    const std::string finish = stand_in::encode(stand_in::Finish{1});
    CHECK_FALSE(take("").has_value());
    CHECK_FALSE(take(finish.substr(0, finish.size() - 1)).has_value());
    CHECK_THROWS_AS(take(std::string("\xff\xff\xff\x7f\0", 5)), Error);  // 2 GiB to come
    CHECK_THROWS_AS(take(std::string("\0\0\0\0\x63", 5)), Error);        // no such type
    CHECK_THROWS_AS(take(std::string("\5\0\0\0\xb_____", 10)), Error);   // a longer Finish
    CHECK_THROWS_AS(take(std::string("\3\0\0\0\xb___", 8)), Error);      // a shorter one
    CHECK_THROWS_AS(take(std::string("\x8\0\0\0\7\xff\xff\xff\x7f____", 13)),
                    Error);  // a string beyond its frame
}

TEST_CASE("noise never makes it throw anything but Error, or take more than came") {
    std::mt19937 random(7);
    const auto whole = samples();
    for (int round = 0; round < 20'000; ++round) {
        std::string bytes = stand_in::encode(whole[random() % whole.size()]);
        for (unsigned flips = random() % 4; flips > 0; --flips)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        bytes.resize(random() % (bytes.size() + 1));
        try {
            stand_in::take_message(bytes);
        } catch (const Error& error) {
            REQUIRE(error.code() == ErrorCode::corrupt);
        }
    }
}

}  // namespace stand_in_message_test
