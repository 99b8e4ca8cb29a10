// Checkpoints with a MAC: who has no key can neither write nor change one, whatever he replaces and
// recomputes.

#include "../unit/need_crypto.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "fsdp_ranks.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace authenticated_checkpoint_test {

using namespace autolaunch;
using autolaunch::fsdp::testing::expect;
using autolaunch::fsdp::testing::expect_error;
using autolaunch::fsdp::testing::on_ranks;
using autolaunch::fsdp::testing::TemporaryDirectory;
using autolaunch::testing::need_crypto;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kCount =
    2'500'004;  // of "w", cut over the ranks: two blocks for each of two

/// A state whose values tell their place and step.
struct Sample {
    Sample(Communicator& world, std::int64_t step)
        : begin(kCount * world.rank() / world.size()),
          end(kCount * (world.rank() + 1) / world.size()) {
        for (std::int64_t i = begin; i < end; ++i)
            cut.push_back(static_cast<float>((i * 7 + step * 13) % 1'000'003));
    }
    fsdp::State state() {
        return {{"w",
                 f32,
                 {kCount},
                 {{begin, end - begin, reinterpret_cast<std::byte*>(cut.data())}},
                 false}};
    }

    std::int64_t begin, end;
    std::vector<float> cut;
};

/// Keys, and a directory of checkpoints.
struct Workplace {
    Workplace() : identity(age::Identity::generate()) {
        write_file(folder.path() / "key", std::string(crypto::as_text(identity.to_text())) + "\n",
                   0600);
        for (const std::string name : {"mac", "other-mac"})
            write_file(folder.path() / name,
                       std::string(crypto::as_text(AuthenticationKeys::new_key_line())), 0600);
    }
    CheckpointOptions options(bool encrypted, const std::string& mac = "mac") const {
        CheckpointOptions options;
        options.directory = runs();
        options.keep = 5;
        if (encrypted) {
            options.encryption.recipients = {identity.recipient().to_text()};
            options.encryption.identity_file = folder.path() / "key";
        }
        if (!mac.empty())
            options.encryption.authentication_key_file = folder.path() / mac;
        return options;
    }
    fs::path runs() const { return folder.path() / "runs"; }
    fs::path checkpoint(std::int64_t step) const { return runs() / checkpoint_name(step); }

    TemporaryDirectory folder;
    age::Identity identity;
};

void save(const CheckpointOptions& options, std::int64_t step, int ranks, bool async = false) {
    on_ranks(ranks, [&](Communicator& world) {
        Session session = Session::from_environment();
        Checkpointer checkpointer(session, world, options);
        Sample sample(world, step);
        if (!async)
            return (void)checkpointer.save(step, sample.state());
        checkpointer.save_async(step, sample.state());
        checkpointer.finish();
    });
}

void load(const CheckpointOptions& options, std::int64_t step, int ranks) {
    on_ranks(ranks, [&](Communicator& world) {
        Session session = Session::from_environment();
        Checkpointer checkpointer(session, world, options);
        Sample loaded(world, 999);
        const auto found = checkpointer.load_latest(loaded.state());
        expect(found && found->step == step, "it is found");
        expect(loaded.cut == Sample(world, step).cut, "every value is what was saved");
    });
}

void refused(const CheckpointOptions& options, const std::string& words, int ranks = 1) {
    on_ranks(ranks, [&](Communicator& world) {
        Session session = Session::from_environment();
        Checkpointer checkpointer(session, world, options);
        Sample loaded(world, 999);
        expect_error(ErrorCode::corrupt, words,
                     [&] { (void)checkpointer.load_latest(loaded.state()); });
    });
}

/// Changes files of a checkpoint, and puts all back at the end.
class Tampering {
public:
    explicit Tampering(fs::path checkpoint) : checkpoint_(std::move(checkpoint)) {
        for (const auto& entry : fs::directory_iterator(checkpoint_))
            saved_.emplace_back(entry.path(), read_file(entry.path()));
    }
    ~Tampering() {
        for (const auto& [path, content] : saved_)
            write_file(path, content);
    }
    Tampering(const Tampering&) = delete;

    void flip(const std::string& file, std::uint64_t at) const {
        std::fstream stream(checkpoint_ / file, std::ios::in | std::ios::out | std::ios::binary);
        stream.seekg(static_cast<std::streamoff>(at));
        const int byte = stream.get();
        stream.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte ^ 1));
    }
    Manifest manifest() const { return read_manifest(*make_posix_storage(), checkpoint_); }
    // With XXH3 of the files as they are now.
    Manifest recomputed() const {
        Manifest manifest = this->manifest();
        for (Manifest::File& file : manifest.files) {
            const std::string content = read_file(checkpoint_ / file.name);
            for (std::size_t i = 0; i < file.block_digests.size(); ++i) {
                const std::uint64_t at = i * Manifest::kBlockBytes;
                file.block_digests[i] =
                    hash128(content.data() + at,
                            std::min<std::uint64_t>(Manifest::kBlockBytes, content.size() - at));
            }
            file.digest = hash128_of(file.block_digests);
        }
        return manifest;
    }
    void write(const Manifest& manifest, const AuthenticationKeys& keys = {}) const {
        write_file(checkpoint_ / kManifestName, keys.to_text(manifest));
    }
    const fs::path& path() const { return checkpoint_; }

private:
    fs::path checkpoint_;
    std::vector<std::pair<fs::path, std::string>> saved_;
};

}  // namespace

TEST_CASE("checkpoints with a MAC load on any number of ranks, encrypted or not") {
    need_crypto();
    for (const bool encrypted : {false, true}) {
        const Workplace place;
        const CheckpointOptions options = place.options(encrypted);
        save(options, 1, 2);
        load(options, 1, 3);
        save(options, 2, 3, true);
        load(options, 2, 1);
        CheckpointOptions by_command = options;
        by_command.encryption.authentication_key_file.clear();
        by_command.encryption.authentication_key_command =
            "cat '" + (place.folder.path() / "mac").string() + "'";
        load(by_command, 2, 2);
        // Who has no key reads it all the same, as he did before.
        load(place.options(encrypted, ""), 2, 2);
    }
}

TEST_CASE(
    "what was saved without the key, or with another, is refused; a job does not start anew") {
    const Workplace place;
    save(place.options(true, ""), 1, 2);
    refused(place.options(true), "has no MAC, and an authentication key was given", 2);
    save(place.options(true, "other-mac"), 2, 2);
    refused(place.options(true), "does not have the MAC of the authentication key given", 2);
    save(place.options(true), 3, 2);
    load(place.options(true), 3, 2);
    // A newer one of somebody who knows the recipient: passed over, and the reason is told.
    save(place.options(true, ""), 4, 2);
    load(place.options(true, ""), 4, 2);
    on_ranks(1, [&](Communicator& world) {
        Session session = Session::from_environment();
        const auto found = Checkpointer(session, world, place.options(true)).latest();
        expect(found && found->step == 3 && found->skipped.size() == 1, "the newest authentic one");
        expect(found->skipped[0].find("has no MAC") != std::string::npos, found->skipped[0]);
    });
    // Nothing is deleted because a key is wrong.
    for (const std::int64_t step : {1, 2, 3, 4})
        CHECK(fs::exists(place.checkpoint(step)));
}

TEST_CASE("the MAC goes along to the second place, which is as strict") {
    const Workplace place;
    CheckpointOptions options = place.options(true);
    options.drain.place = (place.folder.path() / "far").string();
    save(options, 1, 2);  // its end waits for the drain
    const fs::path far = fs::path(options.drain.place) / checkpoint_name(1);
    REQUIRE(fs::exists(far / kManifestName));
    CHECK(read_file(far / kManifestName) == read_file(place.checkpoint(1) / kManifestName));
    {
        // Here is only what somebody without the key wrote.
        const Tampering attack(place.checkpoint(1));
        attack.write(attack.manifest());
        on_ranks(2, [&](Communicator& world) {
            Session session = Session::from_environment();
            const auto found = Checkpointer(session, world, options).latest();
            expect(found && found->path == far, "the one there is taken");
        });
    }
    fs::remove_all(place.checkpoint(1));
    {
        const Tampering attack(far);
        attack.write(attack.manifest());
        refused(options, "has no MAC");
    }
    load(options, 1, 2);
}

TEST_CASE("a key that others may read stops a save before it begins") {
    const Workplace place;
    fs::permissions(place.folder.path() / "mac", fs::perms::group_read, fs::perm_options::add);
    on_ranks(2, [&](Communicator& world) {
        Session session = Session::from_environment();
        Checkpointer checkpointer(session, world, place.options(false));
        Sample sample(world, 1);
        expect_error(ErrorCode::invalid_argument, "is open to others",
                     [&] { checkpointer.save(1, sample.state()); });
    });
    CHECK_FALSE(fs::exists(place.runs()));
}

TEST_CASE("a change in any block of any file is found, also with XXH3 made anew") {
    for (const bool encrypted : {false, true}) {
        const Workplace place;
        save(place.options(encrypted), 1, 2);
        const AuthenticationKeys keys =
            AuthenticationKeys::find(place.options(encrypted).encryption);
        const Manifest manifest = Tampering(place.checkpoint(1)).manifest();
        REQUIRE(manifest.files.size() == 2);
        for (const Manifest::File& file : manifest.files) {
            REQUIRE(file.block_sha256.size() == 2);
            for (const std::uint64_t at : {std::uint64_t{5000}, file.bytes - 1}) {
                INFO(file.name, " ", at);
                const Tampering attack(place.checkpoint(1));
                attack.flip(file.name, at);
                refused(place.options(encrypted), "the file was changed after it was saved");
                attack.write(attack.recomputed());
                refused(place.options(encrypted), "has no MAC");
                // Without the key it is believed, or, encrypted, as far as age's own seal.
                if (encrypted)
                    refused(place.options(encrypted, ""), "was changed, or the file was cut off");
                else
                    on_ranks(1, [&](Communicator& world) {
                        Session session = Session::from_environment();
                        Sample loaded(world, 999);
                        (void)Checkpointer(session, world, place.options(false, ""))
                            .load_latest(loaded.state());
                        expect(loaded.cut != Sample(world, 1).cut, "wrong weights were loaded");
                    });
                // An attacker who could make XXH3 collide needs no other manifest: SHA-256 is what
                // counts then.
                attack.write(attack.recomputed(), keys);
                refused(place.options(encrypted), "the file was changed after it was saved");
            }
        }
        load(place.options(encrypted), 1, 2);
    }
}

TEST_CASE("files of another rank, another step or another save do not take a file's place") {
    const Workplace place;
    const CheckpointOptions options = place.options(true);
    save(options, 1, 2);
    save(options, 2, 2);
    fs::copy(place.checkpoint(2), place.folder.path() / "first-save");
    save(options, 2, 2);  // anew, of the same values: other keys of age
    const Manifest manifest = Tampering(place.checkpoint(2)).manifest();
    const std::string first = manifest.files[0].name, second = manifest.files[1].name;
    CheckpointOptions strict = options;
    fs::remove_all(place.folder.path() / "step-1");
    fs::rename(place.checkpoint(1), place.folder.path() / "step-1");
    const auto replace = [&](const std::string& file, const fs::path& by) {
        const Tampering attack(place.checkpoint(2));
        const std::string content = read_file(by);
        write_file(attack.path() / file, content);
        refused(strict, "was changed after it was saved");
    };
    replace(first, place.checkpoint(2) / second);
    replace(first, place.folder.path() / "step-1" / first);
    replace(second, place.folder.path() / "first-save" / second);
    {
        const Tampering attack(place.checkpoint(2));  // two files change places
        const std::string one = read_file(attack.path() / first),
                          other = read_file(attack.path() / second);
        write_file(attack.path() / first, other);
        write_file(attack.path() / second, one);
        Manifest changed = manifest;
        std::swap(changed.files[0], changed.files[1]);
        attack.write(changed);
        refused(strict, "has no MAC");
    }
    {
        const Tampering attack(place.checkpoint(2));  // the manifest of another step
        write_file(attack.path() / kManifestName,
                   read_file(place.folder.path() / "step-1" / kManifestName));
        on_ranks(1, [&](Communicator& world) {
            Session session = Session::from_environment();
            expect_error(ErrorCode::corrupt, "its manifest is of step 1",
                         [&] { (void)Checkpointer(session, world, strict).latest(); });
        });
    }
    // All of step 1 under a later name.
    fs::rename(place.folder.path() / "step-1", place.checkpoint(9));
    load(options, 2, 2);
}

TEST_CASE("a damaged block of an authentic checkpoint makes load_latest() take the one before") {
    const Workplace place;
    save(place.options(true), 1, 2);
    save(place.options(true), 2, 2);
    const Tampering attack(place.checkpoint(2));
    attack.flip(attack.manifest().files[1].name, 100'000);
    load(place.options(true), 1, 2);
}

}  // namespace authenticated_checkpoint_test
