// The schema and docs/spec.md come from the same table as the parser, and say the same.

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "site/site_keys.hpp"
#include "spec/schema.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace spec_schema_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using nlohmann::json;

namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

// The string literals of a source, without its comments.
std::string literals_of(const std::string& source) {
    std::string text;
    for (const auto& line : split(source, '\n')) {
        bool inside = false;
        for (std::size_t i = 0; i < line.size(); ++i) {
            if (!inside && line.compare(i, 2, "//") == 0)
                break;
            if (inside && line[i] == '\\') {
                ++i;
                text += ' ';
            } else if (line[i] == '"') {
                inside = !inside;
                text += ' ';
            } else if (inside) {
                text += line[i];
            }
        }
        text += ' ';
    }
    return text;
}

// "restart.max_restarts": two words with a dot between them, and nothing of a path or a longer name
// around them.
std::vector<std::pair<std::string, std::string>> dotted_names(const std::string& text) {
    std::vector<std::pair<std::string, std::string>> names;
    for (std::size_t dot = text.find('.'); dot != std::string::npos;
         dot = text.find('.', dot + 1)) {
        std::size_t begin = dot, end = dot + 1;
        while (begin > 0 && is_word(text[begin - 1]))
            --begin;
        while (end < text.size() && is_word(text[end]))
            ++end;
        const char before = begin > 0 ? text[begin - 1] : ' ',
                   after = end < text.size() ? text[end] : ' ';
        const auto joins = [](char c) {
            return std::string_view("./-<>{}0123456789").find(c) != std::string_view::npos;
        };
        if (begin < dot && end > dot + 1 && !joins(before) && (after == '.' || !joins(after)))
            names.emplace_back(text.substr(begin, dot - begin),
                               text.substr(dot + 1, end - dot - 1));
    }
    return names;
}

}  // namespace

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

TEST_CASE("messages name keys that are there") {
    std::set<std::string> known, section_names, key_names, trainers;
    for (const auto& section : sections()) {
        if (section.free_form || section.of_sweep)  // the trainer's keys, and sweep_words.hpp's
            trainers.emplace(section.name);
        else if (!section.of_site)  // whose keys are in another table
            section_names.emplace(section.name);
        for (const auto& name : site_names_below(section.name))
            known.insert(std::string(section.name) + "." + name);
        for (const auto& key : section.keys) {
            known.insert(std::string(section.name) + "." + std::string(key.name));
            key_names.emplace(key.name);
        }
    }
    // What doctor compares between nodes has names of its own.
    known.insert({"storage.checkpoints", "storage.run", "storage.scratch"});
    const std::set<std::string> endings = {"yaml", "json", "py", "sh", "md", "conf", "h"};
    std::size_t seen = 0;
    for (const char* root : {"/launcher", "/lib"})
        for (const auto& entry : std::filesystem::recursive_directory_iterator(
                 std::string(AUTOLAUNCH_SOURCE_DIR) + root)) {
            if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp")
                continue;
            for (const auto& [first, second] : dotted_names(literals_of(read_file(entry.path())))) {
                const std::string name = first + "." + second;
                const bool of_section = section_names.contains(first) && !endings.contains(second);
                if (trainers.contains(first) || (!of_section && !key_names.contains(second)))
                    continue;
                ++seen;
                CHECK_MESSAGE(known.contains(name), entry.path().string(), " names ", name,
                              ", and there is no such key (autolaunch schema --markdown)");
            }
        }
    CHECK(seen > 50);  // the search finds what there is
}

}  // namespace spec_schema_test
