// Where a checkpoint comes from: what is written of it, and what is read of what others have
// written.
#include "checkpoint/commit/lineage.hpp"
#include "manifest_sample.hpp"
#include "need_crypto.hpp"

#include <autolaunch/checkpoint/manifest.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace lineage_test {

using namespace autolaunch;
using nlohmann::json;

TEST_CASE("what a process knows of what it saves") {
    ::setenv("TORCHELASTIC_RUN_ID", "4711", 1);  // only a job's program is read
    const json lineage = json::parse(lineage_text("save", std::nullopt));
    ::unsetenv("TORCHELASTIC_RUN_ID");
    CHECK(lineage.at("job") == "4711");
    CHECK(lineage.at("made_by") == "save");
    CHECK(!lineage.at("user").get<std::string>().empty());
    CHECK(!lineage.at("host").get<std::string>().empty());
    CHECK(lineage.at("program").get<std::string>().starts_with("/"));
    CHECK(!lineage.contains("parent"));
    CHECK(!parent_of_lineage(lineage.dump()));
    if (autolaunch::testing::have_crypto())
        CHECK(lineage.at("program_sha256").get<std::string>().size() == 64);
}

TEST_CASE("a parent is found again, and its own lineage up to three times") {
    LineageParent parent{
        .step = 100, .manifest_sha256 = "ab", .path = "/a/step-00000100", .lineage = {}};
    std::string text;
    for (int i = 0; i < 10; ++i) {
        text = lineage_text("reshard", parent, "cd");
        parent.lineage = text;
    }
    const auto found = parent_of_lineage(text);
    REQUIRE(found);
    CHECK(found->step == 100);
    CHECK(found->manifest_sha256 == "ab");
    CHECK(found->path == "/a/step-00000100");
    CHECK(signer_of_lineage(text) == "cd");
    int depth = 0;
    for (auto next = found; next && !next->lineage.empty(); next = parent_of_lineage(next->lineage))
        ++depth;
    CHECK(depth <= 4);
    CHECK(depth >= 3);
}

TEST_CASE("what others have written may be anything") {
    for (const char* text : {"", "[]", "1", "{", "{\"parent\":1}", "{\"parent\":{}}",
                             "{\"parent\":{\"step\":\"1\"}}", "{\"parent\":{\"step\":1.5}}"})
        CHECK(!parent_of_lineage(text));
    CHECK(parent_of_lineage("{\"parent\":{\"step\":1,\"manifest_sha256\":2}}")
              ->manifest_sha256.empty());
    CHECK(signer_of_lineage("{\"signed_by\":[]}").empty());
    CHECK(!is_lineage(std::string(100, '[')));
    CHECK(!is_lineage("{\"a\":\"" + std::string(70'000, 'x') + "\"}"));
}

TEST_CASE("a manifest carries it, and one without is read") {
    Manifest manifest = autolaunch::testing::example();
    CHECK(Manifest::parse(manifest.to_text()).lineage.empty());
    manifest.lineage = lineage_text(
        "save", LineageParent{.step = 7, .manifest_sha256 = "ab", .path = {}, .lineage = {}});
    CHECK(Manifest::parse(manifest.to_text()) == manifest);
    manifest.lineage = "[]";
    CHECK_THROWS(Manifest::parse(manifest.to_text()));
}

}  // namespace lineage_test
