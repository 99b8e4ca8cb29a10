// `autolaunch ckpt` on a bucket of a real server, Debian's radosgw: what reads, prune, and what
// says that it cannot. Skipped where it is missing.
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/commit/authentication.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/drain/tier.hpp"
#include "checkpoints/checkpoint_command.hpp"
#include "checkpoints/checkpoint_writer.hpp"
#include "exit_codes/exit_codes.hpp"
#include "s3_server.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace checkpoint_tools_s3_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::s3::testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

Deadline soon() { return Deadline::after(60s); }

const std::string kRuns = "s3://weights/a/runs";

s3::S3Client client() {
    return {s3::testing::location_at(server().port(), "weights"), test_credentials()};
}

/// Keys, and checkpoints that are encrypted and have a MAC: in runs/ here, and the same in the
/// bucket.
class Workplace {
public:
    Workplace() : path_(fs::temp_directory_path() / ("autolaunch-ckpt-s3-" + random_hex(8))) {
        fs::create_directory(path_);
        const auto identity = age::Identity::generate();
        write_file(path_ / "key", std::string(crypto::as_text(identity.to_text())) + "\n", 0600);
        write_file(path_ / "mac", std::string(crypto::as_text(AuthenticationKeys::new_key_line())),
                   0600);
        keys.identity_file = path_ / "key";
        keys.authentication_key_file = path_ / "mac";
        keys.recipients = {identity.recipient().to_text()};
        use_server();
    }
    ~Workplace() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    Workplace(const Workplace&) = delete;

    fs::path runs() const { return path_ / "runs"; }
    fs::path out(const std::string& name) const { return path_ / name; }

    void save(std::int64_t step) const {
        const auto storage = make_posix_storage();
        Manifest described;
        described.step = step;
        described.tensors = {
            {"h.0.w", f32, {2'000'000}, {}}, {"ids", i64, {500}, {}}, {"e", u8, {0}, {}}};
        WrittenAs as{2, {}};
        as.encryption.recipients = keys.recipients;
        as.encryption.authentication_key_file = keys.authentication_key_file;
        const fs::path made =
            write_checkpoint(*storage, runs(), described, as, [&](const fsdp::State& state) {
                for (const auto& tensor : state)
                    for (const auto& piece : tensor.pieces)
                        std::fill_n(piece.data,
                                    static_cast<std::size_t>(piece.count) * size_of(tensor.type),
                                    static_cast<std::byte>(step));
            });
        const auto tier = make_tier(kRuns);
        const std::string name = checkpoint_name(step);
        for (const Manifest::File& file : read_manifest(*storage, made).files) {
            const auto opened = storage->open(made / file.name);
            tier->put(
                name, file,
                [&](std::uint64_t offset, std::span<std::byte> bytes) {
                    opened->read_at(offset, bytes);
                },
                [](std::uint64_t) {}, soon());
        }
        REQUIRE(tier->publish(name, read_file(made / kManifestName), soon()));
    }

    launcher::CheckpointKeys keys;

private:
    static void use_server() {
        need_s3_server();
        static const auto bucket =
            client().put("", {}, false, soon());  // an object with an empty name is the bucket
        (void)bucket;
        ::setenv("AWS_ENDPOINT_URL",
                 ("http://localhost:" + std::to_string(server().port())).c_str(), 1);
        ::setenv("AWS_ACCESS_KEY_ID", "AKIATEST", 1);
        ::setenv("AWS_SECRET_ACCESS_KEY", "test/secret+with/slashes=", 1);
    }

    fs::path path_;
};

CheckpointOutcome run(const Workplace& place, CheckpointAction action,
                      std::vector<std::string> paths, CheckpointRequest request = {}) {
    request.action = action;
    request.paths = std::move(paths);
    request.keys = place.keys;
    request.all = true;
    return run_checkpoint_command(request);
}

std::string refusal(const Workplace& place, CheckpointAction action,
                    std::vector<std::string> paths) {
    try {
        run(place, action, std::move(paths));
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::unsupported);
        return error.what();
    }
    return "it was done";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "checkpoints in a bucket are listed, read, verified and deleted as those of a directory are") {
    need_s3_server();
    const Workplace place;
    for (const std::int64_t step : {1, 2, 3, 4})
        place.save(step);
    const auto listed = run(place, CheckpointAction::list, {kRuns});
    for (const char* name : {"step-00000001", "step-00000004"})
        CHECK(has(listed.text, name));
    CHECK_FALSE(has(listed.text, "not complete"));
    const auto shown = run(place, CheckpointAction::show, {kRuns});
    CHECK(has(shown.text, "s3://weights/a/runs/step-00000004"));
    CHECK(has(shown.text, "authentic"));
    CHECK(has(run(place, CheckpointAction::verify, {kRuns + "/step-00000002"}).text,
              ": whole: 2 files"));
    CHECK(run(place, CheckpointAction::diff,
              {kRuns + "/step-00000003", place.runs() / "step-00000003"})
              .exit_code == 0);
    CHECK(run(place, CheckpointAction::diff, {kRuns + "/step-00000003", kRuns}).exit_code ==
          exit_code::kFindings);

    run(place, CheckpointAction::export_tensors, {kRuns, place.out("from-bucket.safetensors")});
    run(place, CheckpointAction::export_tensors,
        {place.runs(), place.out("from-disk.safetensors")});
    CHECK((read_file(place.out("from-bucket.safetensors")) ==
           read_file(place.out("from-disk.safetensors"))));
    CheckpointRequest on_three;
    on_three.ranks = 3;
    run(place, CheckpointAction::reshard, {kRuns, place.out("three")}, on_three);
    CHECK(run(place, CheckpointAction::diff, {kRuns, place.out("three")}).exit_code == 0);

    // Nothing is made there, and it is said so.
    CHECK(
        has(refusal(place, CheckpointAction::export_tensors, {kRuns, "s3://weights/x.safetensors"}),
            "is read here"));
    CHECK(has(refusal(place, CheckpointAction::reshard, {place.runs(), "s3://weights/x"}),
              "is read here"));
    CHECK(has(refusal(place, CheckpointAction::convert, {place.out("three"), "s3://weights/x"}),
              "is read here"));
    CHECK(has(refusal(place, CheckpointAction::convert, {kRuns, place.out("x")}),
              "it is in a bucket"));

    // Somebody who can write there: he changes an object.
    const std::string key = "a/runs/step-00000004/shard-00001-model-00001-of-00001.safetensors.age";
    std::string content(client().find(key, soon()).value(), '\0');
    client().get(key, 0, std::as_writable_bytes(std::span(content)), soon());
    content[100'000] = static_cast<char>(content[100'000] ^ 1);
    client().put(key, std::as_bytes(std::span(content)), false, soon());
    const auto damaged = run(place, CheckpointAction::verify, {kRuns});
    CHECK(damaged.exit_code == exit_code::kFindings);
    CHECK(has(
        damaged.text,
        "step-00000004/shard-00001-model-00001-of-00001.safetensors.age does not hold what was"));

    CheckpointRequest one;
    one.keep = 1;
    one.every = 2;
    one.dry_run = true;
    CHECK(
        has(run(place, CheckpointAction::prune, {kRuns}, one).text, "would delete step-00000003"));
    CHECK(make_tier(kRuns)->list().size() == 4);
    one.dry_run = false;
    const auto pruned = run(place, CheckpointAction::prune, {kRuns}, one);
    CHECK(has(pruned.text, "deleted step-00000001: older than the newest 1"));
    CHECK(has(pruned.text, "2 checkpoints, "));
    std::vector<std::string> left;
    for (const auto& checkpoint : make_tier(kRuns)->list())
        left.push_back(checkpoint.name);
    CHECK(left == std::vector<std::string>{"step-00000004", "step-00000002"});
    CHECK(client().list("a/runs/step-00000003/", true, soon()).objects.empty());
}

TEST_CASE("a place in a bucket where nothing is has no checkpoints") {
    const Workplace place;
    CHECK(run(place, CheckpointAction::list, {"s3://weights/nothing"}).text ==
          "no checkpoints in s3://weights/nothing\n");
    try {
        run(place, CheckpointAction::show, {"s3://weights/nothing"});
        FAIL("it was shown");
    } catch (const SystemError& error) {
        CHECK(error.error_number() == ENOENT);
    }
}

}  // namespace checkpoint_tools_s3_test
