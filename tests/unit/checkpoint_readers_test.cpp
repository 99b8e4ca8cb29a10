// Who may open a job's checkpoints: the spec's word, the administrator's, and what both come to in
// a rank.

#include "at_rest/checkpoint_readers.hpp"
#include "../write_file.hpp"
#include "base/hash.hpp"
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/encryption_environment.hpp"
#include "need_crypto.hpp"
#include "session/environment.hpp"
#include "spec/yaml_reader.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace checkpoint_readers_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::need_crypto;
namespace fs = std::filesystem;

namespace {

using Lines = std::vector<std::string>;

struct Settled {
    CheckpointSpec checkpoint;
    Lines errors;
};

// `text`: what stands below checkpoint, on line 2 and after.
Settled settled(CheckpointSpec checkpoint, const std::string& text,
                const std::string& site_text = "") {
    std::vector<SpecError> errors;
    const Value root = read_yaml("checkpoint:\n" + text, "job.yaml", errors);
    const SiteSettings site = read_site_settings(read_yaml(site_text, "site.yaml", errors),
                                                 SiteSource::administrator, errors);
    REQUIRE(errors.empty());
    const Value& section = root.find("checkpoint")->value;
    settle_readers(checkpoint, section, errors);
    require_readers(checkpoint, section, site, errors);
    Settled result{std::move(checkpoint), {}};
    for (const SpecError& error : errors)
        result.errors.push_back(to_string(error));
    return result;
}

CheckpointSpec with_recipients(Lines recipients) {
    CheckpointSpec checkpoint;
    checkpoint.recipients = std::move(recipients);
    return checkpoint;
}

std::string new_key() { return age::Identity::generate().recipient().to_text(); }

bool has(const Lines& lines, const std::string& words) {
    for (const std::string& line : lines)
        if (line.find(words) != std::string::npos)
            return true;
    return false;
}

struct Folder {
    Folder() : path(fs::temp_directory_path() / ("autolaunch-readers-" + random_hex(8))) {
        fs::create_directory(path);
    }
    ~Folder() { fs::remove_all(path); }
    fs::path path;
};

constexpr const char* kAtRest = "data_security: {encryption_at_rest: true}";

}  // namespace

TEST_CASE("what is no public key is named by its line, and a secret one is not repeated") {
    need_crypto();
    const std::string good = new_key();
    const auto secret_bytes = age::Identity::generate().to_text();
    const std::string secret(crypto::as_text(secret_bytes));
    const Settled result =
        settled(with_recipients({good, "age1nobody", secret, "ssh-ed25519 AAAA", good}),
                "  recipients:\n  - a\n  - b\n  - c\n  - d\n  - a\n");
    REQUIRE(result.errors.size() == 3);
    CHECK(result.errors[0].starts_with("job.yaml:4:5: checkpoint.recipients[1]: "));
    CHECK(result.errors[1].starts_with("job.yaml:5:5: checkpoint.recipients[2]: this is a secret"));
    CHECK(result.errors[1].find(secret) == std::string::npos);
    CHECK(has(result.errors, "keys of SSH are not supported"));
    CHECK(result.checkpoint.recipients.front() == good);
    CHECK(result.checkpoint.recipients.size() == 4);  // each once
}

TEST_CASE("a file adds recipients, and what is wrong in it is named by the file's line") {
    need_crypto();
    const Folder folder;
    const std::string file = folder.path / "readers", mine = new_key(), other = new_key();
    write_file(file, "# who reads\n\n" + mine + "\n " + other + "\n");
    CheckpointSpec checkpoint = with_recipients({mine});
    checkpoint.recipients_file = file;
    Settled result = settled(checkpoint, "  recipients_file: x\n");
    CHECK(result.errors == Lines{});
    CHECK(result.checkpoint.recipients == Lines{mine, other});

    write_file(file, mine + "\nage1x\n");
    result = settled(checkpoint, "  recipients_file: x\n");
    CHECK(has(result.errors, "job.yaml:2:20: checkpoint.recipients_file: " + file + ":2: "));
    write_file(file, "# nobody\n");
    result = settled(checkpoint, "  recipients_file: x\n");
    CHECK(has(result.errors, "names nobody"));
    checkpoint.recipients_file = folder.path / "absent";
    result = settled(checkpoint, "  recipients_file: x\n");
    CHECK(has(result.errors, "No such file"));
}

TEST_CASE("secret keys are named by absolute paths, for ranks may start elsewhere") {
    CheckpointSpec checkpoint;
    checkpoint.identity_file = "key.txt";
    checkpoint.authentication_key_file = "/k/mac.txt";
    const Settled result = settled(checkpoint, "  identity_file: key.txt\n");
    CHECK(result.checkpoint.identity_file == (fs::current_path() / "key.txt").string());
    CHECK(result.checkpoint.authentication_key_file == "/k/mac.txt");
}

TEST_CASE("a spec that saves and names no recipient is refused where the site wants them") {
    need_crypto();
    CheckpointSpec saving;
    saving.enabled = true;
    const Settled refused = settled(saving, "  enabled: true\n", kAtRest);
    REQUIRE(refused.errors.size() == 1);
    CHECK(refused.errors[0].starts_with("job.yaml:2:3: checkpoint.recipients: "));
    CHECK(has(refused.errors, "encryption_at_rest is true (site.yaml:1)"));
    CHECK(has(refused.errors, "recipients: [age1...]"));
    CHECK(refused.checkpoint.must_be_encrypted);

    saving.recipients = {new_key()};
    CHECK(settled(saving, "  enabled: true\n", kAtRest).errors == Lines{});
    CHECK(settled(CheckpointSpec{}, "  enabled: false\n", kAtRest).errors == Lines{});
    CHECK(settled(CheckpointSpec{}, "  enabled: false\n", kAtRest).checkpoint.must_be_encrypted);
    CheckpointSpec by_folder;
    by_folder.checkpoint_dir = "/shared/c";
    CHECK(settled(by_folder, "  checkpoint_dir: /shared/c\n", kAtRest).errors.size() == 1);
    const Settled free = settled(by_folder, "  checkpoint_dir: /shared/c\n",
                                 "data_security: {encryption_at_rest: false}");
    CHECK(free.errors == Lines{});
    CHECK_FALSE(free.checkpoint.must_be_encrypted);
}

TEST_CASE(
    "a rank adds the spec's recipients to the trainer's own, and its keys where it has none") {
    const Environment spec = {{env::kCheckpointRecipients, "age1a, age1b,,"},
                              {env::kCheckpointIdentityFile, "/spec/key"},
                              {env::kCheckpointMacFile, "/spec/mac"}};
    EncryptionOptions own;
    own.recipients = {"age1b", "age1c"};
    own.identity_command = "pass show key";
    const EncryptionOptions both = with_environment(own, spec);
    CHECK(both.recipients == Lines{"age1b", "age1c", "age1a"});
    CHECK(both.identity_file.empty());
    CHECK(both.identity_command == "pass show key");
    CHECK(both.authentication_key_file == "/spec/mac");
    CHECK(with_environment({}, spec).identity_file == "/spec/key");
    CHECK(with_environment(own, {}).recipients == own.recipients);
}

TEST_CASE("where encryption is required a rank without recipients writes nothing") {
    const Environment required = {{env::kCheckpointEncryption, env::kEncryptionRequired}};
    CHECK_THROWS_WITH_AS(with_environment({}, required),
                         doctest::Contains("nobody is named who may open them"), Error);
    EncryptionOptions own;
    own.recipients = {"age1c"};
    CHECK(with_environment(own, required).recipients == Lines{"age1c"});
    CHECK_THROWS_WITH_AS(with_environment(own, {{env::kCheckpointEncryption, "off"}}),
                         doctest::Contains("is off, not required"), Error);
}

}  // namespace checkpoint_readers_test
