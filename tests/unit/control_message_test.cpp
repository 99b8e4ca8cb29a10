#include "control/control_message.hpp"

#include "../fuzz/control_message_check.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "control_samples.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

namespace control_message_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::launcher::control;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kHeaderBytes = 5;  // length and type

std::optional<Message> decode(std::string_view bytes, std::size_t limit = kFrameLimit) {
    MessageReader reader(limit);
    reader.feed(bytes);
    return reader.next();
}

std::string framed(const std::string& body) {
    std::string frame(4, '\0');
    for (std::size_t i = 0; i < 4; ++i)
        frame[i] = static_cast<char>(body.size() >> (8 * i) & 0xFF);
    return frame + body;
}

std::string u32(std::uint32_t value) {
    std::string bytes;
    for (int shift = 0; shift < 32; shift += 8)
        bytes.push_back(static_cast<char>(value >> shift & 0xFF));
    return bytes;
}

void check_corrupt(std::string_view bytes, const std::string& expected,
                   std::size_t limit = kFrameLimit) {
    try {
        const auto message = decode(bytes, limit);
        FAIL("expected an error, got ", message ? "a message" : "nothing yet");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::corrupt);
        CHECK_MESSAGE(std::string(error.what()).find(expected) != std::string::npos,
                      std::string(error.what()));
    }
}

}  // namespace

TEST_CASE("every message comes back as it was") {
    for (const auto& sample : sample_messages()) {
        INFO(sample.first);
        CHECK(decode(encode(sample.second)).value() == sample.second);
    }
}

TEST_CASE("no two messages share a type") {
    std::set<char> types;
    for (const auto& [name, message] : sample_messages())
        types.insert(encode(message)[4]);
    CHECK(types.size() == sample_messages().size());
}

TEST_CASE("the bytes are those of docs/control-protocol.md") {
    CHECK(encode(Heartbeat{}) == std::string("\x01\0\0\0\x3F", 5));
    CHECK(encode(Command(KillRanks{258})) == std::string("\x05\0\0\0\x12\x02\x01\0\0", 9));
    CHECK(encode(Report(NodeWarning{"ab"})) == std::string("\x07\0\0\0\x25\x02\0\0\0ab", 11));
    const std::string end = u32(13) + u32(5) + u32(8123) +
                            std::string("\1\1\0\0\0\0\1\1", 8)  // code 1, no signal
                            + u32(192'000) + u32(0) + '\1' + u32(1243) + u32(0);
    const std::string body =
        '\x23' + u32(1) + '\1' + u32(1) + end + '\0' + u32(5) + u32(0) + u32(0);
    CHECK(encode(Report(RanksEnded{1, true, {sample_end()}, std::nullopt, 5})) ==
          u32(static_cast<std::uint32_t>(body.size())) + body);
}

TEST_CASE("messages arrive in any pieces, and several at once") {
    std::string stream;
    for (const auto& [name, message] : sample_messages())
        stream += encode(message);
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, stream.size()}) {
        MessageReader reader(kFrameLimit);
        std::size_t got = 0;
        for (std::size_t at = 0; at < stream.size(); at += step) {
            reader.feed(std::string_view(stream).substr(at, step));
            while (const auto message = reader.next())
                CHECK(*message == sample_messages()[got++].second);
        }
        CHECK(got == sample_messages().size());
    }
}

TEST_CASE("a message that lacks its last bytes waits, and one that ends too early is refused") {
    for (const auto& sample : sample_messages()) {
        INFO(sample.first);
        const std::string frame = encode(sample.second);
        for (std::size_t cut = 0; cut < frame.size(); ++cut) {
            CHECK_FALSE(decode(std::string_view(frame).substr(0, cut)).has_value());
            if (cut > kHeaderBytes)
                CHECK_THROWS_AS(decode(framed(frame.substr(4, cut - 4))), Error);
        }
        check_corrupt(framed(frame.substr(4) + "x"), "1 bytes after type");
    }
}

TEST_CASE("the limit is checked by the length alone") {
    check_corrupt(u32(0), "a frame of 0 bytes");
    check_corrupt(u32(kJoinLimit + 1), "a frame of 65537 bytes; the most is 65536", kJoinLimit);
    check_corrupt("GET / HTTP/1.1\r\n", "a frame of 542393671 bytes");
    CHECK_FALSE(decode(u32(kJoinLimit), kJoinLimit).has_value());
    const Relay largest{0, 0, 0, 0, std::string(kFrameLimit - 18, 'x')};
    CHECK(decode(encode(largest)).value() == Message(largest));
    CHECK_THROWS_AS(encode(Relay{0, 0, 0, 0, std::string(kFrameLimit - 17, 'x')}), Error);
}

TEST_CASE("a limit can be raised between messages") {
    MessageReader reader(8);
    reader.feed(encode(Heartbeat{}));
    reader.feed(encode(Report(NodeWarning{"over eight bytes"})));
    CHECK(reader.next().value() == Message(Heartbeat{}));
    reader.set_frame_limit(100);
    CHECK(reader.next().has_value());
}

TEST_CASE("what no message can be is refused") {
    check_corrupt(framed(std::string(1, '\0')), "type 0 does not exist");
    check_corrupt(framed("\xFF"), "type 255 does not exist");
    check_corrupt(framed("\x25" + u32(0xFFFFFFFF)), "it ends within a field");
    check_corrupt(framed("\x11" + u32(1) + "\x02" + u32(0)), "neither 0 nor 1");
    SUBCASE("lists whose count is a lie") {
        check_corrupt(framed("\x03" + u32(0xFFFFFFFF)), "a list of 4294967295 items");
        check_corrupt(framed("\x03" + u32(2) + std::string(23, '\0')), "longer than the message");
    }
}

TEST_CASE("lists have a limit on the way out, too") {
    Fence fence;
    fence.nodes.resize((1 << 17) + 1);
    CHECK_THROWS_AS(encode(fence), Error);
}

// AUTOLAUNCH_WRITE_SEEDS=1 writes them anew after a message changed.
TEST_CASE("the fuzzing seeds are the sample messages") {
    const fs::path folder = fs::path(AUTOLAUNCH_SOURCE_DIR) / "tests/fuzz/seeds/control_message";
    for (const auto& sample : sample_messages()) {
        if (std::getenv("AUTOLAUNCH_WRITE_SEEDS"))
            write_file(folder / sample.first, encode(sample.second));
        INFO(sample.first);
        CHECK(read_file(folder / sample.first) == encode(sample.second));
    }
}

TEST_CASE(
    "the fuzzer's check holds for its seeds, for each with a bit flipped and for two in a row") {
    std::size_t files = 0;
    std::size_t messages = 0;
    std::string all;
    for (const auto& entry : fs::directory_iterator(fs::path(AUTOLAUNCH_SOURCE_DIR) /
                                                    "tests/fuzz/seeds/control_message")) {
        std::string bytes = read_file(entry.path());
        all += bytes;
        ++files;
        messages += check_control_bytes(bytes);
        for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
            check_control_bytes(bytes);
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
        }
    }
    CHECK(files >= sample_messages().size());
    CHECK(messages >= sample_messages().size());
    CHECK(check_control_bytes(all) == messages);
}

}  // namespace control_message_test
