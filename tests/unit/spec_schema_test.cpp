// The schema and docs/spec.md come from the same table as the parser, and say the same.

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "spec/schema.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

using namespace autolaunch;
using namespace autolaunch::launcher;
using nlohmann::json;

TEST_CASE("the JSON Schema has every section and key, with what they expect") {
    const json schema = json::parse(json_schema());
    CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
    for (const auto& section : sections()) {
        const json& properties = schema["properties"];
        REQUIRE_MESSAGE(properties.contains(std::string(section.name)), section.name);
        for (const auto& key : section.keys) {
            const json& known = properties[std::string(section.name)]["properties"];
            REQUIRE_MESSAGE(known.contains(std::string(key.name)), section.name, ".", key.name);
            const std::string description = known[std::string(key.name)]["description"];
            CHECK(description.find(expectation(key)) != std::string::npos);
        }
    }
    for (const auto name : sections_to_come())
        CHECK(schema["properties"][std::string(name)] == false);
}

TEST_CASE("names in the table are unique and every key is described") {
    std::set<std::string> seen;
    for (const auto& section : sections()) {
        CHECK(seen.insert(std::string(section.name)).second);
        CHECK_FALSE(section.description.empty());
        for (const auto& key : section.keys) {
            CHECK(seen.insert(std::string(section.name) + "." + std::string(key.name)).second);
            CHECK_FALSE(key.description.empty());
            CHECK_FALSE(expectation(key).empty());
        }
    }
}

TEST_CASE("docs/spec.md has the table as it is") {
    const std::string document = read_file(std::string(AUTOLAUNCH_SOURCE_DIR) + "/docs/spec.md");
    for (const auto& line : split(schema_markdown(), '\n')) {
        CHECK_MESSAGE(document.find(line) != std::string::npos,
                      "docs/spec.md lacks (autolaunch schema --markdown): ", line);
    }
}
