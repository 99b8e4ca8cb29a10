// Files of frozen tensors become links to those of the checkpoint before, and only where they hold
// the same bytes.
#include "../unit/need_crypto.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/commit/authentication.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/load/part_reader.hpp"
#include "checkpoint/save/file_saver.hpp"
#include "flipped_byte.hpp"
#include "forwarding_storage.hpp"
#include "fsdp_ranks.hpp"
#include "saved_state.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>
#include <set>
#include <string>
#include <vector>

namespace linked_save_test {

using namespace autolaunch;
using autolaunch::fsdp::testing::expect;
using autolaunch::fsdp::testing::on_ranks;
using autolaunch::fsdp::testing::TemporaryDirectory;
using autolaunch::testing::have_crypto;
using autolaunch::testing::RecordedEngine;
using autolaunch::testing::SavedState;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kElements = 30'000;
constexpr std::size_t kFrozenElements = 6'000'000;  // 23 MiB: some blocks, some chunks

/// The shards of a step by inode.
std::set<ino_t> inodes(const fs::path& directory, std::int64_t step) {
    std::set<ino_t> found;
    for (const auto& entry : fs::directory_iterator(directory / checkpoint_name(step))) {
        struct stat status = {};
        CHECK(::stat(entry.path().c_str(), &status) == 0);
        if (entry.path().filename() != kManifestName)
            found.insert(status.st_ino);
    }
    return found;
}

/// How many files two steps share.
std::size_t shared_files(const fs::path& directory, std::int64_t one, std::int64_t other) {
    std::size_t count = 0;
    const auto others = inodes(directory, other);
    for (const ino_t inode : inodes(directory, one))
        count += others.contains(inode);
    return count;
}

enum class How { in_place, async, async_in_little_memory };

void save(RecordedEngine& engine, SavedState& state, std::int64_t step, How how = How::in_place) {
    state.set(step);
    if (how == How::in_place) {
        engine->save(step, state.state(), {});
        return;
    }
    engine->save_async(step, state.state(), {});
    engine->wait_copied();
    state.set(-1);
    engine->finish();
}

CheckpointOptions options_for(const fs::path& directory, How how = How::in_place) {
    CheckpointOptions options;
    options.directory = directory;
    options.keep = 3;
    if (how == How::async_in_little_memory)
        options.staging_bytes = 2 * kChunkBytes;
    return options;
}

void expect_loads(Communicator& world, const fs::path& directory, std::int64_t step,
                  const CheckpointOptions& options = {}) {
    SavedState loaded(world, kElements);
    loaded.frozen.assign(kFrozenElements, 0);
    CheckpointOptions mine = options;
    mine.directory = directory;
    RecordedEngine engine(world, mine);
    expect(engine.newest(loaded) == step, "the newest is step " + std::to_string(step) + ", whole");
}

// A disk whose links fail: before they are made, or after.
class RefusingStorage final : public autolaunch::testing::ForwardingStorage {
public:
    explicit RefusingStorage(bool makes_it) : makes_it_(makes_it) {}
    void link_file(const fs::path& from, const fs::path& to) override {
        ++asked;
        if (makes_it_)
            ForwardingStorage::link_file(from, to);
        throw SystemError(makes_it_ ? EEXIST : EMLINK, "link " + to.string());
    }
    int asked = 0;

private:
    bool makes_it_;
};

}  // namespace

TEST_CASE("what is read before an own file is linked again: its ends, and all of it in 16 saves") {
    CHECK(blocks_to_verify(0, 3).empty());
    CHECK(blocks_to_verify(1, 3) == std::vector<std::size_t>{0});
    CHECK(blocks_to_verify(40, 3) == std::vector<std::size_t>{0, 3, 19, 35, 39});
    std::set<std::size_t> all;
    for (std::uint64_t turn = 7; turn < 7 + 16; ++turn)
        for (const std::size_t block : blocks_to_verify(100, turn))
            all.insert(block);
    CHECK(all.size() == 100);
}

TEST_CASE(
    "frozen files are links from save to save, in every way of saving, and stay when their first "
    "step goes") {
    for (const How how : {How::in_place, How::async, How::async_in_little_memory}) {
        CAPTURE(static_cast<int>(how));
        const TemporaryDirectory temporary;
        on_ranks(2, [&](Communicator& world) {
            SavedState state(world, kElements);
            state.add_frozen(kFrozenElements);
            RecordedEngine engine(world, options_for(temporary.path(), how));
            for (const std::int64_t step : {1, 2, 3, 3, 4, 5})
                save(engine, state, step, how);
            expect(engine.notes.empty(), engine.notes.empty() ? "" : engine.notes[0]);
        });
        CHECK_FALSE(fs::exists(temporary.path() / checkpoint_name(1)));
        CHECK(inodes(temporary.path(), 5).size() == 4);
        CHECK(shared_files(temporary.path(), 3, 4) == 2);
        CHECK(shared_files(temporary.path(), 3, 5) == 2);
        for (const auto& entry : fs::directory_iterator(temporary.path() / checkpoint_name(5)))
            CHECK((entry.hard_link_count() == 3) ==
                  (entry.path().string().find("00002-of-00002") != std::string::npos));
        on_ranks(2, [&](Communicator& world) { expect_loads(world, temporary.path(), 5); });
        on_ranks(2, [&](Communicator& world) {
            // Another process: it finds its parent on the disk. Another number of ranks has none.
            SavedState state(world, kElements);
            state.add_frozen(kFrozenElements);
            RecordedEngine engine(world, options_for(temporary.path(), how));
            save(engine, state, 6, how);
        });
        CHECK(shared_files(temporary.path(), 5, 6) == 2);
        on_ranks(1, [&](Communicator& world) {
            SavedState state(world, kElements);
            state.add_frozen(kFrozenElements);
            RecordedEngine engine(world, options_for(temporary.path(), how));
            save(engine, state, 7, how);
            save(engine, state, 8, how);
            expect_loads(world, temporary.path(), 8);
        });
        CHECK(shared_files(temporary.path(), 6, 7) == 0);
        CHECK(shared_files(temporary.path(), 7, 8) == 1);
    }
}

TEST_CASE("what changed all the same is written, wherever it changed, and linked from then on") {
    for (const How how : {How::in_place, How::async, How::async_in_little_memory}) {
        const TemporaryDirectory temporary;
        on_ranks(1, [&](Communicator& world) {
            SavedState state(world, kElements);
            state.add_frozen(kFrozenElements);
            RecordedEngine engine(world, options_for(temporary.path(), how));
            std::int64_t step = 0;
            for (const std::size_t place :
                 {std::size_t{0}, kFrozenElements / 2, kFrozenElements - 1}) {
                save(engine, state, ++step, how);
                state.frozen[place] += 1;
                save(engine, state, ++step, how);
                save(engine, state, ++step, how);
                expect(shared_files(temporary.path(), step - 2, step - 1) == 0,
                       "the changed file is written");
                expect(shared_files(temporary.path(), step - 1, step) == 1,
                       "and the next save links it");
                SavedState loaded(world, kElements);
                loaded.add_frozen(kFrozenElements);
                engine->load(*engine->latest(INT64_MAX), loaded.state());
                expect(loaded.frozen == state.frozen, "it is what was saved");
            }
        });
    }
}

TEST_CASE(
    "without the option, or without links in the file system, every file is written; and once it "
    "is said") {
    on_ranks(1, [&](Communicator& world) {
        SavedState state(world, kElements);
        state.add_frozen(kFrozenElements);
        const TemporaryDirectory without;
        CheckpointOptions options = options_for(without.path());
        options.link_unchanged = false;
        RecordedEngine off(world, options);
        for (const std::int64_t step : {1, 2})
            save(off, state, step);
        expect(shared_files(without.path(), 1, 2) == 0 && off.notes.empty(), "nothing is linked");
        for (const bool makes_it : {false, true}) {
            const TemporaryDirectory temporary;
            const auto storage = std::make_shared<RefusingStorage>(makes_it);
            RecordedEngine engine(world, options_for(temporary.path()), {}, storage);
            for (const std::int64_t step : {1, 2, 3})
                save(engine, state, step);
            expect(storage->asked == 2, "links are tried");
            expect(shared_files(temporary.path(), 1, 2) + shared_files(temporary.path(), 2, 3) == 0,
                   "none is there");
            expect(engine.notes.size() == 1, "one note");
            expect(engine.notes[0].find("files that did not change are written anew") !=
                       std::string::npos,
                   engine.notes[0]);
            for (const std::int64_t before : {4, 3, 2}) {
                SavedState loaded(world, kElements);
                loaded.frozen.assign(kFrozenElements, 0);
                engine->load(*engine->latest(before), loaded.state());
                expect(loaded.step() == before - 1,
                       "what could not be linked did not harm the parent's file");
            }
        }
    });
}

TEST_CASE(
    "a damaged parent is not carried on: found by another process at once, by its own within 16 "
    "saves") {
    const TemporaryDirectory temporary;
    const auto damage = [&](std::int64_t step, std::uint64_t at) {
        autolaunch::testing::flip_byte(temporary.path() / checkpoint_name(step) /
                                           "shard-00001-model-00002-of-00002.safetensors",
                                       at);
    };
    on_ranks(1, [&](Communicator& world) {
        SavedState state(world, kElements);
        state.add_frozen(kFrozenElements);
        const auto expect_healed = [&](RecordedEngine& engine, std::int64_t step) {
            expect(shared_files(temporary.path(), step - 1, step) == 0,
                   "the damaged file is not linked");
            expect(engine.notes.size() == 1 &&
                       engine.notes[0].find("it is written anew") != std::string::npos &&
                       engine.notes[0].find(checkpoint_name(step - 1)) != std::string::npos,
                   "it is said");
            expect_loads(world, temporary.path(), step);
        };
        {
            RecordedEngine engine(world, options_for(temporary.path()));
            save(engine, state, 1);
        }
        damage(1, 3 * Manifest::kBlockBytes + 7);
        RecordedEngine engine(world, options_for(temporary.path()));
        save(engine, state, 2);
        expect_healed(engine, 2);
        engine.notes.clear();

        // The ends at every save, the rest by turns.
        damage(2, 100);
        save(engine, state, 3);
        expect_healed(engine, 3);
        engine.notes.clear();
        damage(3, 3 * Manifest::kBlockBytes + 7);
        std::int64_t step = 3;
        while (engine.notes.empty() && step < 3 + 17)
            save(engine, state, ++step);
        expect(step <= 3 + 16, "all is read within 16 saves");
        expect_healed(engine, step);

        CheckpointOptions careful = options_for(temporary.path());
        careful.verify = SaveVerification::every_block;
        RecordedEngine carefully(world, careful);
        save(carefully, state, 30);
        save(carefully, state, 31);
        expect(shared_files(temporary.path(), 30, 31) == 1 && carefully.notes.empty(),
               "sound files are linked");
        damage(31, 2 * Manifest::kBlockBytes);
        save(carefully, state, 32);
        expect_healed(carefully, 32);
    });
}

TEST_CASE("encrypted files are linked by the process that wrote them, and written by another") {
    if (!have_crypto())
        return;
    const TemporaryDirectory temporary, folder;
    const age::Identity identity = age::Identity::generate();
    const auto text = identity.to_text();
    write_file(folder.path() / "key", std::string(crypto::as_text(text)) + "\n", 0600);
    for (const How how : {How::in_place, How::async, How::async_in_little_memory}) {
        CheckpointOptions options = options_for(temporary.path(), how);
        options.encryption.recipients = {identity.recipient().to_text()};
        options.encryption.identity_file = folder.path() / "key";
        const std::int64_t first = static_cast<int>(how) * 10;
        on_ranks(2, [&](Communicator& world) {
            SavedState state(world, kElements);
            state.add_frozen(kFrozenElements);
            RecordedEngine engine(world, options);
            for (const std::int64_t step : {first + 1, first + 2})
                save(engine, state, step, how);
            expect_loads(world, temporary.path(), first + 2, options);
        });
        CHECK(shared_files(temporary.path(), first + 1, first + 2) == 2);
        on_ranks(2, [&](Communicator& world) {
            SavedState state(world, kElements);
            state.add_frozen(kFrozenElements);
            RecordedEngine engine(world, options);
            save(engine, state, first + 3, how);
            expect_loads(world, temporary.path(), first + 3, options);
        });
        CHECK(shared_files(temporary.path(), first + 2, first + 3) == 0);
    }
    // Plaintext is not linked into an encrypted checkpoint, nor the other way.
    on_ranks(1, [&](Communicator& world) {
        SavedState state(world, kElements);
        state.add_frozen(kFrozenElements);
        RecordedEngine plain(world, options_for(temporary.path()));
        save(plain, state, 40);
        CheckpointOptions options = options_for(temporary.path());
        options.encryption.recipients = {identity.recipient().to_text()};
        RecordedEngine encrypted(world, options);
        save(encrypted, state, 41);
        RecordedEngine plain_again(world, options_for(temporary.path()));
        save(plain_again, state, 42);
        expect_loads(world, temporary.path(), 42);
    });
    CHECK(shared_files(temporary.path(), 40, 41) == 0);
    CHECK(shared_files(temporary.path(), 41, 42) == 0);
}

TEST_CASE("with a MAC files are linked from checkpoints that have one, and keep their SHA-256") {
    if (!have_crypto())
        return;
    const TemporaryDirectory temporary, folder;
    write_file(folder.path() / "mac",
                       std::string(crypto::as_text(AuthenticationKeys::new_key_line())), 0600);
    CheckpointOptions options = options_for(temporary.path());
    options.encryption.authentication_key_file = folder.path() / "mac";
    const auto saved_by_another = [&](std::int64_t step, const CheckpointOptions& its) {
        on_ranks(1, [&](Communicator& world) {
            SavedState state(world, kElements);
            state.add_frozen(kFrozenElements);
            RecordedEngine engine(world, its);
            save(engine, state, step);
            if (is_authenticated(its.encryption))
                expect_loads(world, temporary.path(), step, its);
        });
    };
    saved_by_another(1, options_for(temporary.path()));
    saved_by_another(2, options);
    saved_by_another(3, options);
    CHECK(shared_files(temporary.path(), 1, 2) == 0);
    CHECK(shared_files(temporary.path(), 2, 3) == 1);
    saved_by_another(4, options_for(temporary.path()));
    CHECK(shared_files(temporary.path(), 3, 4) == 0);
    for (const auto& file :
         read_manifest(*make_posix_storage(), temporary.path() / checkpoint_name(4)).files)
        CHECK(file.block_sha256.empty());
}

TEST_CASE(
    "a model's frozen parameters are such files, also where every rank or replica holds them") {
    using fsdp::ShardingStrategy;
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::no_shard,
                                ShardingStrategy::hybrid_shard}) {
        CAPTURE(std::string(fsdp::name_of(strategy)));
        const TemporaryDirectory temporary;
        on_ranks(4, [&](Communicator& world) {
            fsdp::ShardedModelOptions how{.strategy = strategy, .precision = {}};
            if (strategy == ShardingStrategy::hybrid_shard)
                how.shard_group = 2;
            fsdp::ShardedModel model(world, how);
            model.add_unit("body", {{"w", {700, 300}, false}, {"scale", {300}}});
            model.finalize();
            float offset = 0;
            const auto fill = [&](const std::string& name, std::span<const std::int64_t>,
                                  std::int64_t at, std::span<float> values) {
                for (float& value : values)
                    value = static_cast<float>(at++ % 97) + (name == "body.w" ? 0 : offset);
            };
            CheckpointEngine engine(make_posix_storage(), world, options_for(temporary.path()), {});
            for (const std::int64_t step : {1, 2}) {
                offset = static_cast<float>(step);
                model.initialize(fill);
                engine.save(step, model.state(), {});
            }
        });
        const Manifest manifest =
            read_manifest(*make_posix_storage(), temporary.path() / checkpoint_name(2));
        std::set<std::size_t> frozen, moving;
        for (const auto& piece : manifest.find("body.w")->pieces)
            frozen.insert(piece.file_index);
        for (const auto& piece : manifest.find("body.scale")->pieces)
            moving.insert(piece.file_index);
        REQUIRE_FALSE(frozen.empty());
        for (std::size_t i = 0; i < manifest.files.size(); ++i) {
            CHECK(frozen.contains(i) != moving.contains(i));
            const auto names =
                fs::hard_link_count(temporary.path() / checkpoint_name(2) / manifest.files[i].name);
            CHECK(names == (frozen.contains(i) ? 2 : 1));
            verify_file(*make_posix_storage(), temporary.path() / checkpoint_name(2),
                        manifest.files[i], SaveVerification::every_block);
        }
    }
}

}  // namespace linked_save_test
