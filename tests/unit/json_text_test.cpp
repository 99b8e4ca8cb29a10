// JSON that is written without a tree in between is what the tree's text would be.

#include "secrets/json_text.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace json_text_test {

using namespace autolaunch::launcher;
using Json = nlohmann::ordered_json;

namespace {

// Plain, with what JSON escapes, in UTF-8, and what is not UTF-8.
const std::vector<std::string> kTexts = {
    "", "a rank's CPUs", "say \"no\" \\ yes", "a\tb\nc\x01", "ä→\x7f", "cut \xc3", "\xff\xfe"};

std::string dump(const Json& tree) {
    return tree.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

TEST_CASE("JSON text is what a tree's would be") {
    JsonText json(Secrets::show, {});
    json.object([&] {
        json.member("number", -7);
        json.member("yes", true);
        json.member("texts", kTexts);
        json.member("none", std::vector<int>{});
        json.member("some", std::vector<int>{1, 2});
        json.member("unset", std::optional<int>());
        json.member("set", std::optional<int>(3));
        json.object("within", [&] {
            json.member("ke\"y", nullptr);
            json.object("empty", [] {});
        });
        json.member("objects", [&] {
            json.array(kTexts, [&](const std::string& text) {
                json.object([&] { json.member("text", text); });
            });
        });
        json.member("tree", [&] { json.put_tree({{"a", {1.5, "x\ny"}}, {"b", Json::object()}}); });
        json.member("last", "end");
    });
    Json objects = Json::array();
    for (const std::string& text : kTexts)
        objects.push_back({{"text", text}});
    const Json tree = {
        {"number", -7},       {"yes", true},
        {"texts", kTexts},    {"none", Json::array()},
        {"some", {1, 2}},     {"unset", nullptr},
        {"set", 3},           {"within", {{"ke\"y", nullptr}, {"empty", Json::object()}}},
        {"objects", objects}, {"tree", {{"a", {1.5, "x\ny"}}, {"b", Json::object()}}},
        {"last", "end"}};
    CHECK(json.text() == dump(tree));
}

TEST_CASE("secrets are masked in every value of JSON text") {
    const std::vector<std::string> known = {"correct-horse-7"};
    const auto write = [&](Secrets secrets) {
        JsonText json(secrets, known);
        json.object([&] {
            json.member("text", "it is correct-horse-7, \"and\" API_KEY=abc");
            json.member("list", std::vector<std::string>{"plain", "correct-horse-7"});
            json.member("tree", [&] { json.put_tree({{"in", "correct-horse-7"}}); });
        });
        return json.text();
    };
    CHECK(Json::parse(write(Secrets::mask)) == Json{{"text", "it is ***, \"and\" API_KEY=***"},
                                                    {"list", {"plain", "***"}},
                                                    {"tree", {{"in", "***"}}}});
    CHECK(Json::parse(write(Secrets::show))["list"][1] == known[0]);
}

}  // namespace json_text_test
