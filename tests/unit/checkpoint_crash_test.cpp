// The commit protocol under crashes: whatever operation is the last, what is found afterwards is
// whole.
#include "checkpoint/checkpoint_engine.hpp"
#include "comm/self/self_backend.hpp"
#include "crashing_storage.hpp"
#include "sanitized.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace checkpoint_crash_test {

using namespace autolaunch;
using testing::CrashingStorage;
using testing::Survives;

namespace {

const std::filesystem::path kDirectory = "/runs/a/checkpoints";

constexpr float kFixed = 0.5f;

// A state whose values say which save they are of; but for a frozen tensor, which is the same in
// all.
struct Sample {
    explicit Sample(float value)
        : weights(3000, value),
          counter{static_cast<std::int64_t>(value)},
          fixed(2000, value < 0 ? value : kFixed) {}
    fsdp::State state() {
        return {
            {"w", f32, {3, 1000}, {{0, 3000, reinterpret_cast<std::byte*>(weights.data())}}, false},
            {"n", i64, {}, {{0, 1, reinterpret_cast<std::byte*>(&counter)}}, false},
            {"f",
             f32,
             {2000},
             {{0, 2000, reinterpret_cast<std::byte*>(fixed.data())}},
             false,
             0,
             true}};
    }
    bool is(float value) const {
        for (const float each : fixed)
            if (each != kFixed)
                return false;
        for (const float weight : weights)
            if (weight != value)
                return false;
        return counter == static_cast<std::int64_t>(value);
    }
    std::vector<float> weights;
    std::int64_t counter;
    std::vector<float> fixed;
};

CheckpointEngine engine_on(std::shared_ptr<Storage> storage, int keep = 2) {
    return CheckpointEngine(std::move(storage), Communicator(std::make_shared<SelfBackend>()),
                            {kDirectory, keep}, {});
}

enum class How { sync, async };

void save(std::shared_ptr<CrashingStorage> storage, std::int64_t step, float value, int keep = 2,
          How how = How::sync) {
    Sample sample(value);
    auto engine = engine_on(std::move(storage), keep);
    const SaveOptions options{"{\"v\":" + std::to_string(value) + "}"};
    if (how == How::sync) {
        engine.save(step, sample.state(), options);
        return;
    }
    engine.save_async(step, sample.state(), options);
    engine.wait_copied();
    std::fill(sample.weights.begin(), sample.weights.end(), -7.0f);  // the trainer's next step
    engine.finish();
}

// Loads the newest checkpoint, which must be whole; returns the value it was saved with, or nothing
// without one.
std::optional<float> newest_value(std::shared_ptr<CrashingStorage> storage) {
    auto engine = engine_on(std::move(storage));
    const auto found = engine.latest(INT64_MAX);
    if (!found)
        return std::nullopt;
    Sample sample(-1);
    engine.load(*found, sample.state());
    const auto value = static_cast<float>(sample.counter);
    CHECK(sample.is(value));
    CHECK(found->extra == "{\"v\":" + std::to_string(value) + "}");
    return value;
}

struct Scenario {
    const char* name;
    std::vector<std::pair<std::int64_t, float>> before;  // saves that succeed: step and value
    std::pair<std::int64_t, float> last;                 // the one that crashes
    int keep;
};

std::shared_ptr<CrashingStorage> prepared(const Scenario& scenario) {
    auto storage = std::make_shared<CrashingStorage>();
    for (const auto& [step, value] : scenario.before)
        save(storage, step, value, scenario.keep);
    storage->count_from_zero();
    return storage;
}

const std::vector<Scenario> kScenarios = {
    {"the first save", {}, {100, 1}, 2},
    {"a later save", {{100, 1}}, {200, 2}, 2},
    {"a save that deletes older ones", {{100, 1}, {200, 2}, {300, 3}}, {400, 4}, 1},
    {"the same step saved again", {{100, 1}, {200, 2}}, {200, 3}, 2},
};

std::vector<std::pair<Scenario, How>> every_way() {
    std::vector<std::pair<Scenario, How>> ways;
    for (const Scenario& scenario : kScenarios)
        for (const How how : {How::sync, How::async})
            ways.emplace_back(scenario, how);
    return ways;
}

}  // namespace

TEST_CASE("a crash at any operation leaves the old checkpoint or the new one, whole") {
    for (const auto& [scenario, how] : every_way()) {
        CAPTURE(scenario.name);
        auto counting = prepared(scenario);
        save(counting, scenario.last.first, scenario.last.second, scenario.keep, how);
        const std::size_t operations = counting->operations();
        CHECK(operations > 12);
        CHECK(counting->links() == scenario.before.size());  // each but the first save
        const std::optional<float> old =
            scenario.before.empty() ? std::nullopt : std::optional(scenario.before.back().second);
        int old_found = 0, new_found = 0;
        for (std::size_t later = 0; later < operations; later += kSanitized ? 3 : 1) {
            const std::size_t crash = operations - 1 - later;
            CAPTURE(crash);
            for (unsigned seed = 0; seed < (kSanitized ? 3 : 6); ++seed) {
                const auto storage = prepared(scenario);
                storage->crash_at(crash);
                bool reported = true;
                try {
                    save(storage, scenario.last.first, scenario.last.second, scenario.keep, how);
                } catch (const Error&) {
                    reported = false;
                }
                const auto survives = seed == 0   ? Survives::nothing
                                      : seed == 1 ? Survives::names_only
                                                  : Survives::some;
                const auto disk = storage->after_crash(survives, seed);
                const auto value = newest_value(disk);
                const bool is_new = value == scenario.last.second;
                CHECK((is_new || value == old));
                if (reported)
                    CHECK(is_new);  // save() returned: nothing may undo it
                ++(is_new ? new_found : old_found);
                // And life goes on: the next save clears what the crash left and is found.
                save(disk, 900, 9, scenario.keep);
                CHECK(newest_value(disk) == 9.0f);
                CHECK(disk->links() == (value ? 1 : 0));
                for (const auto& name : disk->list(kDirectory))
                    CHECK_FALSE(name.ends_with(".tmp"));
            }
        }
        CHECK(old_found > 0);
        CHECK(new_found > 0);
    }
}

TEST_CASE("any single operation may fail: save throws or succeeds, and what is found fits") {
    for (const auto& [scenario, how] : every_way()) {
        CAPTURE(scenario.name);
        auto counting = prepared(scenario);
        save(counting, scenario.last.first, scenario.last.second, scenario.keep, how);
        const std::size_t operations = counting->operations();
        int failed_saves = 0;
        for (std::size_t failing = 0; failing < operations; failing += kStride) {
            CAPTURE(failing);
            const auto storage = prepared(scenario);
            storage->fail_at(failing);
            bool thrown = false;
            try {
                save(storage, scenario.last.first, scenario.last.second, scenario.keep, how);
            } catch (const SystemError& error) {
                thrown = true;
                CHECK(error.error_number() == ENOSPC);
            }
            storage->fail_at(std::nullopt);
            failed_saves += thrown;
            const auto value = newest_value(storage);
            const bool is_new = value == scenario.last.second;
            const bool is_old =
                scenario.before.empty() ? !value : value == scenario.before.back().second;
            CHECK((is_new || (thrown && is_old)));
            save(storage, 900, 9, scenario.keep);
            CHECK(newest_value(storage) == 9.0f);
        }
        CHECK(failed_saves > 8 / static_cast<int>(kStride));
    }
}

TEST_CASE("a save that is to be linked from a parent that is lost in the meantime is written") {
    auto storage = std::make_shared<CrashingStorage>();
    auto engine = engine_on(storage);
    Sample sample(1);
    engine.save(1, sample.state(), {"{\"v\":" + std::to_string(1.0f) + "}"});
    storage->remove_all(kDirectory / "step-00000001");
    sample = Sample(2);
    engine.save(2, sample.state(), {"{\"v\":" + std::to_string(2.0f) + "}"});
    CHECK(storage->links() == 0);
    CHECK(newest_value(storage) == 2.0f);
    sample = Sample(3);
    engine.save(3, sample.state(), {"{\"v\":" + std::to_string(3.0f) + "}"});
    CHECK(storage->links() == 1);
    CHECK(newest_value(storage) == 3.0f);
}

TEST_CASE("the storage used here does lose what is not synced") {
    auto storage = std::make_shared<CrashingStorage>();
    storage->create_directories("/d");
    write_whole(*storage, "/d/unsynced_name", "x");
    CHECK(storage->after_crash(Survives::nothing, 0)->list("/d").empty());
    storage->create("/d/unsynced_bytes")->write_at(0, std::as_bytes(std::span("abc", 3)));
    storage->sync_directory("/d");
    const auto disk = storage->after_crash(Survives::names_only, 0);
    CHECK(disk->list("/d") == std::vector<std::string>{"unsynced_bytes", "unsynced_name"});
    CHECK(read_whole(*disk, "/d/unsynced_bytes", 100).empty());
    CHECK(read_whole(*disk, "/d/unsynced_name", 100) == "x");
}

}  // namespace checkpoint_crash_test
