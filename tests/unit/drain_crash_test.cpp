// Draining to a directory on a disk that crashes or fails at any operation: the newest checkpoint
// found there afterwards is whole, what was announced stays, and the next drain finishes the work.
// And several places, each filled from the nearest that has a checkpoint whole.
#include "checkpoint/drain/drain_chain.hpp"
#include "crashing_storage.hpp"
#include "drain_samples.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace drain_crash_test {

using namespace autolaunch;
using namespace autolaunch::testing;
using namespace std::chrono_literals;

namespace {

const std::filesystem::path kNear = "/local/checkpoints", kFar = "/shared/checkpoints";

std::shared_ptr<CrashingStorage> near_with(std::vector<std::int64_t> steps) {
    auto storage = std::make_shared<CrashingStorage>();
    for (const std::int64_t step : steps)
        save_sample(storage, kNear, step);
    return storage;
}

DrainSettings options(int keep = 1) {
    DrainSettings options;
    options.directory = kNear;
    options.retention.keep = keep;
    options.first_pause = 10s;  // one attempt a test
    return options;
}

// Until it is idle, or has failed once.
void drain(std::shared_ptr<Storage> near, std::shared_ptr<Storage> far, DrainLog& log,
           int keep = 1) {
    Drain draining(std::move(near), make_directory_tier(std::move(far), kFar), options(keep),
                   log.events());
    while (!draining.wait_idle(Deadline::after(1ms)) && log.notes().empty()) {
    }
}

}  // namespace

TEST_CASE(
    "a crash of the far disk at any operation leaves the old checkpoint or the new one, whole") {
    const auto near = near_with({100, 200});
    const auto old_far = [&] {
        auto storage = std::make_shared<CrashingStorage>();
        DrainLog log;
        drain(near_with({100}), storage, log);
        REQUIRE(log.notes().empty());
        storage->count_from_zero();
        return storage;
    };
    auto counting = old_far();
    DrainLog log;
    drain(near, counting, log);
    REQUIRE(log.drained().size() == 1);
    CHECK(newest_sample(counting, kFar) == 200);
    CHECK(counting->list(kFar) == std::vector<std::string>{"latest", "step-00000200"});
    const std::size_t operations = counting->operations();
    CHECK(operations > 10);

    int old_found = 0, new_found = 0;
    for (std::size_t crash = 0; crash < operations; ++crash) {
        CAPTURE(crash);
        for (unsigned seed = 0; seed < 4; ++seed) {
            CAPTURE(seed);
            const auto storage = old_far();
            storage->crash_at(crash);
            DrainLog crashed;
            drain(near, storage, crashed);
            const auto survives = seed == 0   ? Survives::nothing
                                  : seed == 1 ? Survives::names_only
                                              : Survives::some;
            const auto disk = storage->after_crash(survives, seed);
            const auto found = newest_sample(disk, kFar);
            CHECK((found == 100 || found == 200));
            if (!crashed.drained().empty())
                CHECK(found == 200);
            ++(found == 200 ? new_found : old_found);

            DrainLog next;
            drain(near, disk, next);
            CHECK(next.notes() == "");
            CHECK(newest_sample(disk, kFar) == 200);
            for (const auto& name : disk->list(kFar))
                CHECK_FALSE(name.ends_with(".tmp"));
        }
    }
    CHECK(old_found > 0);
    CHECK(new_found > 0);
}

TEST_CASE(
    "an operation that fails, like on a full disk, is noted, and nothing that was there is lost") {
    const auto near = near_with({100, 200});
    for (std::size_t fail = 0; fail < 25; ++fail) {
        CAPTURE(fail);
        auto storage = std::make_shared<CrashingStorage>();
        DrainLog log, failed, next;
        drain(near_with({100}), storage, log);
        storage->count_from_zero();
        storage->fail_at(fail);
        drain(near, storage, failed);
        const auto found = newest_sample(storage, kFar);
        CHECK((found == 100 || found == 200));
        storage->fail_at(std::nullopt);
        drain(near, storage, next);
        CHECK(newest_sample(storage, kFar) == 200);
    }
}

TEST_CASE("a damaged checkpoint is left alone, and the one before it goes") {
    const auto near = near_with({100, 200});
    for (const std::string& name : near->list(kNear / "step-00000200")) {
        if (name.ends_with(".json"))
            continue;
        std::string content = read_whole(*near, kNear / "step-00000200" / name, 1 << 20);
        content.back() = static_cast<char>(content.back() ^ 1);
        write_whole(*near, kNear / "step-00000200" / name, content);
    }
    auto far = std::make_shared<CrashingStorage>();
    DrainLog log;
    {
        Drain draining(near, make_directory_tier(far, kFar), options(), log.events());
        CHECK(draining.wait_idle(Deadline::after(10s)));
    }
    CHECK_MESSAGE(log.notes().find("step 200 is not drained, it is damaged") != std::string::npos,
                  log.notes());
    CHECK(newest_sample(far, kFar) == 100);
}

TEST_CASE(
    "files of an attempt before count when they are whole, and are copied again when they are "
    "not") {
    const auto near = near_with({100});
    auto far = std::make_shared<CrashingStorage>();
    far->create_directories(kFar / "step-00000100.tmp");
    std::string content, data;
    for (const std::string& name : near->list(kNear / "step-00000100"))
        if (!name.ends_with(".json")) {
            data = name;
            content = read_whole(*near, kNear / "step-00000100" / name, 1 << 20);
        }
    write_whole(*far, kFar / "step-00000100.tmp" / data, content);
    write_whole(*far, kFar / "step-00000100.tmp" / (data + ".part-0011"), "half");
    DrainLog whole;
    drain(near, far, whole);
    REQUIRE(whole.drained().size() == 1);
    CHECK(whole.drained()[0].bytes == 0);
    CHECK(far->list(kFar / "step-00000100").size() == 2);

    auto torn = std::make_shared<CrashingStorage>();
    torn->create_directories(kFar / "step-00000100.tmp");
    write_whole(*torn, kFar / "step-00000100.tmp" / data, std::string(content.size(), 'x'));
    DrainLog again;
    drain(near, torn, again);
    REQUIRE(again.drained().size() == 1);
    CHECK(again.drained()[0].bytes == content.size());
    CHECK(newest_sample(torn, kFar) == 100);
}

TEST_CASE("another checkpoint of the same step stays; one that is damaged there is replaced") {
    auto far = std::make_shared<CrashingStorage>();
    DrainLog first, second, third;
    drain(near_with({100}), far, first);
    const std::string manifest = read_whole(*far, kFar / "step-00000100/manifest.json", 1 << 20);
    const auto near = near_with({100});  // saved at another time
    drain(near, far, second);
    CHECK(second.drained().empty());
    CHECK(read_whole(*far, kFar / "step-00000100/manifest.json", 1 << 20) == manifest);
    write_whole(*far, kFar / "step-00000100/manifest.json", manifest.substr(0, 100));
    drain(near, far, third);
    CHECK(third.drained().size() == 1);
    CHECK(newest_sample(far, kFar) == 100);
}

TEST_CASE("a drain wakes for what is new, and goes when it is told") {
    const auto near = near_with({100});
    auto far = std::make_shared<CrashingStorage>();
    DrainLog log;
    Drain draining(near, make_directory_tier(far, kFar), options(2), log.events());
    CHECK(draining.wait_idle(Deadline::after(10s)));
    CHECK(log.drained().size() == 1);
    CHECK_FALSE(draining.progress().step.has_value());
    save_sample(near, kNear, 200);
    draining.wake();
    CHECK(draining.wait_idle(Deadline::after(10s)));
    REQUIRE(log.drained().size() == 2);
    CHECK(log.drained()[1].path == kFar / "step-00000200");
    CHECK(log.drained()[1].bytes > 3000 * 4);
    CHECK(far->list(kFar) == std::vector<std::string>{"latest", "step-00000100", "step-00000200"});
}

TEST_CASE("the best by their metric stay there, also where a drain begins anew") {
    auto near = std::make_shared<CrashingStorage>(), far = std::make_shared<CrashingStorage>();
    DrainSettings best = options(1);
    best.retention.keep_best = 1;
    const double metrics[] = {0.9, 0.2, 0.5, 0.7};
    for (int i = 0; i < 4; ++i) {
        save_sample(near, kNear, 100 * (i + 1), 3000, 9, metrics[i]);
        DrainLog log;
        Drain draining(near, make_directory_tier(far, kFar), best, log.events());
        CHECK(draining.wait_idle(Deadline::after(10s)));
        CHECK(log.notes() == "");
    }
    CHECK(far->list(kFar) == std::vector<std::string>{"latest", "step-00000200", "step-00000400"});
}

namespace {

const std::filesystem::path kFarther = "/archive/checkpoints";

void damage(Storage& storage, const std::filesystem::path& checkpoint) {
    for (const std::string& name : storage.list(checkpoint)) {
        if (name.ends_with(".json"))
            continue;
        std::string content = read_whole(storage, checkpoint / name, 1 << 20);
        content.back() = static_cast<char>(content.back() ^ 1);
        write_whole(storage, checkpoint / name, content);
    }
}

/// A directory, and two places that are filled from it.
struct Chain {
    std::shared_ptr<CrashingStorage> near = std::make_shared<CrashingStorage>(),
                                     far = std::make_shared<CrashingStorage>(),
                                     farther = std::make_shared<CrashingStorage>();
    DrainLog log, farther_log;
    DrainSettings first = options(2), second = options(2);

    std::vector<DrainLink> links() {
        std::vector<DrainLink> made(2);
        made[0] = {near, make_directory_tier(far, kFar), first, log.events()};
        made[1] = {near, make_directory_tier(farther, kFarther), second, farther_log.events()};
        made[1].settings.others = {{far, kFar}};
        return made;
    }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("each of several places has its own pace, and the newest at the end") {
    Chain places;
    places.second.retention = {.keep = 3, .every_steps = 250};
    DrainChain chain(places.links());
    for (const std::int64_t step : {100, 200, 300, 400, 500}) {
        save_sample(places.near, kNear, step);
        chain.wake(step);
        CHECK(chain.wait_idle(Deadline::after(10s)));
    }
    CHECK(places.far->list(kFar) == Names{"latest", "step-00000400", "step-00000500"});
    CHECK(places.farther->list(kFarther) == Names{"latest", "step-00000100", "step-00000400"});
    CHECK(chain.finish(Deadline::after(10s)).empty());
    CHECK(places.farther->list(kFarther) ==
          Names{"latest", "step-00000100", "step-00000400", "step-00000500"});
    CHECK(places.log.notes() + places.farther_log.notes() == "");
}

TEST_CASE("what is damaged or deleted here comes from the place before") {
    Chain places;
    save_sample(places.near, kNear, 100);
    {
        DrainChain chain(places.links());
        CHECK(chain.wait_idle(Deadline::after(10s)));
    }
    places.farther->remove_all(kFarther);
    damage(*places.near, kNear / "step-00000100");
    {
        DrainChain chain(places.links());
        CHECK(chain.finish(Deadline::after(10s)).empty());
    }
    CHECK(newest_sample(places.farther, kFarther) == 100);
    CHECK_MESSAGE(
        places.farther_log.notes().find("step 100 is not drained from /local/checkpoints, "
                                        "but from the next place: ") != std::string::npos,
        places.farther_log.notes());
    places.farther->remove_all(kFarther);
    places.near->remove_all(kNear / "step-00000100");
    DrainChain chain(places.links());
    CHECK(chain.finish(Deadline::after(10s)).empty());
    CHECK(newest_sample(places.farther, kFarther) == 100);
}

TEST_CASE("a place that fails holds up no other one, and is named at the end with what it lacks") {
    Chain places;
    save_sample(places.near, kNear, 100);
    places.far->fail_at(3);
    DrainChain chain(places.links());
    const auto left = chain.finish(Deadline::after(1s));
    REQUIRE(left.size() == 1);
    CHECK(left[0].place == kFar);
    CHECK(left[0].rest.steps == std::vector<std::int64_t>{100});
    const std::string words = in_words(left[0]);
    CHECK_MESSAGE(words.starts_with("/shared/checkpoints lacks step 100: "), words);
    CHECK(newest_sample(places.farther, kFarther) == 100);
}

TEST_CASE("a place takes no more bytes a second than it may, and ends at once when it is told") {
    Chain places;
    save_sample(places.near, kNear, 100, 100'000);  // 400 kB, in one piece
    places.first.bytes_per_second = 1'000'000;
    places.second.bytes_per_second = 10;
    const auto start = std::chrono::steady_clock::now();
    {
        DrainChain chain(places.links());
        while (places.log.drained().empty() && places.log.notes().empty() &&
               std::chrono::steady_clock::now() - start < 10s)
            std::this_thread::sleep_for(5ms);
        CHECK(std::chrono::steady_clock::now() - start >= 290ms);
        CHECK(chain.pinned() == std::set<std::int64_t>{100});
        const auto left = chain.finish(Deadline::after(10ms));
        REQUIRE(left.size() == 1);
        CHECK(in_words(left[0]) ==
              "/archive/checkpoints lacks step 100 (0.000 of 0.000 GB are copied)");
    }
    CHECK(std::chrono::steady_clock::now() - start < 3s);
    CHECK(places.log.drained().size() == 1);
    CHECK(places.farther_log.drained().empty());
}

}  // namespace drain_crash_test
