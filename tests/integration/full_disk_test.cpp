// Saving on a disk that is full and on one that is read-only: small file systems of our own. Exits
// with 77 where none can be mounted.
#include "saved_state.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace full_disk_test {

using namespace autolaunch;
using namespace autolaunch::fsdp::testing;
using autolaunch::testing::RecordedEngine;
using autolaunch::testing::SavedState;
namespace fs = std::filesystem;

namespace {

void require_mounts() {
    const bool root = ::geteuid() == 0;
    if (::unshare(root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) == 0 &&
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0)
        return;
    std::printf("skipped: no mounts of our own: %s\n", std::strerror(errno));
    std::exit(77);
}

}  // namespace

TEST_CASE(
    "a full disk fails the save with its reason, keeps the last checkpoint, and works again with "
    "room") {
    require_mounts();
    const TemporaryDirectory temporary;
    REQUIRE(::mount("tmpfs", temporary.path().c_str(), "tmpfs", 0, "size=32m") == 0);
    for (const int ranks : {1, 2}) {
        const fs::path directory = temporary.path() / std::to_string(ranks);
        on_ranks(ranks, [&](Communicator& world) {
            RecordedEngine engine(world, {.directory = directory, .keep = 1});
            SavedState state(
                world, (12 << 20) / 4 / world.size());  // 12 MiB in all: two fit, three do not
            state.set(1);
            engine->save(1, state.state(), {});
            const fs::path ballast = directory / "ballast";
            if (world.rank() == 0) {
                make_posix_storage()->create(ballast)->reserve(12 << 20);
            }
            world.barrier();
            state.set(2);
            expect_error(ErrorCode::system, "No space left on device",
                         [&] { engine->save(2, state.state(), {}); });
            expect_error(ErrorCode::system, "keep fewer checkpoints",
                         [&] { engine->save(2, state.state(), {}); });
            engine->save_async(3, state.state(), {});
            expect_error(ErrorCode::system, "No space left on device", [&] { engine->finish(); });
            expect(engine.newest(state) == 1, "the one before is whole");
            world.barrier();
            if (world.rank() == 0)
                fs::remove(ballast);
            world.barrier();
            state.set(4);
            engine->save_async(4, state.state(), {});
            engine->finish();
            expect(engine.newest(state) == 4, "with room it works again");
        });
        for (const auto& entry : fs::directory_iterator(directory))
            CHECK(entry.path().extension() != ".tmp");
        fs::remove_all(directory);
    }
    CHECK(::umount(temporary.path().c_str()) == 0);
}

TEST_CASE("a read-only disk is told with the path, and loads") {
    const TemporaryDirectory temporary;
    REQUIRE(::mount("tmpfs", temporary.path().c_str(), "tmpfs", 0, "size=32m") == 0);
    const fs::path directory = temporary.path() / "checkpoints";
    const auto one_rank = [&](const std::function<void(RecordedEngine&, SavedState&)>& body) {
        on_ranks(1, [&](Communicator& world) {
            RecordedEngine engine(world, {.directory = directory});
            SavedState state(world, 1000);
            body(engine, state);
        });
    };
    one_rank([](RecordedEngine& engine, SavedState& state) {
        state.set(1);
        engine->save(1, state.state(), {});
    });
    REQUIRE(::mount("tmpfs", temporary.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) ==
            0);
    one_rank([](RecordedEngine& engine, SavedState& state) {
        expect(engine.newest(state) == 1, "it loads");
        expect_error(ErrorCode::system, "Read-only file system",
                     [&] { engine->save(2, state.state(), {}); });
        expect_error(ErrorCode::system, "checkpoints/writer.json",
                     [&] { engine->save(2, state.state(), {}); });
    });
    CHECK(::umount(temporary.path().c_str()) == 0);
}

}  // namespace full_disk_test
