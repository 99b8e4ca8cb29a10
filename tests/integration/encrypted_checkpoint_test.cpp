// Encrypted checkpoints of several ranks: what is stored, who can load it, and that plain `age`
// opens it.

#include "../unit/need_crypto.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/load/part_reader.hpp"
#include "fsdp_ranks.hpp"
#include "session/environment.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace encrypted_checkpoint_test {

using namespace autolaunch;
using autolaunch::fsdp::testing::expect;
using autolaunch::fsdp::testing::on_ranks;
using autolaunch::fsdp::testing::TemporaryDirectory;
using autolaunch::testing::need_crypto;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kCount = 7'000'003;   // of "w", cut over the ranks
constexpr std::int64_t kShared = 2'500'001;  // of "r", which all ranks hold

/// A state whose values tell their place and step.
struct Sample {
    Sample(Communicator& world, std::int64_t step)
        : begin(kCount * world.rank() / world.size()),
          end(kCount * (world.rank() + 1) / world.size()) {
        for (std::int64_t i = begin; i < end; ++i)
            cut.push_back(value(i, step));
        for (std::int64_t i = 0; i < kShared; ++i)
            shared.push_back(value(i, step + 1));
    }
    static float value(std::int64_t i, std::int64_t step) {
        return static_cast<float>((i * 7 + step * 13) % 1'000'003);
    }
    fsdp::State state() {
        return {{"w",
                 f32,
                 {kCount},
                 {{begin, end - begin, reinterpret_cast<std::byte*>(cut.data())}},
                 false},
                {"r",
                 f32,
                 {kShared},
                 {{0, kShared, reinterpret_cast<std::byte*>(shared.data())}},
                 true}};
    }
    bool operator==(const Sample&) const = default;

    std::int64_t begin, end;
    std::vector<float> cut, shared;
};

struct Keys {
    Keys() : mine(age::Identity::generate()), other(age::Identity::generate()) {
        write(mine, "key");
        write(other, "other");
    }
    void write(const age::Identity& identity, const std::string& name) const {
        const auto text = identity.to_text();
        write_file(folder.path() / name, std::string(crypto::as_text(text)) + "\n", 0600);
    }
    CheckpointOptions options(const fs::path& directory, const std::string& key = "key") const {
        CheckpointOptions options;
        options.directory = directory;
        options.encryption.recipients = {mine.recipient().to_text(),
                                         age::Identity::generate().recipient().to_text()};
        options.encryption.identity_file = folder.path() / key;
        return options;
    }
    TemporaryDirectory folder;
    age::Identity mine, other;
};

void save(const CheckpointOptions& options, std::int64_t step, int ranks, bool async) {
    on_ranks(ranks, [&](Communicator& world) {
        Session session = Session::from_environment();
        Checkpointer checkpointer(session, world, options);
        Sample sample(world, step);
        if (async) {
            checkpointer.save_async(step, sample.state());
            checkpointer.wait_copied();
            sample = Sample(world, step + 5);
            checkpointer.finish();
        } else {
            checkpointer.save(step, sample.state());
        }
    });
}

void load(const CheckpointOptions& options, std::int64_t step, int ranks) {
    on_ranks(ranks, [&](Communicator& world) {
        Session session = Session::from_environment();
        Checkpointer checkpointer(session, world, options);
        Sample loaded(world, 999);
        const auto found = checkpointer.load_latest(loaded.state());
        expect(found && found->step == step, "it is found");
        expect(loaded == Sample(world, step), "every value is what was saved");
    });
}

void load_fails(const CheckpointOptions& options, ErrorCode code, const std::string& words) {
    on_ranks(2, [&](Communicator& world) {
        Session session = Session::from_environment();
        Checkpointer checkpointer(session, world, options);
        Sample loaded(world, 999);
        try {
            checkpointer.load(checkpointer.latest().value(), loaded.state());
        } catch (const Error& error) {
            expect(
                error.code() == code && std::string(error.what()).find(words) != std::string::npos,
                error.what());
            return;
        }
        expect(false, "it was loaded");
    });
}

}  // namespace

TEST_CASE(
    "encrypted checkpoints load on any number of ranks, saved in place and beside the training") {
    need_crypto();
    const Keys keys;
    const TemporaryDirectory directory;
    const CheckpointOptions options = keys.options(directory.path());
    save(options, 1, 2, false);
    load(options, 1, 2);
    load(options, 1, 3);
    save(options, 2, 3, true);
    load(options, 2, 1);
    CheckpointOptions by_command = options;
    by_command.encryption.identity_file.clear();
    by_command.encryption.identity_command = "cat '" + (keys.folder.path() / "key").string() + "'";
    load(by_command, 2, 2);
    CheckpointOptions small = options;
    small.staging_bytes = 1;  // one chunk at a time
    save(small, 3, 2, true);
    load(small, 3, 2);
}

TEST_CASE("what is stored is verified without a key, and says nothing of the weights") {
    const Keys keys;
    const TemporaryDirectory directory;
    save(keys.options(directory.path()), 1, 2, false);
    const fs::path checkpoint = directory.path() / checkpoint_name(1);
    const auto storage = make_posix_storage();
    const Manifest manifest = read_manifest(*storage, checkpoint);
    CHECK(Manifest::parse(manifest.to_text()) == manifest);
    REQUIRE(manifest.files.size() >= 2);
    for (const Manifest::File& file : manifest.files) {
        CHECK(file.name.ends_with(".safetensors.age"));
        CHECK(file.plain_bytes.has_value());
        CHECK(file.bytes == fs::file_size(checkpoint / file.name));
        verify_file(*storage, checkpoint, file, SaveVerification::every_block);
        CHECK(read_file(checkpoint / file.name).find("\"dtype\"") == std::string::npos);
    }
}

TEST_CASE("without the right key nothing is loaded, and damage is found before it is opened") {
    const Keys keys;
    const TemporaryDirectory directory;
    const CheckpointOptions options = keys.options(directory.path());
    save(options, 1, 2, false);
    load_fails(keys.options(directory.path(), "other"), ErrorCode::mismatch,
               "not encrypted for any of the 1 keys");
    CheckpointOptions without = options;
    without.encryption.identity_file.clear();
    load_fails(without, ErrorCode::invalid_argument, "no key was given");
    const fs::path checkpoint = directory.path() / checkpoint_name(1);
    const Manifest manifest = read_manifest(*make_posix_storage(), checkpoint);
    std::fstream file(checkpoint / manifest.files[0].name,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5 << 20);
    file.put('x').put('y').put('z');
    file.close();
    load_fails(options, ErrorCode::corrupt,
               "does not hold what was saved: bytes 4194304 to 8388608");
}

TEST_CASE("a recipient that is none is refused before anything is saved") {
    const TemporaryDirectory directory;
    CheckpointOptions options;
    options.directory = directory.path();
    options.encryption.recipients = {"age1nobody"};
    on_ranks(1, [&](Communicator& world) {
        Session session = Session::from_environment();
        try {
            Checkpointer checkpointer(session, world, options);
        } catch (const Error& error) {
            expect(
                std::string(error.what()).starts_with("EncryptionOptions::recipients[0]: not a Bech32 key"),
                error.what());
            return;
        }
        expect(false, "it was accepted");
    });
}

TEST_CASE("plain age opens each file, and what comes out is the safetensors file") {
    if (std::system("command -v age >/dev/null 2>&1") != 0) {
        std::printf("skipped: Debian's age is not installed; nothing else can open these files\n");
        std::exit(77);
    }
    const Keys keys;
    const TemporaryDirectory directory, plain_directory;
    save(keys.options(directory.path()), 1, 2, true);
    CheckpointOptions plain;
    plain.directory = plain_directory.path();
    save(plain, 1, 2, true);
    const fs::path checkpoint = directory.path() / checkpoint_name(1);
    const Manifest manifest = read_manifest(*make_posix_storage(), checkpoint);
    for (const Manifest::File& file : manifest.files) {
        const fs::path opened = keys.folder.path() / "opened";
        const std::string command = "age -d -i '" + (keys.folder.path() / "key").string() + "' '" +
                                    (checkpoint / file.name).string() + "' > '" + opened.string() +
                                    "'";
        REQUIRE(std::system(command.c_str()) == 0);
        const std::string name = file.name.substr(0, file.name.size() - 4);
        CHECK((read_file(opened) == read_file(plain_directory.path() / checkpoint_name(1) / name)));
        CHECK(fs::file_size(opened) == file.plain_bytes);
    }
}

namespace {

/// What a job's spec says, as the launcher tells it to its ranks.
struct SpecSays {
    explicit SpecSays(const std::map<const char*, std::string>& variables) {
        for (const auto& [name, value] : variables) {
            ::setenv(name, value.c_str(), 1);
            names.push_back(name);
        }
    }
    ~SpecSays() {
        for (const char* name : names)
            ::unsetenv(name);
    }
    std::vector<const char*> names;
};

CheckpointOptions in(const fs::path& directory) {
    CheckpointOptions options;
    options.directory = directory;
    return options;
}

}  // namespace

TEST_CASE("a trainer that says nothing of encryption encrypts and loads as its spec says") {
    need_crypto();
    const Keys keys;
    const TemporaryDirectory directory;
    {
        const SpecSays spec({{env::kCheckpointRecipients, keys.mine.recipient().to_text()},
                             {env::kCheckpointIdentityFile, (keys.folder.path() / "key").string()},
                             {env::kCheckpointEncryption, env::kEncryptionRequired}});
        save(in(directory.path()), 1, 2, true);
        load(in(directory.path()), 1, 3);
    }
    const Manifest manifest =
        read_manifest(*make_posix_storage(), directory.path() / checkpoint_name(1));
    for (const Manifest::File& file : manifest.files)
        CHECK(file.name.ends_with(".safetensors.age"));
    load(keys.options(directory.path()), 1, 2);
    load_fails(in(directory.path()), ErrorCode::invalid_argument, "no key was given");
}

TEST_CASE("a key that is destroyed takes every copy of its checkpoints with it") {
    need_crypto();
    const Keys keys;
    const TemporaryDirectory directory, copies;
    CheckpointOptions options = in(directory.path());
    options.encryption.recipients = {keys.mine.recipient().to_text()};
    options.encryption.identity_file = keys.folder.path() / "key";
    save(options, 1, 2, false);
    fs::copy(directory.path(), copies.path(), fs::copy_options::recursive);
    CheckpointOptions copied = options;
    copied.directory = copies.path();
    load(copied, 1, 2);  // as long as there is the key

    fs::remove(keys.folder.path() / "key");
    for (const CheckpointOptions& one : {options, copied}) {
        load_fails(one, ErrorCode::system, "key");
        CheckpointOptions another = one;
        another.encryption.identity_file = keys.folder.path() / "other";
        load_fails(another, ErrorCode::mismatch, "not encrypted for any of the 1 keys");
        const fs::path checkpoint = one.directory / checkpoint_name(1);
        const auto storage = make_posix_storage();
        for (const Manifest::File& file : read_manifest(*storage, checkpoint).files)
            verify_file(*storage, checkpoint, file, SaveVerification::every_block);
    }
}

}  // namespace encrypted_checkpoint_test
