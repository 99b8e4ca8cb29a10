// JSON of files that somebody else may have written: the same value as the library's own parser
// makes, or an error.
#include "checkpoint/format/json.hpp"
#include "checkpoint/format/tensor_index.hpp"

#include <doctest/doctest.h>

#include <iterator>
#include <random>
#include <string>

namespace strict_json_test {

using namespace autolaunch;
using nlohmann::json;

namespace {

json random_value(std::mt19937& random, int depth) {
    switch (random() % (depth > 0 ? 8U : 6U)) {
        case 0:
            return nullptr;
        case 1:
            return random() % 2 == 0;
        case 2:
            return -static_cast<std::int64_t>(random() % 1000);
        case 3:
            return random();
        case 4:
            return 1.0 / (1.0 + random() % 100);
        case 5:
            return "text \"" + std::to_string(random() % 50) + "\\ \n ü";
        case 6: {
            json list = json::array();
            for (auto left = random() % 5; left > 0; --left)
                list.push_back(random_value(random, depth - 1));
            return list;
        }
        default: {
            json object = json::object();
            for (auto left = random() % 5; left > 0; --left)
                object["k" + std::to_string(random() % 20)] = random_value(random, depth - 1);
            return object;
        }
    }
}

std::string verdict(const std::string& text) {
    try {
        parse_strictly(text, "x");
        return "read";
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::corrupt);
        return error.what();
    }
}

std::string nested(int levels, const std::string& open, const std::string& close) {
    std::string text = "{\"a\":";
    for (int i = 1; i < levels; ++i)
        text += open;
    text += "1";
    for (int i = 1; i < levels; ++i)
        text += close;
    return text + "}";
}

}  // namespace

TEST_CASE("what is right is read as it is, and torn anywhere it is refused") {
    std::mt19937 random(1);
    for (int i = 0; i < 2000; ++i) {
        json value = json::object();
        for (const char* name : {"a", "b", "c"})
            value[name] = random_value(random, 5);
        const std::string text = value.dump(i % 3 - 1);
        CHECK(parse_strictly(text, "x") == json::parse(text));
        CHECK(parse_strictly(text, "x") == value);
        CHECK(verdict(text.substr(0, random() % text.size())) == "x is not a JSON object");
    }
    for (const char* text : {"", "[]", "1", "\"a\"", "null", "{} {}", "{\"a\":1,}"})
        CHECK(verdict(text) == "x is not a JSON object");
}

TEST_CASE("a name that comes twice is refused wherever it is") {
    CHECK(verdict(R"({"a":1,"b":2,"a":3})") == "x has the name a twice");
    CHECK(verdict(R"({"l":[{"a":{"b":1,"b":1}}]})") == "x has the name b twice");
    CHECK(verdict(R"({"a":[{"a":1},{"a":2}],"b":{"a":3}})") == "read");
}

TEST_CASE("sixteen levels are read, and no more") {
    CHECK(verdict(nested(16, "[", "]")) == "read");
    CHECK(verdict(nested(17, "[", "]")) == "x is nested too deeply");
    CHECK(verdict(nested(16, "{\"a\":", "}")) == "read");
    CHECK(verdict(nested(17, "{\"a\":", "}")) == "x is nested too deeply");
    CHECK(verdict(nested(1'000'000, "[", "]")) == "x is nested too deeply");
    CHECK_THROWS_AS(parse_of_rank(nested(1'000'000, "[", "]")), Error);
}

TEST_CASE("tensors are found by their names") {
    Manifest manifest;
    for (int i = 0; i < 1000; ++i)
        manifest.tensors.push_back({"t" + std::to_string(i), DataType::f32, {i}, {}});
    const TensorIndex index(manifest);
    for (const auto& tensor : manifest.tensors)
        CHECK(index.find(tensor.name) == &tensor);
    CHECK(index.find("t1000") == nullptr);
    CHECK(index.find("") == nullptr);
    CHECK(std::distance(index.begin(), index.end()) == 1000);
}

}  // namespace strict_json_test
