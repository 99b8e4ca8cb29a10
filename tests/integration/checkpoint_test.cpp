// Checkpoints of models that are cut over real processes: other numbers of ranks, damage, and ranks
// that are killed.
#include "../unit/safetensors_rules.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "checkpoint/checkpoint_engine.hpp"
#include "flipped_byte.hpp"
#include "fsdp_ranks.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/adamw.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>
#include <autolaunch/session.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace checkpoint_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;
namespace fs = std::filesystem;

namespace {

// A model with its optimizer. Gradients are functions of step and element alone and exact in any
// sum, so training gives the same bits on any number of ranks, interrupted or not.
struct Trainer {
    Trainer(Communicator& world, const fs::path& directory,
            ShardingStrategy strategy = ShardingStrategy::full_shard)
        : model(world, {.strategy = strategy, .precision = {}}),
          embedding(model.add_unit("wte", {{"w", {64, 24}}})),
          block(model.add_unit("h.0", {{"w", {31, 24}}, {"b", {31}}, {"scale", {}}})),
          optimizer((model.finalize(), model), {.lr = 1e-2, .decays = {}}),
          checkpoints(make_posix_storage(), world, {directory, 2}, {}) {
        model.initialize([](const std::string&, std::span<const std::int64_t>, std::int64_t at,
                            std::span<float> values) {
            for (float& value : values)
                value = 0.25f * static_cast<float>(at++ % 17);
        });
    }

    void train_until(std::int64_t step) {
        while (optimizer.step_count() < step) {
            for (Unit* unit : {&embedding, &block}) {
                for (const ParameterSpec& parameter : unit->parameters()) {
                    std::int64_t i = optimizer.step_count() * 31;
                    for (float& value : unit->grad(parameter.name).as<float>())
                        value = static_cast<float>(i++ % 13 - 6);
                }
                unit->reduce_grads();
            }
            optimizer.step();
        }
    }

    State state() {
        State all = model.state();
        for (auto& tensor : optimizer.state())
            all.push_back(std::move(tensor));
        return all;
    }
    void save() { checkpoints.save(optimizer.step_count(), state(), {"{\"next\":5}"}); }
    void load(const CheckpointInfo& info) {
        checkpoints.load(info, state());
        optimizer.set_step_count(info.step);
    }
    void resume() {
        const auto found = checkpoints.latest(INT64_MAX);
        expect(found.has_value(), "there is a checkpoint");
        expect(found->extra == "{\"next\":5}", "its extra text is what was saved");
        load(*found);
    }
    // Over everything this rank holds; equal on equal cuts only.
    std::uint64_t local_digest() {
        std::string bytes;
        for (const auto& tensor : state())
            for (const auto& piece : tensor.pieces)
                bytes.append(reinterpret_cast<const char*>(piece.data),
                             static_cast<std::size_t>(piece.count) * 4);
        return hash64(bytes.data(), bytes.size());
    }

    ShardedModel model;
    Unit& embedding;
    Unit& block;
    AdamW optimizer;
    CheckpointEngine checkpoints;
};

// The process is killed by the kernel after this time, wherever it is then.
void kill_myself_after(std::chrono::microseconds delay) {
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer = {};
    expect(::timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "a timer");
    itimerspec when = {};
    when.it_value.tv_sec = delay.count() / 1'000'000;
    when.it_value.tv_nsec = delay.count() % 1'000'000 * 1000 + 1;
    expect(::timer_settime(timer, 0, &when, nullptr) == 0, "the timer runs");
}

}  // namespace

TEST_CASE(
    "a model goes from 1 rank to 2, 3, and back, and every bit of the training is as if it never "
    "stopped") {
    const TemporaryDirectory temporary, uninterrupted;
    on_ranks(1, [&](Communicator& world) {
        Trainer trainer(world, temporary.path());
        trainer.train_until(3);
        trainer.save();
    });
    for (const int ranks : {2, 3, 1, 4}) {
        on_ranks(ranks, [&](Communicator& world) {
            Trainer trainer(world, temporary.path());
            trainer.resume();
            trainer.train_until(trainer.optimizer.step_count() + 2);
            trainer.save();
        });
    }
    on_ranks(1, [&](Communicator& world) {
        Trainer straight(world, uninterrupted.path()), resumed(world, temporary.path());
        straight.train_until(11);
        resumed.resume();
        expect(resumed.optimizer.step_count() == 11, "the last save was of step 11");
        expect(resumed.local_digest() == straight.local_digest(),
               "parameters and moments are the same bits");
    });
}

TEST_CASE("a replicated model's checkpoint loads into a sharded one, and back") {
    const TemporaryDirectory temporary;
    on_ranks(3, [&](Communicator& world) {
        Trainer trainer(world, temporary.path(), ShardingStrategy::no_shard);
        trainer.train_until(2);
        trainer.save();
    });
    on_ranks(2, [&](Communicator& world) {
        Trainer trainer(world, temporary.path(), ShardingStrategy::full_shard);
        trainer.resume();
        trainer.train_until(4);
        trainer.save();
    });
    on_ranks(2, [&](Communicator& world) {
        Trainer straight(world, temporary.path(), ShardingStrategy::no_shard);
        Trainer resumed(world, temporary.path(), ShardingStrategy::no_shard);
        straight.train_until(4);
        resumed.resume();
        expect(resumed.local_digest() == straight.local_digest(), "the same bits");
    });
}

TEST_CASE("on disk: valid safetensors shards, a link to the newest, and no more than asked for") {
    const TemporaryDirectory temporary;
    on_ranks(2, [&](Communicator& world) {
        Trainer trainer(world, temporary.path() / "new" / "folder");
        for (const std::int64_t step : {1, 2, 3}) {
            trainer.train_until(step);
            trainer.save();
        }
        trainer.save();  // the same step again
    });
    const fs::path directory = temporary.path() / "new" / "folder";
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory))
        names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    CHECK(names ==
          std::vector<std::string>{"latest", "step-00000002", "step-00000003", "writer.json"});
    CHECK(fs::read_symlink(directory / "latest") == "step-00000003");
    int shards = 0;
    for (const auto& entry : fs::directory_iterator(directory / "step-00000003")) {
        if (entry.path().extension() != ".safetensors")
            continue;
        ++shards;
        CHECK(autolaunch::testing::broken_safetensors_rule(read_file(entry.path())) == "");
    }
    const Manifest manifest =
        Manifest::parse(read_file(directory / "step-00000003" / "manifest.json"));
    CHECK(shards == static_cast<int>(manifest.files.size()));
    CHECK(shards >= 2);
    CHECK(manifest.world_size == 2);
    CHECK(manifest.tensors.size() == 4 * 3);
    REQUIRE(manifest.find("h.0.w.exp_avg_sq"));
}

TEST_CASE(
    "a damaged byte that only one rank reads fails the load on every rank, and the one before is "
    "there") {
    const TemporaryDirectory temporary;
    on_ranks(2, [&](Communicator& world) {
        Trainer trainer(world, temporary.path());
        for (const std::int64_t step : {1, 2}) {
            trainer.train_until(step);
            trainer.save();
        }
    });
    autolaunch::testing::flip_byte(
        temporary.path() / "step-00000002" / "shard-00002-model-00001-of-00002.safetensors",
        4096 + 100);
    on_ranks(2, [&](Communicator& world) {
        Trainer trainer(world, temporary.path());
        const auto found = trainer.checkpoints.latest(INT64_MAX);
        expect(found && found->step == 2, "sizes do not show it");
        expect_error(ErrorCode::corrupt,
                     "shard-00002-model-00001-of-00002.safetensors does not hold what was saved",
                     [&] { trainer.load(*found); });
        const auto older = trainer.checkpoints.latest(found->step);
        expect(older && older->step == 1, "the one before is found");
        trainer.load(*older);
    });
}

TEST_CASE("latest() passes over what is not complete, and says what and why") {
    const TemporaryDirectory temporary;
    on_ranks(1, [&](Communicator& world) {
        Trainer trainer(world, temporary.path());
        for (const std::int64_t step : {1, 2}) {
            trainer.train_until(step);
            trainer.save();
        }
    });
    fs::create_directory(temporary.path() / "step-00000009.tmp");
    fs::create_directory(temporary.path() / "step-00000008");
    fs::create_directory(temporary.path() / "step-notes");
    fs::resize_file(
        temporary.path() / "step-00000002" / "shard-00001-model-00001-of-00001.safetensors", 5000);
    on_ranks(2, [&](Communicator& world) {
        Trainer trainer(world, temporary.path());
        const auto found = trainer.checkpoints.latest(INT64_MAX);
        expect(found && found->step == 1, "step 1 is the newest complete one");
        expect(found->skipped.size() == 2, "two were passed over");
        expect(found->skipped[0].find("step-00000008: cannot open") == 0, found->skipped[0]);
        expect(found->skipped[1].find("has 5000 bytes, not") != std::string::npos,
               found->skipped[1]);
        trainer.load(*found);
        trainer.train_until(10);
        trainer.save();
    });
    CHECK_FALSE(fs::exists(temporary.path() / "step-00000009.tmp"));
    CHECK(fs::exists(temporary.path() / "step-notes"));
}

TEST_CASE("the manifest says how the model's ranks were arranged") {
    using Mesh = std::vector<Manifest::MeshDimension>;
    struct Case {
        ShardingStrategy strategy;
        int ranks;
        Mesh mesh;
    };
    const std::vector<Case> cases = {
        {ShardingStrategy::full_shard, 3, {{"shard", 3}}},
        {ShardingStrategy::shard_optimizer, 2, {{"shard", 2}}},
        {ShardingStrategy::no_shard, 2, {{"replica", 2}}},
        {ShardingStrategy::no_shard, 1, {{"replica", 1}}},
        {ShardingStrategy::hybrid_shard, 4, {{"replica", 2}, {"shard", 2}}}};
    for (const Case& each : cases) {
        CAPTURE(std::string(name_of(each.strategy)));
        const TemporaryDirectory temporary;
        on_ranks(each.ranks, [&](Communicator& world) {
            Session session = Session::from_environment();
            Checkpointer checkpointer(session, world, {.directory = temporary.path(), .keep = 5});
            ShardedModelOptions options{.strategy = each.strategy, .precision = {}};
            if (each.strategy == ShardingStrategy::hybrid_shard)
                options.shard_group = 2;
            ShardedModel model(world, options);
            model.add_unit("h", {{"w", {40, 30}}});
            model.finalize();
            AdamW optimizer(model, {});
            checkpointer.save(1, model, optimizer);
            checkpointer.save_async(2, model, optimizer);
            checkpointer.finish();
            SaveOptions own;
            own.arrangement = {"mine", {{"shard", 7}}};
            checkpointer.save(3, model, optimizer, own);
            checkpointer.save(4, model.state());
        });
        const auto manifest_of = [&](const char* step) {
            return Manifest::parse(read_file(temporary.path() / step / "manifest.json"));
        };
        for (const char* step : {"step-00000001", "step-00000002"}) {
            CHECK(manifest_of(step).strategy == name_of(each.strategy));
            CHECK(manifest_of(step).mesh == each.mesh);
        }
        CHECK(manifest_of("step-00000003").strategy == "mine");
        CHECK(manifest_of("step-00000003")
                  .mesh.empty());  // it is of other ranks than those that save
        CHECK(manifest_of("step-00000004").strategy.empty());
    }
}

TEST_CASE("nothing saved yet is no error") {
    const TemporaryDirectory temporary;
    on_ranks(2, [&](Communicator& world) {
        Trainer trainer(world, temporary.path() / "absent");
        expect(!trainer.checkpoints.latest(INT64_MAX), "there is none");
    });
}

TEST_CASE("when one rank cannot save, every rank throws and the last checkpoint stays") {
    const TemporaryDirectory temporary;
    on_ranks(2, [&](Communicator& world) {
        Trainer trainer(world, temporary.path());
        trainer.train_until(1);
        trainer.save();
        State state = trainer.state();
        if (world.rank() == 1)
            state[0].name.clear();
        expect_error(ErrorCode::invalid_argument, "has no name",
                     [&] { trainer.checkpoints.save(2, state, {}); });
        state = trainer.state();
        if (world.rank() == 1)
            state[0].name = "other";
        expect_error(ErrorCode::mismatch, "the ranks save different",
                     [&] { trainer.checkpoints.save(2, state, {}); });
        expect_error(ErrorCode::invalid_argument, "not JSON",
                     [&] { trainer.checkpoints.save(2, trainer.state(), {"{"}); });
        state = trainer.state();
        if (world.rank() == 0)
            state[0].pieces.clear();
        expect_error(ErrorCode::corrupt, "wte.w do not cover it",
                     [&] { trainer.checkpoints.save(2, state, {}); });
        trainer.resume();
        expect(trainer.optimizer.step_count() == 1, "step 1 is still the newest");
    });
    const fs::path file = temporary.path() / "a_file";
    write_file(file, "");
    on_ranks(2, [&](Communicator& world) {
        Trainer trainer(world, file / "below");
        expect_error(ErrorCode::system, "a_file", [&] { trainer.save(); });
    });
}

TEST_CASE("a checkpoint of another model is refused with both shapes") {
    const TemporaryDirectory temporary;
    on_ranks(1, [&](Communicator& world) {
        Trainer trainer(world, temporary.path());
        trainer.save();
        ShardedModel model(world);
        model.add_unit("wte", {{"w", {65, 24}}});
        model.finalize();
        const auto found = trainer.checkpoints.latest(INT64_MAX);
        expect_error(ErrorCode::mismatch,
                     "tensor wte.w is [64, 24] f32 in the checkpoint, [65, 24] f32 in the model",
                     [&] { trainer.checkpoints.load(*found, model.state()); });
    });
}

TEST_CASE("Checkpointer joins a model and its optimizer, and reports through the session") {
    const TemporaryDirectory temporary;
    on_ranks(2, [&](Communicator& world) {
        Session session = Session::from_environment();
        Trainer saved(world, temporary.path()), loaded(world, temporary.path());
        saved.train_until(4);
        Checkpointer checkpointer(session, world, {.directory = temporary.path()});
        const auto info = checkpointer.save(4, saved.model, saved.optimizer, {.extra = "[1]"});
        expect(info.path == temporary.path() / "step-00000004", "the path is the published one");
        const auto found = checkpointer.latest();
        expect(found && found->step == 4 && found->extra == "[1]", "it is found");
        checkpointer.load(*found, loaded.model, loaded.optimizer);
        expect(loaded.optimizer.step_count() == 4, "the step count is restored");
        expect(loaded.local_digest() == saved.local_digest(), "the same bits");
        expect(!checkpointer.latest(4), "there is none before it");
    });
}

TEST_CASE("ranks killed at any moment of saving leave a checkpoint that resumes") {
    const TemporaryDirectory temporary;
    std::mt19937 random(static_cast<unsigned>(::getpid()));
    on_ranks(1, [&](Communicator& world) {
        Trainer trainer(world, temporary.path());
        trainer.save();
    });
    std::int64_t last_step = 0;
    int killed = 0;
    for (int round = 0; round < 12; ++round) {
        const int ranks = 1 + round % 3;
        const double fraction = static_cast<double>(random() % 1000) / 1000;
        const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
        INFO("round ", round, ", ", ranks, " ranks, rank ", victim, " dies at ", fraction);
        const auto statuses = statuses_of_ranks(ranks, [&](Communicator& world) {
            Trainer trainer(world, temporary.path());
            trainer.resume();
            bool armed = false;
            for (;;) {
                const auto start = std::chrono::steady_clock::now();
                trainer.train_until(trainer.optimizer.step_count() + 1);
                trainer.save();
                // One save is whole; the victim dies within about the time of the next two.
                const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
                if (world.rank() == victim && !std::exchange(armed, true))
                    kill_myself_after(
                        std::chrono::duration_cast<std::chrono::microseconds>(2 * fraction * took));
            }
        });
        for (int rank = 0; rank < ranks; ++rank) {
            const int status = statuses[static_cast<std::size_t>(rank)];
            if (rank == victim)
                killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            else
                CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 1));  // told, not hanging
        }
        on_ranks(1, [&](Communicator& world) {
            Trainer resumed(world, temporary.path()), straight(world, temporary.path());
            resumed.resume();
            straight.train_until(resumed.optimizer.step_count());
            expect(resumed.local_digest() == straight.local_digest(),
                   "what was found is a whole step");
        });
        CheckpointEngine engine(make_posix_storage(), Communicator(std::make_shared<SelfBackend>()),
                                {temporary.path(), 2}, {});
        const auto found = engine.latest(INT64_MAX);
        REQUIRE(found);
        CHECK(found->step >= last_step);  // nothing published is lost
        last_step = found->step;
    }
    CHECK(killed == 12);
}

TEST_CASE(
    "ranks agree on when to save: by steps, by time, and before the job ends; the best are kept") {
    const TemporaryDirectory temporary;
    on_ranks(2, [&](Communicator& world) {
        ::setenv("SLURM_JOB_END_TIME", std::to_string(::time(nullptr) + 3600).c_str(), 1);
        Session session = Session::from_environment();
        Trainer trainer(world, temporary.path());
        CheckpointOptions options{.directory = temporary.path(), .keep = 1};
        options.keep_best = 1;
        options.schedule.every_steps = 2;
        Checkpointer checkpointer(session, world, options);
        std::vector<std::int64_t> saved;
        for (std::int64_t step = 1; step <= 8; ++step) {
            trainer.train_until(step);
            const SaveDecision decision = checkpointer.should_save(step);
            expect(!decision.stop(), "there is an hour left");
            if (!decision)
                continue;
            expect(decision.reason == SaveReason::steps, "by steps");
            saved.push_back(step);
            checkpointer.save_async(step, trainer.model, trainer.optimizer,
                                    {.metric = step == 4 ? 0.5 : 1.0 + static_cast<double>(step)});
            checkpointer.wait_copied();
        }
        checkpointer.finish();
        expect(saved == std::vector<std::int64_t>{2, 4, 6, 8}, "every second one");
        expect(checkpointer.latest()->step == 8, "the newest is there");
        expect(checkpointer.latest(8)->step == 4, "and the best");
        expect(!checkpointer.latest(4), "and no other");
        const auto manifest =
            Manifest::parse(read_file(temporary.path() / "step-00000008" / "manifest.json"));
        expect(manifest.parent_step == 6 && manifest.metric == 9.0,
               "the manifest says what came before");

        // Only rank 0's clock counts.
        options.schedule = {};
        options.schedule.every_seconds = world.rank() == 0 ? 0.001 : 1e6;
        Checkpointer timed(session, world, options);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        expect(timed.should_save(1).reason == SaveReason::seconds, "by time");
        options.schedule = {};
        options.schedule.deadline = std::chrono::system_clock::now() + std::chrono::seconds(2);
        Checkpointer ending(session, world, options);
        const SaveDecision decision = ending.should_save(1);
        expect(decision.reason == SaveReason::deadline && decision.stop(), "the job ends");
        ::setenv("SLURM_JOB_END_TIME", std::to_string(::time(nullptr) + 3).c_str(), 1);
        Checkpointer slurm(session, world, {.directory = temporary.path()});
        expect(slurm.should_save(1).reason == SaveReason::deadline, "Slurm says when");
    });
}

}  // namespace checkpoint_test
