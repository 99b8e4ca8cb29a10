#include "safetensors_rules.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

namespace safetensors_test {

using namespace autolaunch;
using safetensors::Entry;

namespace {

// What parsing says of a file: "ok", or the error's text. Anything but Error{corrupt} or
// Error{unsupported} escapes.
std::string verdict(const std::string& file) {
    try {
        safetensors::parse_header(file, file.size());
        return "ok";
    } catch (const Error& error) {
        REQUIRE((error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported));
        return error.what();
    }
}

std::string file_with(const std::string& header, std::size_t data_bytes) {
    std::string file;
    for (int i = 0; i < 8; ++i)
        file += static_cast<char>(header.size() >> (8 * i));
    return file + header + std::string(data_bytes, 'x');
}

std::string good_file() {
    const std::vector<Entry> entries = {
        {"a", f64, {2, 3}, 0, 0}, {"b@5", f32, {7}, 0, 0}, {"c", u8, {}, 0, 0}};
    return safetensors::encode_header(entries, {{"step", "7"}}) + std::string(48 + 28 + 1, 'x');
}

}  // namespace

TEST_CASE("an encoded header is valid, starts its data on a page and reads back the same") {
    const std::string file = good_file();
    CHECK(testing::broken_safetensors_rule(file) == "");
    const auto header = safetensors::parse_header(file, file.size());
    CHECK(header.data_begin == 4096);
    CHECK(header.metadata.at("step") == "7");
    REQUIRE(header.entries.size() == 3);
    CHECK(header.entries[1].name == "b@5");
    CHECK(header.entries[1].begin == 48);
    CHECK(header.entries[2].end == 77);
    CHECK(header.entries[0].shape == std::vector<std::int64_t>{2, 3});
    CHECK(header.entries[0].type == f64);
}

TEST_CASE("a header of exactly one page needs no padding, one byte more takes another page") {
    for (std::size_t length = 3900; length < 4200; ++length) {
        const std::vector<Entry> entries = {{std::string(length, 'n'), u8, {1}, 0, 0}};
        const std::string file = safetensors::encode_header(entries, {}) + "x";
        REQUIRE(testing::broken_safetensors_rule(file) == "");
        REQUIRE(file.size() <= 8193);
    }
}

TEST_CASE("an empty file list is valid") {
    CHECK(testing::broken_safetensors_rule(safetensors::encode_header({}, {})) == "");
    CHECK(verdict(safetensors::encode_header({}, {})) == "ok");
}

TEST_CASE("names that would make an invalid file are refused") {
    const auto code_of = [](std::vector<Entry> entries) {
        try {
            safetensors::encode_header(entries, {});
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode::system;
    };
    CHECK(code_of({{"a", f32, {1}, 0, 0}, {"a", f32, {2}, 0, 0}}) == ErrorCode::invalid_argument);
    CHECK(code_of({{"__metadata__", f32, {1}, 0, 0}}) == ErrorCode::invalid_argument);
    CHECK(code_of({{"\xff\xfe", f32, {1}, 0, 0}}) == ErrorCode::invalid_argument);
    CHECK(code_of({{"a", f32, {INT64_MAX}, 0, 0}}) == ErrorCode::invalid_argument);
}

TEST_CASE("every rule of the format is checked, and the message says which is broken") {
    const std::string one = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    CHECK(verdict(file_with(one, 8)) == "ok");
    CHECK(verdict(file_with(one, 9)) == "safetensors: the tensors have 8 bytes, the file 9");
    CHECK(verdict(file_with(one, 7)) == "safetensors: the tensors have 8 bytes, the file 7");
    CHECK(verdict("1234567") == "safetensors: the file is shorter than 8 bytes");
    CHECK(verdict(std::string("\xff\xff\xff\xff\0\0\0\0{}", 10)) ==
          "safetensors: the header claims 4294967295 bytes");
    CHECK(verdict(std::string("\x09\0\0\0\0\0\0\0{}", 10)) ==
          "safetensors: the file ends inside its header");
    CHECK(verdict(file_with(" " + one, 8)) == "safetensors: the header does not start with {");
    CHECK(verdict(file_with("{\"a\":", 8)) == "safetensors: the header is not a JSON object");
    CHECK(verdict(file_with(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8)) ==
          "safetensors: tensor a has offsets that do not match its shape and type");
    CHECK(verdict(file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8)) ==
          "safetensors: the data of tensor a does not follow the one before");
    CHECK(verdict(file_with(R"({"a":{"dtype":"Q4","shape":[1],"data_offsets":[4,8]}})", 8)) ==
          "safetensors: no type here is called Q4");
    CHECK(verdict(file_with(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})", 8)) ==
          "safetensors: a.shape[0] is not a whole number from 0 to 9223372036854775807");
    CHECK(verdict(file_with(R"({"a":{"dtype":"F32","shape":[2]}})", 8)) ==
          "safetensors: a has no \"data_offsets\"");
    CHECK(verdict(file_with(R"({"__metadata__":{"k":1}})", 0)) ==
          "safetensors: __metadata__.k is not a string");
    CHECK(
        verdict(file_with(
            R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
            2)) == "safetensors: the header has the name a twice");
    CHECK(verdict(file_with(
              R"({"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
              0)) == "safetensors: tensor a has offsets that do not match its shape and type");
}

TEST_CASE("a file cut anywhere, or with any damaged byte, is refused or read as a valid file") {
    const std::string file = good_file();
    const std::size_t text_end = file.find("  ");
    for (std::size_t length = 0; length < file.size(); ++length)
        REQUIRE(verdict(file.substr(0, length)) != "ok");
    std::mt19937 random(5);
    int refused = 0;
    for (int round = 0; round < 3000; ++round) {
        std::string damaged = file;
        for (int i = 0; i < 1 + round % 3; ++i)
            damaged[random() % text_end] = static_cast<char>(random());
        if (verdict(damaged) != "ok")
            ++refused;
        else
            REQUIRE(testing::broken_safetensors_rule(damaged) == "");
    }
    CHECK(refused > 1500);
}

TEST_CASE("deep nesting does not overflow the stack") {
    std::string header = "{\"a\":";
    header += std::string(200'000, '[');
    CHECK(verdict(file_with(header, 0)) == "safetensors: the header is nested too deeply");
}

}  // namespace safetensors_test
