// Loading over real processes: each block read once on a node, other cuts and types, opaque state,
// and damage.
#include "base/file_io.hpp"
#include "checkpoint/checkpoint_engine.hpp"
#include "checkpoint/format/read_plan.hpp"
#include "flipped_byte.hpp"
#include "forwarding_storage.hpp"
#include "fsdp_ranks.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/adamw.hpp>

#include <doctest/doctest.h>
#include <grp.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace checkpoint_load_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;
namespace fs = std::filesystem;

namespace {

/// Counts the bytes that are read from a file.
class CountingFile final : public StorageFile {
public:
    CountingFile(std::unique_ptr<StorageFile> file, std::uint64_t& read)
        : file_(std::move(file)), read_(read) {}
    void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
        file_->write_at(offset, bytes);
    }
    std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) override {
        const std::size_t got = file_->read_at(offset, bytes);
        read_ += got;
        return got;
    }
    std::uint64_t size() override { return file_->size(); }
    void sync() override { file_->sync(); }
    void reserve(std::uint64_t bytes) override { file_->reserve(bytes); }
    void truncate(std::uint64_t bytes) override { file_->truncate(bytes); }

private:
    std::unique_ptr<StorageFile> file_;
    std::uint64_t& read_;
};

class CountingStorage final : public autolaunch::testing::ForwardingStorage {
public:
    std::unique_ptr<StorageFile> open_large(const fs::path& path) override {
        return std::make_unique<CountingFile>(open(path), bytes_read);
    }

    std::uint64_t bytes_read = 0;
};

float value_at(std::size_t tensor, std::int64_t element) {
    return static_cast<float>((element * 7 + static_cast<std::int64_t>(tensor) * 13) % 251);
}

/// Tensors of one type with known values, cut evenly over the ranks of a replica or whole on each.
class Sample {
public:
    Sample(Communicator& world, std::vector<std::vector<std::int64_t>> shapes, bool replicated,
           DataType type = f32, int replicas = 1)
        : type_(type), memory_(shapes.size()) {
        const int shards = world.size() / replicas, shard = world.rank() % shards;
        for (std::size_t t = 0; t < shapes.size(); ++t) {
            const std::string name = "t" + std::to_string(t);
            const std::int64_t elements = ParameterSpec{name, shapes[t]}.element_count();
            const std::int64_t begin = replicated ? 0 : elements * shard / shards;
            const std::int64_t end = replicated ? elements : elements * (shard + 1) / shards;
            memory_[t].resize(static_cast<std::size_t>(end - begin) * size_of(type));
            state.push_back({name, type, shapes[t], {}, replicated, world.rank() / shards});
            if (end > begin)
                state.back().pieces = {{begin, end - begin, memory_[t].data()}};
        }
    }
    void fill() {
        visit([](std::size_t t, std::int64_t element, float&) { return value_at(t, element); });
    }
    bool is_filled() {
        bool all = true;
        visit([&](std::size_t t, std::int64_t element, float& value) {
            all = all && value == value_at(t, element);
            return value;
        });
        return all;
    }
    State state;

private:
    template <class Each>
    void visit(Each each) {
        for (std::size_t t = 0; t < state.size(); ++t)
            for (const auto& piece : state[t].pieces)
                for (std::int64_t i = 0; i < piece.count; ++i) {
                    std::byte* at = piece.data + static_cast<std::size_t>(i) * size_of(type_);
                    float value = 0;
                    if (type_ == f32)
                        std::memcpy(&value, at, sizeof value);
                    bfloat16 half;
                    if (type_ == bf16)
                        std::memcpy(&half, at, sizeof half);
                    if (type_ == bf16)
                        value = static_cast<float>(half);
                    value = each(t, piece.offset + i, value);
                    half = bfloat16(value);
                    if (type_ == f32)
                        std::memcpy(at, &value, sizeof value);
                    if (type_ == bf16)
                        std::memcpy(at, &half, sizeof half);
                }
    }
    DataType type_;
    std::vector<std::vector<std::byte>> memory_;
};

CheckpointEngine engine_in(Communicator& world, const fs::path& directory) {
    return CheckpointEngine(make_posix_storage(), world, {.directory = directory, .keep = 5}, {});
}

// About 20 MiB: some blocks, and a tensor that ends inside one.
const std::vector<std::vector<std::int64_t>> kLarge = {{1700, 1700}, {333, 777}, {1000, 1024}, {5}};
const std::vector<std::vector<std::int64_t>> kSmall = {{40, 30}, {7}, {}};

void save_sample(int ranks, const fs::path& directory,
                 const std::vector<std::vector<std::int64_t>>& shapes, std::int64_t step = 1,
                 bool replicated = false) {
    on_ranks(ranks, [&](Communicator& world) {
        Sample sample(world, shapes, replicated);
        sample.fill();
        auto engine = engine_in(world, directory);
        engine.save(step, sample.state, {});
    });
}

}  // namespace

TEST_CASE("ranks that all need everything read it once together") {
    const TemporaryDirectory temporary;
    save_sample(2, temporary.path(), kLarge);
    std::uint64_t saved_bytes = 0;
    for (const auto& entry : fs::directory_iterator(temporary.path() / "step-00000001"))
        if (entry.path().extension() == ".safetensors")
            saved_bytes += entry.file_size();
    CHECK(saved_bytes > 16'000'000);
    for (const int ranks : {1, 2, 3}) {
        on_ranks(ranks, [&](Communicator& world) {
            Sample sample(world, kLarge, true);
            auto storage = std::make_shared<CountingStorage>();
            CheckpointEngine engine(storage, world, {.directory = temporary.path()}, {});
            engine.load(*engine.latest(INT64_MAX), sample.state);
            expect(sample.is_filled(), "every element arrived");
            const auto read =
                world.all_reduce_value(static_cast<std::int64_t>(storage->bytes_read));
            expect(read == static_cast<std::int64_t>(saved_bytes),
                   "all ranks together read " + std::to_string(read) + " of " +
                       std::to_string(saved_bytes));
        });
    }
}

TEST_CASE(
    "replicas on one machine read what each of them needs once together, also where that fails") {
    const TemporaryDirectory temporary;
    save_sample(2, temporary.path(), kLarge);
    const auto options = [&] { return CheckpointOptions{.directory = temporary.path()}; };
    for (const auto& [ranks, replicas] : {std::pair{4, 2}, {3, 3}, {6, 3}})
        on_ranks(ranks, [&](Communicator& world) {
            Sample sample(world, kLarge, false, f32, replicas);
            auto storage = std::make_shared<CountingStorage>();
            CheckpointEngine engine(storage, world, options(), {});
            const auto found = engine.latest(INT64_MAX);
            engine.load(*found, sample.state);
            expect(sample.is_filled(), "every element arrived");
            const Manifest manifest = Manifest::parse(read_file(found->path / "manifest.json"));
            std::int64_t needed = 0;
            for (const BlockNeed& need : blocks_needed(plan_loading(manifest, sample.state).parts))
                needed += static_cast<std::int64_t>(std::min(
                    Manifest::kBlockBytes,
                    manifest.files[need.file_index].bytes - need.block * Manifest::kBlockBytes));
            if (sample.state[0].replica != 0)
                needed = 0;
            needed = world.all_reduce_value(needed);
            const auto read =
                world.all_reduce_value(static_cast<std::int64_t>(storage->bytes_read));
            expect(read == needed, "one copy of the model takes " + std::to_string(needed) +
                                       " bytes; read were " + std::to_string(read));
        });
    save_sample(1, temporary.path(), kLarge, 2);
    autolaunch::testing::flip_byte(
        temporary.path() / "step-00000002" / "shard-00001-model-00001-of-00001.safetensors", 5000);
    on_ranks(4, [&](Communicator& world) {
        Sample sample(world, kLarge, false, f32, 2);
        CheckpointEngine engine(make_posix_storage(), world, options(), {});
        expect_error(ErrorCode::corrupt, "bytes 0 to 4194304",
                     [&] { engine.load(*engine.latest(INT64_MAX), sample.state); });
    });
}

TEST_CASE("cut ranks read little more than their parts, and replicated ones load into them") {
    const TemporaryDirectory temporary;
    save_sample(3, temporary.path(), kLarge, 1, true);
    on_ranks(2, [&](Communicator& world) {
        Sample sample(world, kLarge, false);
        auto storage = std::make_shared<CountingStorage>();
        CheckpointEngine engine(storage, world, {.directory = temporary.path()}, {});
        engine.load(*engine.latest(INT64_MAX), sample.state);
        expect(sample.is_filled(), "every element arrived");
        // A part of four tensors each, with blocks that both need where it was cut.
        expect(storage->bytes_read < 10'000'000 + 6 * Manifest::kBlockBytes,
               "not everything is read");
    });
}

TEST_CASE(
    "a damaged block of what all need fails on every rank, and names file, bytes and tensor") {
    const TemporaryDirectory temporary;
    save_sample(1, temporary.path(), kLarge);
    save_sample(1, temporary.path(), kLarge, 2);
    autolaunch::testing::flip_byte(
        temporary.path() / "step-00000002" / "shard-00001-model-00001-of-00001.safetensors",
        2 * Manifest::kBlockBytes + 5);
    on_ranks(3, [&](Communicator& world) {
        Sample sample(world, kLarge, true);
        auto engine = engine_in(world, temporary.path());
        const auto found = engine.latest(INT64_MAX);
        expect_error(
            ErrorCode::corrupt,
            "step-00000002/shard-00001-model-00001-of-00001.safetensors does not hold what was "
            "saved: bytes "
            "8388608 to 12582912 (tensor t0 from element 2096128, and 1 more) have another digest",
            [&] { engine.load(*found, sample.state); });
        const auto loaded = engine.load_latest(sample.state);
        expect(loaded && loaded->step == 1, "the one before is loaded");
        expect(loaded->skipped.size() == 1 && loaded->skipped[0].find("step-00000002: ") == 0,
               "and it is said");
        expect(sample.is_filled(), "it is whole");
        expect_error(ErrorCode::corrupt, "does not hold what was saved",
                     [&] { engine.load_latest(sample.state, {.fall_back = false}); });
    });
    autolaunch::testing::flip_byte(
        temporary.path() / "step-00000001" / "shard-00001-model-00001-of-00001.safetensors", 5000);
    on_ranks(2, [&](Communicator& world) {
        Sample sample(world, kLarge, false);
        auto engine = engine_in(world, temporary.path());
        expect_error(ErrorCode::corrupt, "step-00000001",
                     [&] { engine.load_latest(sample.state); });
    });
}

TEST_CASE("what is damaged or cannot be read while it is loaded is read from the second place") {
    const TemporaryDirectory temporary;
    const fs::path near = temporary.path() / "near", far = temporary.path() / "far",
                   archive = temporary.path() / "archive";
    const char* const shard = "step-00000002/shard-00001-model-00001-of-00001.safetensors";
    save_sample(1, near, kLarge, 1);
    save_sample(1, near, kLarge, 2);
    fs::create_directories(far);
    fs::create_directories(archive);
    bool has_archive = false;
    fs::copy(near / "step-00000002", far / "step-00000002", fs::copy_options::recursive);
    const auto check = [&](std::shared_ptr<Storage> storage, std::int64_t step, const char* said,
                           bool explicitly) {
        on_ranks(3, [&](Communicator& world) {
            for (const bool replicated : {false, true}) {
                Sample sample(world, kLarge, replicated);
                CheckpointOptions options{.directory = near / ""};
                if (has_archive)
                    options.tiers = {{.place = far}, {.place = archive / ""}};
                else
                    options.drain.place = far;
                std::string notes;
                CheckpointEngine engine(storage, world, options,
                                        {{}, [&](const std::string& text) { notes += text; }});
                const auto loaded = engine.load_latest(sample.state);
                expect(loaded && loaded->step == step && sample.is_filled(), "what is whole");
                expect(world.rank() != 0 || notes.find(said) != std::string::npos,
                       "it is said: " + notes);
                if (explicitly)
                    engine.load(*engine.latest(INT64_MAX), sample.state);
            }
        });
    };
    class BadSector final : public autolaunch::testing::ForwardingStorage {
    public:
        explicit BadSector(fs::path bad) : bad_(std::move(bad)) {}
        std::unique_ptr<StorageFile> open_large(const fs::path& path) override {
            if (path == bad_)
                throw SystemError(EIO, "read " + path.string());
            return ForwardingStorage::open_large(path);
        }

    private:
        fs::path bad_;
    };
    check(std::make_shared<BadSector>(near / shard), 2, "/far/step-00000002 instead: ", true);
    autolaunch::testing::flip_byte(near / shard, 2 * Manifest::kBlockBytes + 5);
    check(make_posix_storage(), 2, "/far/step-00000002 instead: ", true);
    // And so on, as many places as there are.
    fs::copy(far / "step-00000002", archive / "step-00000002", fs::copy_options::recursive);
    autolaunch::testing::flip_byte(far / shard, 2 * Manifest::kBlockBytes + 5);
    has_archive = true;
    check(make_posix_storage(), 2, "/archive/step-00000002 instead: ", true);
    fs::rename(near, temporary.path() / "gone");
    check(make_posix_storage(), 2, "/archive/step-00000002 instead: ", true);
    fs::rename(temporary.path() / "gone", near);
    fs::remove_all(archive / "step-00000002");
    check(make_posix_storage(), 1, "passed over step-00000002: ", false);
    has_archive = false;
    // Another checkpoint of that step is not the one that was asked for, but is newer than step 1.
    fs::remove_all(far / "step-00000002");
    save_sample(2, far, kLarge, 2);
    check(make_posix_storage(), 2, "/far/step-00000002 is another checkpoint", false);
    on_ranks(1, [&](Communicator& world) {
        Sample sample(world, kLarge, true);
        CheckpointOptions options{.directory = near};
        options.drain.place = far;
        CheckpointEngine engine(make_posix_storage(), world, options, {});
        expect_error(ErrorCode::corrupt, "does not hold what was saved",
                     [&] { engine.load(*engine.latest(INT64_MAX), sample.state); });
    });
}

TEST_CASE("a missing file is passed over before it is read, and nothing saved is no error") {
    const TemporaryDirectory temporary;
    on_ranks(2, [&](Communicator& world) {
        Sample sample(world, kSmall, false);
        expect(!engine_in(world, temporary.path()).load_latest(sample.state), "nothing was saved");
    });
    save_sample(2, temporary.path(), kSmall, 1);
    save_sample(2, temporary.path(), kSmall, 2);
    fs::remove(temporary.path() / "step-00000002" / "shard-00002-model-00001-of-00001.safetensors");
    on_ranks(2, [&](Communicator& world) {
        Sample sample(world, kSmall, false);
        const auto loaded = engine_in(world, temporary.path()).load_latest(sample.state);
        expect(loaded && loaded->step == 1 && sample.is_filled(), "the one before is loaded");
    });
}

TEST_CASE("what this user may not read is neither absent nor passed over, and outlives his saves") {
    if (::geteuid() != 0) {
        std::printf("skipped: another user's checkpoints: only root can become another user\n");
        return;
    }
    const TemporaryDirectory temporary;
    fs::permissions(temporary.path(), fs::perms::all);  // where he may save
    ::setenv("AUTOLAUNCH_WORKSPACE", "open-parents", 1);
    save_sample(2, temporary.path(), kSmall, 1);
    save_sample(2, temporary.path(), kSmall, 2);
    for (const auto& entry : fs::recursive_directory_iterator(temporary.path()))
        fs::permissions(entry.path(), fs::perms::others_read | fs::perms::others_exec,
                        fs::perm_options::add);
    const auto forbid = [&](const char* name, bool forbidden) {
        fs::permissions(temporary.path() / name, forbidden
                                                     ? fs::perms::owner_all
                                                     : fs::perms::all & ~fs::perms::others_write);
    };
    const auto as_nobody = [&](const std::function<void(Communicator&)>& body) {
        on_ranks(2, [&](Communicator& world) {
            constexpr uid_t kNobody = 65534;
            expect(::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
                       ::setresuid(kNobody, kNobody, kNobody) == 0,
                   "root becomes nobody");
            body(world);
        });
    };
    forbid("step-00000002", true);
    as_nobody([&](Communicator& world) {
        Sample sample(world, kSmall, false);
        auto engine = engine_in(world, temporary.path());
        const char* words =
            "/step-00000001 is there and cannot be read: step-00000002: cannot open";
        expect_error(ErrorCode::system, words, [&] { engine.load_latest(sample.state); });
        expect_error(ErrorCode::system, "Permission denied", [&] { engine.latest(INT64_MAX); });
        expect(engine.latest(2)->step == 1, "who asks for older ones gets them");
    });
    forbid("step-00000001", true);
    as_nobody([&](Communicator& world) {
        Sample sample(world, kSmall, false);
        auto engine = engine_in(world, temporary.path());
        expect_error(ErrorCode::system, "step-00000001: cannot open",
                     [&] { engine.load_latest(sample.state); });
        CheckpointOptions options{.directory = temporary.path(), .keep = 1};
        options.pass_over_unusable = true;
        CheckpointEngine asked(make_posix_storage(), world, options, {});
        expect(!asked.load_latest(sample.state), "he starts anew");
        asked.save(5, sample.state, {});
        asked.save(6, sample.state, {});
        expect(asked.load_latest(sample.state)->step == 6, "and goes on from what he saved");
    });
    CHECK_FALSE(fs::exists(temporary.path() / "step-00000005"));
    forbid("step-00000002", false);
    on_ranks(2, [&](Communicator& world) {
        Sample sample(world, kSmall, false);
        expect(engine_in(world, temporary.path()).latest(3)->step == 2, "nothing of it is lost");
    });
    CHECK(fs::exists(temporary.path() / "step-00000001"));
    ::unsetenv("AUTOLAUNCH_WORKSPACE");
}

TEST_CASE("types are cast where that is asked for, and tensors may be missing") {
    const TemporaryDirectory temporary;
    save_sample(2, temporary.path(), kSmall);
    on_ranks(3, [&](Communicator& world) {
        auto engine = engine_in(world, temporary.path());
        const auto found = engine.latest(INT64_MAX);
        Sample half(world, kSmall, false, bf16);
        expect_error(ErrorCode::mismatch, "f32 in the checkpoint",
                     [&] { engine.load(*found, half.state); });
        expect(engine.load(*found, half.state, {.cast = true}).empty(), "nothing is missing");
        expect(half.is_filled(), "the values are exact in bf16");

        Sample more(world, {{40, 30}, {7}, {}, {9}}, false);
        expect_error(ErrorCode::mismatch, "no tensor named t3",
                     [&] { engine.load(*found, more.state); });
        expect(engine.load(*found, more.state, {.allow_missing = true}) ==
                   std::vector<std::string>{"t3"},
               "the missing one is named");
        more.state.pop_back();
        expect(more.is_filled(), "the others are loaded");
        Sample fewer(world, {{40, 30}}, true);
        engine.load(*found, fewer.state);
        expect(fewer.is_filled(), "a subset is loaded");
    });
}

TEST_CASE(
    "opaque state comes back byte for byte, on other numbers of ranks, from save() and "
    "save_async()") {
    const TemporaryDirectory temporary;
    std::string binary;
    for (int byte = 0; byte < 256; ++byte)
        binary += static_cast<char>(byte);
    const auto opaque_of = [&](int rank) {
        return std::vector<OpaqueState>{{"rng", binary + std::to_string(rank), true},
                                        {"loader", "epoch 3 on " + std::to_string(rank), false},
                                        {"none", "", true}};
    };
    on_ranks(3, [&](Communicator& world) {
        Sample sample(world, kSmall, false);
        sample.fill();
        auto engine = engine_in(world, temporary.path());
        engine.save(1, sample.state, {.opaque = opaque_of(world.rank())});
        engine.save_async(2, sample.state, {.opaque = opaque_of(world.rank())});
        engine.wait_copied();
        engine.finish();
        expect_error(ErrorCode::invalid_argument, "opaque state a is named twice", [&] {
            engine.save(3, sample.state, {.opaque = {{"a"}, {"a"}}});
        });
    });
    for (const int ranks : {1, 4})
        on_ranks(ranks, [&](Communicator& world) {
            auto engine = engine_in(world, temporary.path());
            for (const std::int64_t before : {INT64_MAX, std::int64_t{2}}) {
                const auto found = engine.latest(before);
                const auto rng = engine.load_opaque(*found, "rng");
                expect(rng.size() == 3, "one of each rank that saved");
                for (int rank = 0; rank < 3; ++rank)
                    expect(rng[static_cast<std::size_t>(rank)] == binary + std::to_string(rank),
                           "the bytes");
                expect(engine.load_opaque(*found, "loader") ==
                           std::vector<std::string>{"epoch 3 on 0"},
                       "rank 0's");
                expect(engine.load_opaque(*found, "none") == std::vector<std::string>(3),
                       "empty ones");
                expect(engine.load_opaque(*found, "other").empty(), "nothing under another name");
            }
        });
}

TEST_CASE("hybrid_shard, full_shard, shard_grad_op and no_shard load what the others saved") {
    const TemporaryDirectory temporary;
    const auto model_of = [](Communicator& world, ShardingStrategy strategy) {
        ShardedModelOptions options{.strategy = strategy, .precision = {}};
        if (strategy == ShardingStrategy::hybrid_shard)
            options.shard_group = 2;
        ShardedModel model(world, options);
        model.add_unit("a", {{"w", {37, 11}}, {"b", {37}}});
        model.add_unit("c", {{"w", {5, 3, 7}}});
        model.finalize();
        return model;
    };
    const auto fill = [](const std::string& name, std::span<const std::int64_t>, std::int64_t at,
                         std::span<float> values) {
        for (float& value : values)
            value = value_at(name.size(), at++);
    };
    const std::vector<ShardingStrategy> strategies = {
        ShardingStrategy::hybrid_shard, ShardingStrategy::full_shard,
        ShardingStrategy::shard_grad_op, ShardingStrategy::no_shard};
    std::int64_t step = 0;
    for (const ShardingStrategy saving : strategies) {
        ++step;
        on_ranks(4, [&](Communicator& world) {
            ShardedModel model = model_of(world, saving);
            model.initialize(fill);
            engine_in(world, temporary.path()).save(step, model.state(), {});
        });
        for (const ShardingStrategy loading : strategies)
            on_ranks(loading == ShardingStrategy::hybrid_shard ? 4 : 3, [&](Communicator& world) {
                ShardedModel model = model_of(world, loading), wanted = model_of(world, loading);
                wanted.initialize(fill);
                const auto loaded = engine_in(world, temporary.path()).load_latest(model.state());
                expect(loaded && loaded->step == step, "the newest is loaded");
                const State got = model.state(), right = wanted.state();
                for (std::size_t i = 0; i < got.size(); ++i)
                    for (std::size_t j = 0; j < got[i].pieces.size(); ++j)
                        expect(
                            std::memcmp(got[i].pieces[j].data, right[i].pieces[j].data,
                                        static_cast<std::size_t>(got[i].pieces[j].count) * 4) == 0,
                            "the same bits");
            });
    }
}

}  // namespace checkpoint_load_test
