// Objects of a bucket, brought to this disk, from a real server: Debian's radosgw. Skipped where it
// is missing.
#include "exit_codes/exit_error.hpp"
#include "processes.hpp"
#include "remote_data/remote_copy.hpp"
#include "remote_data/remote_source.hpp"
#include "s3_server.hpp"
#include "stage_cache/stage_tree.hpp"
#include "stage_out/out_copy.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>

namespace remote_s3_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::s3::testing;
using namespace std::chrono_literals;
using autolaunch::testing::slurp;
using Fate = BadNetwork::Fate;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kAmple = 1LL << 40;

Deadline shortly() { return Deadline::after(30s); }

std::span<const std::byte> bytes_in(const std::string& text) {
    return std::as_bytes(std::span(text));
}

s3::S3Client bucket() {
    static const bool made = [] {
        need_s3_server();
        s3::S3Client(location_at(server().port(), "data"), test_credentials())
            .put("", {}, false, shortly());
        return true;
    }();
    (void)made;
    return {location_at(server().port(), "data"), test_credentials()};
}

Environment settings(int port, const std::string& secret = "test/secret+with/slashes=") {
    return {{"AWS_ENDPOINT_URL", "http://localhost:" + std::to_string(port)},
            {"AWS_ACCESS_KEY_ID", "AKIATEST"},
            {"AWS_SECRET_ACCESS_KEY", secret}};
}

class Scratch {
public:
    Scratch() : path_("/dev/shm/autolaunch-remote-s3-" + random_hex(8)) {}
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        const std::string command = "chmod -R u+w " + path_ + " && rm -rf " + path_;
        CHECK(std::system(command.c_str()) == 0);
    }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

StagedTree stage_s3(StageCache& cache, const std::string& url, const Environment& environment,
                    CopyProgress& progress, std::chrono::milliseconds patience = 10s) {
    const auto remote = open_remote(url, {}, environment, {.signs = nullptr, .patience = patience});
    SourceTree source;
    source.tree = remote->look();
    StagingRequest request;
    request.key = source_key(source_words(url), source.tree);
    request.fill = [&](StagePart& part, SourceTree& from, const CopyOptions& options,
                       CopyProgress& its) { fetch_tree(*remote, from.tree, part, options, its); };
    return stage_tree(cache, source, request, progress);
}

bool holds(const fs::path& path, const std::string& wanted) {
    std::string text(fs::file_size(path), '\0');
    std::ifstream(path, std::ios::binary)
        .read(text.data(), static_cast<std::streamsize>(text.size()));
    return text == wanted;
}

std::string refusal_with(int code, const std::function<void()>& act) {
    try {
        act();
        FAIL("it went well");
    } catch (const ExitError& error) {
        CAPTURE(error.what());
        CHECK(error.exit_code() == code);
        return std::string(error.what()) + "; " + error.hint();
    }
    return {};
}

bool says(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("objects below a prefix are a folder, and one object is a file") {
    s3::S3Client client = bucket();
    const std::string large = [] {
        std::string text(21 << 20, '\0');
        for (std::size_t i = 0; i < text.size(); ++i)
            text[i] = static_cast<char>(i * 2654435761U >> 13);
        return text;
    }();
    client.put("set/large", bytes_in(large), false, shortly());
    client.put("set/sub dir/b%20c", bytes_in("second"), false, shortly());
    client.put("set/empty", {}, false, shortly());
    client.put("set/marker/", {}, false, shortly());
    client.put("settle", bytes_in("another one"), false, shortly());
    const Scratch scratch;
    StageCache cache(scratch.path(), kAmple);
    const Environment environment = settings(server().port());
    CopyProgress progress;
    {
        const StagedTree staged = stage_s3(cache, "s3://data/set/", environment, progress);
        CHECK(staged.held.files == 3);
        CHECK(holds(staged.held.path / "large", large));
        CHECK(slurp(staged.held.path / "sub dir" / "b%20c") == "second");
        CHECK(fs::is_directory(staged.held.path / "marker"));
        CHECK_FALSE(fs::exists(staged.held.path / "settle"));
        CHECK(progress.read_bytes == static_cast<std::int64_t>(large.size()) + 6);
    }
    CopyProgress again;
    CHECK(stage_s3(cache, "s3://data/set/", environment, again).was_here);
    const StagedTree one = stage_s3(cache, "s3://data/set/large", environment, again);
    CHECK(one.held.path.filename() == "large");
    CHECK(holds(one.held.path, large));
    // Another version is another tree.
    client.put("set/empty", bytes_in("no more"), false, shortly());
    const StagedTree newer = stage_s3(cache, "s3://data/set/", environment, again);
    CHECK_FALSE(newer.was_here);
    CHECK(slurp(newer.held.path / "empty") == "no more");
    // Through a network that breaks connections, loses answers and is busy.
    const Scratch other;
    StageCache far(other.path(), kAmple);
    BadNetwork network(server().port(), {Fate::close, Fate::unavailable, Fate::cut_answer,
                                         Fate::forward, Fate::close, Fate::cut_answer});
    CopyProgress slow;
    CHECK(holds(stage_s3(far, "s3://data/set/", settings(network.port()), slow).held.path / "large",
                large));
}

TEST_CASE("what cannot be had of a bucket is named, with a code, and without a secret") {
    s3::S3Client client = bucket();
    client.put("odd/a", bytes_in("file"), false, shortly());
    client.put("odd/a/b", bytes_in("below it"), false, shortly());
    client.put("up/x/../../y", bytes_in("up"), false, shortly());
    client.put("twice//x", bytes_in("empty name"), false, shortly());
    const Scratch scratch;
    StageCache cache(scratch.path(), kAmple);
    const Environment good = settings(server().port());
    CopyProgress progress;
    const auto fails = [&](int code, const std::string& words, const std::string& url,
                           const Environment& environment) {
        CAPTURE(url);
        CAPTURE(words);
        const std::string what =
            refusal_with(code, [&] { stage_s3(cache, url, environment, progress, 600ms); });
        CAPTURE(what);
        CHECK(says(what, words));
        CHECK_FALSE(says(what, "slashes"));
        CHECK_FALSE(says(what, "wrong-secret"));
    };
    fails(66, "write s3://data/nothing/", "s3://data/nothing", good);
    fails(66, "there is no object below s3://data/nothing/", "s3://data/nothing/", good);
    fails(66, "NoSuchBucket", "s3://no-such-bucket/a", good);
    fails(65, "s3://data/odd/a is a file, and others are below it", "s3://data/odd/", good);
    fails(65, "a name that no file can have", "s3://data/up/", good);
    fails(65, "a name that no file can have", "s3://data/twice/", good);
    fails(65, "not a bucket's name", "s3://No_Bucket/a", good);
    fails(77, "asked with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "s3://data/set/",
          settings(server().port(), "wrong-secret-wrong"));
    BadNetwork network(server().port(), std::vector<Fate>(4, Fate::ended_session));
    Environment ended = settings(network.port());
    ended["AWS_SESSION_TOKEN"] = "wrong-secret-token";
    fails(77, "and AWS_SESSION_TOKEN", "s3://data/set/", ended);
    fails(77, "no credentials for S3", "s3://data/set/",
          {{"AWS_ENDPOINT_URL", "http://localhost:1"}});
    fails(65, "http sends in the clear", "s3://data/set/",
          {{"AWS_ENDPOINT_URL", "http://example.org"},
           {"AWS_ACCESS_KEY_ID", "A"},
           {"AWS_SECRET_ACCESS_KEY", "wrong-secret"}});
    fails(69, "the connection failed", "s3://data/set/", settings(9));
    CHECK(fs::is_empty(cache.path() / "data"));
}

TEST_CASE("an object that changes while it is read is an error, and leaves nothing") {
    s3::S3Client client = bucket();
    const std::string text(6 << 20, 'v');
    client.put("change/v", bytes_in(text), false, shortly());
    const Scratch scratch;
    StageCache cache(scratch.path(), kAmple);
    CopyProgress progress;
    const auto remote = open_remote("s3://data/change/v", {}, settings(server().port()), {});
    SourceTree source;
    source.tree = remote->look();
    client.put("change/v", bytes_in(std::string(6 << 20, 'w')), false, shortly());
    StagingRequest request;
    request.key = source_key("x", source.tree);
    request.fill = [&](StagePart& part, SourceTree& from, const CopyOptions& options,
                       CopyProgress& its) { fetch_tree(*remote, from.tree, part, options, its); };
    const std::string what =
        refusal_with(66, [&] { stage_tree(cache, source, request, progress); });
    CHECK(says(what, "s3://data/change/v was changed while it was staged"));
    CHECK(fs::is_empty(cache.path() / "data"));
    CHECK(fs::is_empty(cache.path() / "parts"));
}

TEST_CASE("credentials that end in the middle leave what has come, for the next job") {
    s3::S3Client client = bucket();
    client.put("long/one", bytes_in(std::string(4 << 20, '1')), false, shortly());
    const Scratch scratch;
    StageCache cache(scratch.path(), kAmple);
    // A network that forwards, and then answers 403.
    std::vector<Fate> fates(4, Fate::forward);
    fates.insert(fates.end(), 60, Fate::repeat_secrets);
    BadNetwork network(server().port(), fates);
    CopyProgress progress;
    const auto remote =
        open_remote("s3://data/long/one", {}, settings(network.port()), {.signs = nullptr});
    SourceTree source;
    source.tree = remote->look();
    StagingRequest request;
    request.key = source_key("x", source.tree);
    request.fill = [&](StagePart& part, SourceTree& from, const CopyOptions& options,
                       CopyProgress& its) { fetch_tree(*remote, from.tree, part, options, its); };
    const std::string what =
        refusal_with(77, [&] { stage_tree(cache, source, request, progress); });
    CHECK_FALSE(says(what, "slashes"));
    CHECK(fs::is_empty(cache.path() / "data"));
    CHECK(std::distance(fs::directory_iterator(cache.path() / "parts"), {}) == 1);
    const auto good = open_remote("s3://data/long/one", {}, settings(server().port()), {});
    source.tree = good->look();
    request.fill = [&](StagePart& part, SourceTree& from, const CopyOptions& options,
                       CopyProgress& its) { fetch_tree(*good, from.tree, part, options, its); };
    CopyProgress next;
    const StagedTree staged = stage_tree(cache, source, request, next);
    CHECK(next.found_bytes == progress.read_bytes);
    CHECK(next.found_bytes + next.read_bytes == 4 << 20);
    CHECK(holds(staged.held.path, std::string(4 << 20, '1')));
}

TEST_CASE("what ranks have written goes to a bucket, and nothing there is replaced") {
    s3::S3Client client = bucket();
    const Scratch scratch;
    const auto order = [&](const std::string& node) {
        return OutOrder{.run_id = "4711",
                        .node = node,
                        .run_dir = scratch.path(),
                        .timeout = std::chrono::hours(1),
                        .entries = {{.name = "res", .to = "s3://data/out/"}}};
    };
    const auto copy_to = [&](const OutFolder& folder, const Environment& environment,
                             std::string* said = nullptr) {
        OutCounters counters;
        return copy_out({.folder = folder,
                         .entry = folder.order().entries[0],
                         .counters = counters,
                         .note =
                             [&](const std::string& note) {
                                 if (said != nullptr)
                                     *said += note;
                             },
                         .will_copy = [](std::int64_t) {}},
                        environment);
    };
    const std::string large(21 << 20, 'l');
    auto one = OutFolder::make(scratch.path() + "/s", order("one"), false);
    const fs::path there = one.path_of("res");
    fs::create_directories(there / "d");
    std::ofstream(there / "d" / "large") << large;
    std::ofstream(there / "a b") << "small";
    std::ofstream(there / "empty");
    fs::create_symlink("a b", there / "link");
    // A wrong key: all of it stays, and who asked is named.
    const OutDone refused = copy_to(one, settings(server().port(), "wrong"));
    CHECK(refused.exit_code == 77);
    CHECK(refused.what.find("asked with AWS_ACCESS_KEY_ID") != std::string::npos);
    CHECK(refused.left_files >= 3);  // and a link, if its turn came
    CHECK(one.has("res"));
    std::string said;
    const OutDone done = copy_to(one, settings(server().port()), &said);
    CHECK(done.what == "");
    CHECK(done.files == 3);
    CHECK(said.find("links, which a bucket has not (link)") != std::string::npos);
    CHECK_FALSE(one.has("res"));
    std::string got(large.size(), '\0');
    CHECK(client.get("out/d/large", 0, std::as_writable_bytes(std::span(got)), shortly()) ==
          large.size());
    CHECK(got == large);
    CHECK(client.find("out/empty", shortly()) == 0);
    // Another job: the same content is there already, another one stays.
    auto two = OutFolder::make(scratch.path() + "/s", order("two"), false);
    std::ofstream(two.path_of("res") / "a b") << "SMALL";
    fs::create_directories(two.path_of("res") / "d");
    std::ofstream(two.path_of("res") / "d" / "large") << large;
    const OutDone clash = copy_to(two, settings(server().port()));
    CHECK(clash.exit_code == 73);
    CHECK(clash.what.find("s3://data/out/a b is there already, with another content") !=
          std::string::npos);
    CHECK(clash.found_files == 1);
    CHECK(clash.left_bytes == 5);
    two.set_terms(true, false);
    CHECK(copy_to(two, settings(server().port())).what == "");
    got.assign(5, '\0');
    client.get("out/a b", 0, std::as_writable_bytes(std::span(got)), shortly());
    CHECK(got == "SMALL");
    // Who asks for an object that is not there yet gets it once.
    const auto put = [&](const std::string& text) {
        s3::UploadOptions options;
        options.if_absent = true;
        return client.upload(
            "out/once", text.size(),
            [&](std::uint64_t at, std::span<std::byte> into) {
                std::memcpy(into.data(), text.data() + at, into.size());
            },
            options, shortly());
    };
    CHECK(put("first") == s3::S3Client::Put::created);
    CHECK(put("second") == s3::S3Client::Put::exists);
}

}  // namespace remote_s3_test
