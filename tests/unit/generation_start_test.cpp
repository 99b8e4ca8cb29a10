// Which checkpoints came too late to count.
#include "checkpoint/commit/generation_start.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "crashing_storage.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

namespace generation_start_test {

using namespace autolaunch;
using testing::CrashingStorage;

namespace {

const std::filesystem::path kDirectory = "/d";

GenerationStart start(std::int64_t generation, std::optional<std::int64_t> step,
                      const std::string& run = "job.1") {
    return {{run, generation}, step};
}
bool is_late(const std::vector<GenerationStart>& starts, std::int64_t generation, std::int64_t step,
             const std::string& run = "job.1") {
    return fenced_by(starts, {{run, generation}, step}) != nullptr;
}
std::vector<GenerationStart> in(Storage& storage) {
    return read_starts(storage, kDirectory, storage.list(kDirectory));
}

}  // namespace

TEST_CASE("what a later generation did not find counts for nobody") {
    const std::vector<GenerationStart> starts = {start(1, 10), start(2, 30)};
    CHECK_FALSE(is_late(starts, 0, 10));
    CHECK(is_late(starts, 0, 20));  // also below what a later generation had reached by then
    CHECK(is_late(starts, 0, 40));
    CHECK_FALSE(is_late(starts, 1, 20));
    CHECK_FALSE(is_late(starts, 1, 30));
    CHECK(is_late(starts, 1, 40));
    CHECK_FALSE(is_late(starts, 2, 40));
    CHECK_FALSE(is_late(starts, 3, 40));
    CHECK(is_late({start(1, std::nullopt)}, 0, 0));
    CHECK_FALSE(is_late({}, 0, 10));
}

TEST_CASE("another run's checkpoints, and those of nobody's, are not judged") {
    const std::vector<GenerationStart> starts = {start(1, 10), start(1, std::nullopt, "")};
    CHECK_FALSE(is_late(starts, 0, 20, "job.2"));
    CHECK_FALSE(is_late(starts, 0, 20, ""));
}

TEST_CASE("of the starts of a run those stay that fence something which later ones do not") {
    const auto kept =
        needed({start(1, 10), start(2, 20), start(3, 20), start(4, 30), start(2, 50, "job.2")});
    std::vector<std::pair<std::string, std::int64_t>> names;
    for (const GenerationStart& one : kept)
        names.emplace_back(one.by.run_id, one.by.generation);
    CHECK(names == std::vector<std::pair<std::string, std::int64_t>>{
                       {"job.1", 4}, {"job.1", 3}, {"job.1", 1}, {"job.2", 2}});
}

TEST_CASE("starts are written once, read back, and removed when they say nothing any more") {
    CrashingStorage storage;
    write_start(storage, kDirectory, start(1, 30));
    CHECK(in(storage).empty());  // no writer has begun anything here
    storage.create_directories(kDirectory);
    write_whole(storage, kDirectory / "writer.json", "somebody's");
    write_start(storage, kDirectory, start(1, 30));
    write_start(storage, kDirectory, start(1, 50));
    REQUIRE(in(storage).size() == 1);
    CHECK(in(storage)[0].step == 30);
    write_start(storage, kDirectory, start(1, 7, "job.2"));
    write_start(storage, kDirectory, start(2, std::nullopt));
    CHECK(in(storage).size() == 2);
    CHECK(is_late(in(storage), 1, 0));
    CHECK(is_late(in(storage), 0, 8, "job.2"));
    remove_starts_but(storage, kDirectory, "job.1");
    CHECK(in(storage).size() == 1);
    CHECK(in(storage)[0].by.run_id == "job.1");
}

TEST_CASE("a start that cannot be understood is an error, not no start") {
    CrashingStorage storage;
    storage.create_directories(kDirectory);
    for (const std::string text :
         {"", "{}", R"({"format":"autolaunch-start","run_id":1,"generation":1})",
          R"({"format":"autolaunch-start","run_id":"a","generation":-1})"}) {
        CAPTURE(text);
        write_whole(storage, kDirectory / "start-0-1.json", text);
        CHECK_THROWS_WITH_AS(in(storage), doctest::Contains("start-0-1.json"), Error);
    }
}

}  // namespace generation_start_test
