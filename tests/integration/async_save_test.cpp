// Saving while the trainer goes on, over real processes.
#include "forwarding_storage.hpp"
#include "saved_state.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

namespace async_save_test {

using namespace autolaunch;
using namespace autolaunch::fsdp::testing;
using autolaunch::testing::RecordedEngine;
using autolaunch::testing::SavedState;
namespace fs = std::filesystem;

namespace {

// Passes everything on, but large files cannot be made, or are made slowly.
class TroubledStorage final : public autolaunch::testing::ForwardingStorage {
public:
    explicit TroubledStorage(bool full, std::chrono::milliseconds delay = {})
        : full_(full), delay_(delay) {}

    std::unique_ptr<StorageFile> create_large(const fs::path& path) override {
        std::this_thread::sleep_for(delay_);
        if (full_)
            throw SystemError(ENOSPC, "reserve 1000 bytes for " + path.string());
        return ForwardingStorage::create_large(path);
    }

private:
    bool full_;
    std::chrono::milliseconds delay_;
};

}  // namespace

TEST_CASE(
    "what is saved is the state of save_async(), and the trainer's collectives go on meanwhile") {
    for (const std::uint64_t staging_bytes : {std::uint64_t{0}, std::uint64_t{16} << 20}) {
        CAPTURE(staging_bytes);
        for (const int ranks : {1, 2, 3}) {
            CAPTURE(ranks);
            const TemporaryDirectory temporary;
            on_ranks(ranks, [&](Communicator& world) {
                CheckpointOptions options{.directory = temporary.path()};
                options.staging_bytes = staging_bytes;
                RecordedEngine engine(world, options);
                SavedState state(world, 6 << 20);  // 24 MB a rank
                if (staging_bytes == 0)
                    engine->prepare_async(state.state());
                for (std::int64_t step = 1; step <= 3; ++step) {
                    // The gradients' time: the trainer talks while the copier and the writer work.
                    for (int i = 0; i < 50; ++i)
                        expect(world.all_reduce_value<std::int64_t>(1) == world.size(),
                               "collectives are not mixed up");
                    engine->wait_copied();
                    state.set(step);
                    engine->save_async(step, state.state(), {});
                    const auto progress = engine->progress();
                    expect(progress && progress->step == step, "the save is under way");
                    expect(progress->total_bytes > (24u << 20),
                           "it knows how much there is to write");
                }
                engine->wait_copied();
                expect(engine->progress()->copied, "the state may change");
                state.set(99);
                const auto last = engine->finish();
                expect(last && last->step == 3, "the last one is published");
                expect(!engine->finish() && !engine->progress(), "and over");
                expect(engine.newest(state) == 3, "it is whole");
                if (world.rank() != 0)
                    return;
                expect(engine.published.size() == 3, "each was reported");
                for (const auto& [step, stall] : engine.published)
                    expect(stall >= 0 && stall < 60, "with its stall");
            });
            CHECK_FALSE(fs::exists(temporary.path() / "step-00000001"));
            CHECK(fs::exists(temporary.path() / "step-00000002"));
        }
    }
}

TEST_CASE(
    "a save that fails on one rank is told at once, thrown at the next call on every rank, and "
    "harms nothing") {
    const TemporaryDirectory temporary;
    on_ranks(2, [&](Communicator& world) {
        SavedState state(world, 5000);
        {
            RecordedEngine engine(world, {.directory = temporary.path()});
            state.set(1);
            engine->save_async(1, state.state(), {});
            engine->finish();
        }
        RecordedEngine engine(world, {.directory = temporary.path()}, {},
                              std::make_shared<TroubledStorage>(world.rank() == 1));
        state.set(2);
        engine->save_async(2, state.state(), {});
        engine->wait_copied();  // does not throw: ranks learn of the failure at different moments
        state.set(3);
        expect_error(ErrorCode::system, "No space left",
                     [&] { engine->save_async(3, state.state(), {}); });
        if (world.rank() == 0) {
            expect(engine.published.empty(), "nothing was published");
            expect(engine.notes.size() == 1, "one event");
            expect(engine.notes[0].find("saving step 2 failed: rank 1: cannot reserve") !=
                       std::string::npos,
                   engine.notes[0]);
        }
        engine->save_async(3, state.state(), {});
        expect_error(ErrorCode::system, "No space left",
                     [&] { engine->save(4, state.state(), {}); });
        engine->save_async(5, state.state(), {});
        expect_error(ErrorCode::system, "No space left", [&] { engine->finish(); });
        expect(engine.newest(state) == 1, "the one before is there");
    });
}

TEST_CASE("a save before the last one is over waits for it and says so") {
    const TemporaryDirectory temporary;
    on_ranks(1, [&](Communicator& world) {
        SavedState state(world, 5000);
        RecordedEngine engine(
            world, {.directory = temporary.path()}, {},
            std::make_shared<TroubledStorage>(false, std::chrono::milliseconds(1000)));
        state.set(1);
        engine->save_async(1, state.state(), {});
        engine->wait_copied();
        expect(!engine->progress()->over, "it goes on");
        state.set(2);
        engine->save_async(2, state.state(), {});
        const auto cost = engine->take_cost();
        expect(cost.has_value(), "the first is published");
        expect(cost->durable_seconds - cost->stall_seconds > 0.3,
               "it did not stall for the storage");
        engine->finish();
        expect(engine.published.size() == 2, "and the second");
        std::string told;
        for (const std::string& note : engine.notes)
            told += note + '\n';
        expect(told.find("step 2 waited ") != std::string::npos, "it is told: " + told);
        expect(engine.newest(state) == 2, "both were saved");
    });
}

TEST_CASE("a save that takes long says how far it is") {
    const TemporaryDirectory temporary;
    on_ranks(1, [&](Communicator& world) {
        SavedState state(world, 10 << 20);  // 40 MiB: 6 writes
        RecordedEngine engine(world, {.directory = temporary.path()}, {}, make_posix_storage(),
                              std::chrono::milliseconds(0));
        engine->save_async(1, state.state(), {});
        engine->finish();
        expect(engine.notes.size() >= 3 && engine.notes.size() <= 5,
               std::to_string(engine.notes.size()) + " notes");
        expect(engine.notes[0].find("checkpoint: step 1: rank 0 has written 0.0 of 0.0 GB, ") == 0,
               engine.notes[0]);
    });
}

TEST_CASE("an engine that goes away finishes its save") {
    const TemporaryDirectory temporary;
    on_ranks(2, [&](Communicator& world) {
        SavedState state(world, 5000);
        {
            RecordedEngine engine(world, {.directory = temporary.path()});
            state.set(7);
            engine->save_async(7, state.state(), {});
        }
        RecordedEngine engine(world, {.directory = temporary.path()});
        expect(engine.newest(state) == 7, "it was published");
    });
}

TEST_CASE("a rank that fails while it saves does not keep the others") {
    for (const bool killed : {false, true}) {
        const TemporaryDirectory temporary;
        const auto start = std::chrono::steady_clock::now();
        const auto statuses = statuses_of_ranks(2, [&](Communicator& world) {
            SavedState state(world, 5000);
            RecordedEngine engine(
                world, {.directory = temporary.path()}, {},
                std::make_shared<TroubledStorage>(false, std::chrono::milliseconds(300)));
            engine->save_async(1, state.state(), {});
            if (world.rank() == 1 && killed)
                ::raise(SIGKILL);
            if (world.rank() == 1)
                throw std::runtime_error("out of memory, say");
            engine->finish();
        });
        CHECK((WIFEXITED(statuses[0]) && WEXITSTATUS(statuses[0]) == 1));
        CHECK(WIFSIGNALED(statuses[1]) == killed);
        CHECK(statuses[1] != 0);
        CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
        for (const auto& entry : fs::directory_iterator(temporary.path()))
            CHECK(entry.path().filename() != "step-00000001");
    }
}

TEST_CASE("of two jobs that write side by side, the later one saves and the other is told") {
    const TemporaryDirectory temporary;
    on_ranks(1, [&](Communicator& world) {
        SavedState state(world, 5000);
        RecordedEngine first(world, {.directory = temporary.path()}, {"job.1", 0});
        state.set(1);
        first->save(1, state.state(), {});
        // The first is in the middle of a save when the second comes.
        RecordedEngine slow(
            world, {.directory = temporary.path()}, {"job.1", 1},
            std::make_shared<TroubledStorage>(false, std::chrono::milliseconds(1500)));
        state.set(2);
        slow->save_async(2, state.state(), {});
        slow->wait_copied();
        const auto has_begun = [&] {
            for (const auto& entry : fs::directory_iterator(temporary.path()))
                if (entry.path().extension() == ".tmp")
                    return true;
            return false;
        };
        while (!has_begun())
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        RecordedEngine second(world, {.directory = temporary.path()}, {"job.2", 0});
        SavedState other(world, 5000);
        other.set(3);
        second->save(3, other.state(), {});
        // Its directory was cleared away: what it is told is why.
        expect_error(ErrorCode::aborted, "is written by run job.2", [&] { slow->finish(); });
        expect_error(ErrorCode::aborted, "is written by run job.2, generation 0 now",
                     [&] { slow->save(4, state.state(), {}); });
        expect_error(ErrorCode::aborted, "give each a checkpoint directory of its own",
                     [&] { first->save(5, state.state(), {}); });
        expect(second.newest(state) == 3, "the second's is the newest");
        other.set(6);
        second->save(6, other.state(), {});
        expect(second.newest(state) == 6, "and it goes on");
    });
    for (const auto& entry : fs::directory_iterator(temporary.path()))
        CHECK(entry.path().extension() != ".tmp");
}

TEST_CASE("of jobs that start at the same moment, one saves on and the others are told") {
    for (int round = 0; round < 5; ++round) {
        const TemporaryDirectory temporary;
        constexpr int kJobs = 3, kTold = 10;
        std::vector<pid_t> jobs;
        for (int job = 0; job < kJobs; ++job) {
            jobs.push_back(::fork());
            REQUIRE(jobs.back() >= 0);
            if (jobs.back() > 0)
                continue;
            Communicator world(std::make_shared<SelfBackend>());
            SavedState state(world, 5000);
            RecordedEngine engine(world, {.directory = temporary.path()},
                                  {"job." + std::to_string(job), 0});
            const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(800);
            try {
                for (std::int64_t step = 1; std::chrono::steady_clock::now() < end; ++step) {
                    state.set(step);
                    engine->save_async(step, state.state(), {});
                    engine->wait_copied();
                    engine->finish();
                }
            } catch (const Error& error) {
                ::_exit(error.code() == ErrorCode::aborted ? kTold : 1);
            }
            ::_exit(0);
        }
        int saved_on = 0, told = 0;
        for (const pid_t job : jobs) {
            int status = 0;
            REQUIRE(::waitpid(job, &status, 0) == job);
            REQUIRE(WIFEXITED(status));
            saved_on += WEXITSTATUS(status) == 0;
            told += WEXITSTATUS(status) == kTold;
        }
        CHECK(saved_on == 1);
        CHECK(told == kJobs - 1);
        Communicator world(std::make_shared<SelfBackend>());
        SavedState state(world, 5000);
        RecordedEngine engine(world, {.directory = temporary.path()});
        CHECK(engine.newest(state));
    }
}

TEST_CASE("killed 200 times while saving, what was announced is found, whole") {
    const TemporaryDirectory temporary;
    std::mt19937 random(static_cast<unsigned>(::getpid()));
    std::int64_t announced = 0;
    int died_saving = 0;
    double window_us =
        20'000;  // so that a process dies in its first few saves, however slow the machine is
    for (int round = 0; round < 200; ++round) {
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        UniqueFd reader(ends[0]), writer(ends[1]);
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            Communicator world(std::make_shared<SelfBackend>());
            SavedState state(world, 40'000);
            RecordedEngine engine(world, {.directory = temporary.path()});
            const std::int64_t found = engine.newest(state).value_or(0);
            if (found < announced)
                ::_exit(3);
            if (::write(writer.get(), "r", 1) != 1)
                ::_exit(4);
            for (std::int64_t step = found + 1;; ++step) {
                engine->wait_copied();
                state.set(step);
                if (round % 2 == 0)
                    engine->save(step, state.state(), {});
                else if (engine->save_async(step, state.state(), {}); !engine->finish())
                    ::_exit(5);
                if (::write(writer.get(), &step, sizeof step) != sizeof step)
                    ::_exit(4);
            }
        }
        writer.reset();
        char ready = 0;
        REQUIRE(::read(reader.get(), &ready, 1) == 1);
        std::this_thread::sleep_for(
            std::chrono::microseconds(random() % static_cast<unsigned>(window_us)));
        ::kill(child, SIGKILL);
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE(WIFSIGNALED(status));
        const std::int64_t announced_before = announced;
        for (std::int64_t step = 0; ::read(reader.get(), &step, sizeof step) == sizeof step;)
            announced = step;
        window_us *= announced == announced_before ? 1.2 : 0.9;
        for (const auto& entry : fs::directory_iterator(temporary.path()))
            if (entry.path().extension() == ".tmp") {
                ++died_saving;
                break;
            }
    }
    CHECK(announced > 0);
    CHECK(died_saving > 20);
    Communicator world(std::make_shared<SelfBackend>());
    SavedState state(world, 40'000);
    RecordedEngine engine(world, {.directory = temporary.path()});
    CHECK(engine.newest(state).value_or(0) >= announced);
    MESSAGE("announced ", announced, " saves; ", died_saving, " of 200 deaths left one unfinished");
}

}  // namespace async_save_test
