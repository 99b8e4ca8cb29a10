// A process that is killed at every system call of a save in turn, on a real file system: what was
// announced is found, whole. Exits with 77 where processes cannot be traced.
#include "checkpoint/commit/catalog.hpp"
#include "kill_at_call.hpp"
#include "saved_state.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace killed_save_test {

using namespace autolaunch;
using autolaunch::testing::fatal_calls;
using autolaunch::testing::RecordedEngine;
using autolaunch::testing::run_until;
using autolaunch::testing::SavedState;
using fsdp::testing::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kElements = 3000;

struct Way {
    std::string name;
    bool async;
    LargeFileOptions files;
};

// In the child: stops until the parent traces it, saves, announces it and ends.
[[noreturn]] void save_and_announce(const fs::path& directory, std::int64_t step, const Way& way,
                                    int announcement) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0)
        ::_exit(77);
    Communicator world(std::make_shared<SelfBackend>());
    SavedState state(world, kElements);
    state.add_frozen(kElements);
    state.set(step);
    ::raise(SIGSTOP);
    {
        RecordedEngine engine(world, {.directory = directory, .keep = 1}, {},
                              make_posix_storage(way.files));
        if (way.async) {
            engine->save_async(step, state.state(), {});
            engine->wait_copied();
            state.set(-1);
            engine->finish();
        } else {
            engine->save(step, state.state(), {});
        }
    }
    const bool told = ::write(announcement, "s", 1) == 1;
    ::_exit(told ? 0 : 1);
}

struct Outcome {
    int calls = 0;
    bool announced = false;
};

Outcome save_killed_at(int fatal, const fs::path& directory, std::int64_t step, const Way& way) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0)
        save_and_announce(directory, step, way, writer.get());
    writer.reset();
    Outcome outcome;
    outcome.calls = run_until(child, fatal);
    if (outcome.calls == -77) {
        std::printf("skipped: processes cannot be traced here\n");
        std::exit(77);
    }
    char byte = 0;
    outcome.announced = ::read(reader.get(), &byte, 1) == 1;
    return outcome;
}

/// The inode of the file of what does not change.
ino_t frozen_file(const fs::path& directory, std::int64_t step) {
    struct stat status = {};
    const fs::path path =
        directory / checkpoint_name(step) / "shard-00001-model-00002-of-00002.safetensors";
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_ino;
}

}  // namespace

TEST_CASE(
    "killed at any system call of a save, a process leaves the old checkpoint or the new one, "
    "whole") {
    const std::vector<Way> ways = {{"in place, io_uring", false, {}},
                                   {"in place, threads", false, {.direct = true, .uring = false}},
                                   {"beside the training", true, {}}};
    for (const Way& way : ways) {
        CAPTURE(way.name);
        const TemporaryDirectory temporary;
        Communicator world(std::make_shared<SelfBackend>());
        SavedState state(world, kElements);
        state.add_frozen(kElements);
        // A save that is not the first, nobody kills it: how many calls there are.
        CHECK(save_killed_at(0, temporary.path(), 1, way).announced);
        const ino_t frozen = frozen_file(temporary.path(), 1);
        const Outcome whole = save_killed_at(0, temporary.path(), 2, way);
        CHECK(frozen_file(temporary.path(), 2) == frozen);  // it was linked
        CHECK(whole.announced);
        REQUIRE(whole.calls > 100);
        std::int64_t newest = 2;
        int old_found = 0, new_found = 0;
        for (const int fatal : fatal_calls(whole.calls, 3)) {
            CAPTURE(fatal);
            const std::int64_t step = newest + 1;
            const bool announced = save_killed_at(fatal, temporary.path(), step, way).announced;
            RecordedEngine engine(world, {.directory = temporary.path(), .keep = 1});
            const auto found = engine.newest(state);
            REQUIRE(found);
            CHECK((*found == newest || *found == step));
            if (announced)
                CHECK(*found == step);
            ++(*found == step ? new_found : old_found);
            newest = *found;
        }
        CHECK(old_found > whole.calls / 6);
        CHECK(new_found > 0);
        CHECK(frozen_file(temporary.path(), newest) ==
              frozen);  // and so it was by every save that came so far
        MESSAGE(way.name, ": ", old_found + new_found, " stops of ", whole.calls, ", ", old_found,
                " left the old one, ", new_found, " the new one");
        // And life goes on: the next save clears what is left.
        CHECK(save_killed_at(0, temporary.path(), newest + 1, way).announced);
        for (const auto& entry : fs::directory_iterator(temporary.path()))
            CHECK(entry.path().extension() != ".tmp");
    }
}

}  // namespace killed_save_test
