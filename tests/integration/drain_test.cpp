// Draining to a bucket of a real S3 server and to a directory: killed at any moment, over a network
// that fails, and loaded from there.

#include "../unit/drain_samples.hpp"
#include "base/file_io.hpp"
#include "checkpoint/s3/s3_storage.hpp"
#include "fsdp_ranks.hpp"
#include "s3_server.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/session.hpp>

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <fstream>

namespace drain_test {

using namespace autolaunch;
using namespace autolaunch::testing;
using namespace autolaunch::s3::testing;
using autolaunch::fsdp::testing::expect;
using autolaunch::fsdp::testing::on_ranks;
using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Fate = BadNetwork::Fate;

namespace {

constexpr std::size_t kElements = (23 << 20) / 4 + 77;  // six blocks, the last one short

struct Folder {
    Folder() : path(fs::temp_directory_path() / ("autolaunch-drain-" + random_hex(8))) {}
    ~Folder() { fs::remove_all(path); }
    fs::path path;
};

// One bucket for all cases; each has a prefix of its own.
s3::Location bucket(const std::string& prefix, int port = 0) {
    static const bool made = [] {
        need_s3_server();
        s3::S3Client(location_at(server().port(), "weights"), test_credentials())
            .put("", {}, false, Deadline::after(30s));
        return true;
    }();
    (void)made;
    return location_at(port == 0 ? server().port() : port, "weights", prefix);
}

s3::S3Client client_of(const std::string& prefix) { return {bucket(prefix), test_credentials()}; }

std::unique_ptr<Tier> tier_of(const s3::Location& location) {
    return make_s3_tier(location, test_credentials(), {.part_bytes = 5 << 20, .parallel = 2});
}

DrainSettings options(const fs::path& near, int keep = 2) {
    DrainSettings options;
    options.directory = near;
    options.retention.keep = keep;
    options.first_pause = 20ms;
    return options;
}

std::optional<std::int64_t> newest_in(const std::string& prefix) {
    return newest_sample(s3::make_s3_storage(bucket(prefix), test_credentials()),
                         "s3://weights/" + prefix, kElements);
}

}  // namespace

TEST_CASE("a directory is a tier too, and its link says which is the newest") {
    const Folder near, far;
    DrainLog log;
    for (const std::int64_t step : {100, 200})
        save_sample(make_posix_storage(), near.path, step, kElements);
    Drain drain(make_posix_storage(), make_tier(far.path), options(near.path), log.events());
    CHECK(drain.wait_idle(Deadline::after(60s)));
    CHECK_MESSAGE(log.notes().empty(), log.notes());
    CHECK(newest_sample(make_posix_storage(), far.path, kElements) == 200);
    CHECK(fs::read_symlink(far.path / "latest") == "step-00000200");
    CHECK(read_file(far.path / "step-00000100/manifest.json") ==
          read_file(near.path / "step-00000100/manifest.json"));
}

// Saves of two ranks with a second place; then the first is lost, and three ranks go on from the
// second.
void train_and_lose(const std::string& place) {
    const Folder near, other;
    constexpr std::int64_t kCount = 3'000'000;
    const auto piece = [&](Communicator& world, std::vector<float>& values,
                           float value) -> fsdp::State {
        const std::int64_t begin = kCount * world.rank() / world.size();
        const std::int64_t end = kCount * (world.rank() + 1) / world.size();
        values.assign(static_cast<std::size_t>(end - begin), value);
        return {{"w",
                 f32,
                 {kCount},
                 {{begin, end - begin, reinterpret_cast<std::byte*>(values.data())}},
                 false}};
    };
    CheckpointOptions options;
    options.directory = near.path;
    options.keep = 1;
    options.drain = {.place = place, .keep = 2};
    on_ranks(2, [&](Communicator& world) {
        Session session = Session::from_environment();
        Checkpointer checkpointer(session, world, options);
        std::vector<float> values;
        for (int step = 1; step <= 3; ++step) {
            checkpointer.save_async(step, piece(world, values, static_cast<float>(step)));
            checkpointer.wait_copied();
        }
        checkpointer.finish();
        expect(checkpointer.wait_drained(60s), "it is drained");
        checkpointer.save(4, piece(world, values, 4));
    });  // the end waits for the last one
    CHECK(fs::exists(near.path / "step-00000004"));
    CHECK_FALSE(fs::exists(near.path / "step-00000003"));
    options.directory = other.path;
    on_ranks(3, [&](Communicator& world) {
        Session session = Session::from_environment();
        Checkpointer checkpointer(session, world, options);
        std::vector<float> values;
        const fsdp::State state = piece(world, values, -1);
        const auto found = checkpointer.load_latest(state);
        expect(found && found->step == 4 && found->path == fs::path(place) / "step-00000004",
               "the second place's");
        for (const float value : values)
            expect(value == 4, "each value is what was saved");
        expect(checkpointer.latest(4).has_value(), "the one before is there too");
    });
}

TEST_CASE("a job goes on from a shared directory when its own disk is lost") {
    const Folder far;
    train_and_lose(far.path);
}

TEST_CASE("a job goes on from a bucket when its own disk is lost") {
    bucket("job");
    ::setenv("AWS_ENDPOINT_URL", ("http://localhost:" + std::to_string(server().port())).c_str(),
             1);
    ::setenv("AWS_ACCESS_KEY_ID", "AKIATEST", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "test/secret+with/slashes=", 1);
    train_and_lose("s3://weights/job");
}

TEST_CASE("checkpoints go to a bucket and are loaded from there; old ones leave it") {
    const Folder near;
    save_sample(make_posix_storage(), near.path, 100, kElements);
    DrainLog log;
    Drain drain(make_posix_storage(), tier_of(bucket("plain")), options(near.path), log.events());
    CHECK(drain.wait_idle(Deadline::after(60s)));
    CHECK(newest_in("plain") == 100);
    for (const std::int64_t step : {200, 300}) {
        save_sample(make_posix_storage(), near.path, step, kElements);
        drain.wake();
        CHECK(drain.wait_idle(Deadline::after(60s)));
        CHECK(newest_in("plain") == step);
    }
    CHECK_MESSAGE(log.notes().empty(), log.notes());
    REQUIRE(log.drained().size() == 3);
    CHECK(log.drained()[2].path == "s3://weights/plain/step-00000300");
    CHECK(log.drained()[2].bytes > kElements * 4);
    CHECK(client_of("plain").list("", false, Deadline::after(30s)).prefixes ==
          std::vector<std::string>{"step-00000200/", "step-00000300/"});
}

TEST_CASE(
    "a process that is killed at any moment leaves the last one whole, and the next one goes on") {
    const Folder near;
    save_sample(make_posix_storage(), near.path, 100, kElements);
    {
        DrainLog log;
        Drain drain(make_posix_storage(), tier_of(bucket("killed")), options(near.path, 1),
                    log.events());
        REQUIRE(drain.wait_idle(Deadline::after(60s)));
    }
    save_sample(make_posix_storage(), near.path, 200, kElements);
    int old_found = 0;
    for (int i = 0; i < 12; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            Drain drain(make_posix_storage(), tier_of(bucket("killed")), options(near.path, 1), {});
            drain.wait_idle(Deadline::after(60s));
            ::_exit(0);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10 + 25 * i));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        const auto found = newest_in("killed");
        CHECK((found == 100 || found == 200));
        old_found += found == 100 ? 1 : 0;
    }
    CHECK(old_found > 0);
    DrainLog log;
    Drain drain(make_posix_storage(), tier_of(bucket("killed")), options(near.path, 1),
                log.events());
    CHECK(drain.wait_idle(Deadline::after(60s)));
    CHECK(newest_in("killed") == 200);
    CHECK(client_of("killed").list("", false, Deadline::after(30s)).prefixes ==
          std::vector<std::string>{"step-00000200/"});
    CHECK(client_of("killed").abort_uploads("", Deadline::after(30s)) == 0);
}

TEST_CASE("a network that breaks delays a drain, and does no more") {
    const Folder near;
    save_sample(make_posix_storage(), near.path, 100, kElements);
    const std::vector<Fate> fates = {Fate::cut_answer, Fate::close,       Fate::unavailable,
                                     Fate::cut_body,   Fate::cut_body,    Fate::cut_answer,
                                     Fate::cut_body,   Fate::unavailable, Fate::cut_body,
                                     Fate::cut_answer, Fate::cut_answer,  Fate::cut_body};
    BadNetwork network(server().port(), fates);
    DrainLog log;
    {
        Drain drain(make_posix_storage(), tier_of(bucket("broken", network.port())),
                    options(near.path), log.events());
        CHECK_MESSAGE(drain.wait_idle(Deadline::after(90s)), log.notes());
    }
    CHECK(network.connections() > static_cast<int>(fates.size()));
    CHECK(log.drained().size() == 1);
    CHECK(newest_in("broken") == 100);
}

TEST_CASE("what a bucket refuses is noted without secrets, and tried again") {
    const Folder near;
    save_sample(make_posix_storage(), near.path, 100);
    DrainLog log;
    s3::Location nowhere = bucket("x");
    nowhere.bucket = "no-such-bucket";
    Drain drain(make_posix_storage(), tier_of(nowhere), options(near.path), log.events());
    CHECK_FALSE(drain.wait_idle(Deadline::after(300ms)));
    CHECK_MESSAGE(log.notes().find("404 NoSuchBucket; again in 20 ms") != std::string::npos,
                  log.notes());
    CHECK(log.notes().find("again in 40 ms") != std::string::npos);
    CHECK(log.notes().find("test/secret") == std::string::npos);
}

TEST_CASE("a drain ends soon, even while a server is silent") {
    const Folder near;
    save_sample(make_posix_storage(), near.path, 100);
    bucket("silent");
    BadNetwork network(server().port(), std::vector(50, Fate::silence));
    const auto start = std::chrono::steady_clock::now();
    {
        Drain drain(make_posix_storage(), tier_of(bucket("silent", network.port())),
                    options(near.path), {});
        std::this_thread::sleep_for(200ms);
    }
    CHECK(std::chrono::steady_clock::now() - start < 4s);
}

}  // namespace drain_test
