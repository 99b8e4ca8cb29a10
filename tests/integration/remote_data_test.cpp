// What lies on servers, brought to this disk: by a web server that misbehaves in each way that was
// thought of, by a fake source in memory, which is killed at every system call, and by a SCRIPTED
// bucket, which says of checksums what AWS's documentation says that S3 does, for no server that
// Debian has knows them. Debian's radosgw is in remote_s3_test.cpp.
#include "checkpoint/s3/object_checksum.hpp"
#include "exit_codes/exit_error.hpp"
#include "kill_at_call.hpp"
#include "processes.hpp"
#include "remote_data/piece_journal.hpp"
#include "remote_data/remote_copy.hpp"
#include "remote_data/remote_sources.hpp"
#include "scripted_server.hpp"
#include "stage_cache/stage_tree.hpp"
#include "web/http_client.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace remote_data_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::fatal_calls;
using autolaunch::testing::run_killed;
using autolaunch::testing::slurp;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kMuch = 1LL << 40;
constexpr std::size_t kLarge = (11U << 20) + 77;

std::string noise(std::size_t bytes) {
    std::mt19937_64 random(bytes);
    std::string text(bytes + 8, '\0');
    for (std::size_t i = 0; i < bytes; i += 8) {
        const auto word = random();
        std::memcpy(&text[i], &word, 8);
    }
    text.resize(bytes);
    return text;
}

/// Folders in memory, and a web server of one of them that ends with this.
class WebPlace {
public:
    WebPlace() {
        try {
            web::HttpClient("");
        } catch (const Error& error) {
            std::printf("skipped: %s\n", error.what());
            std::exit(77);
        }
        std::string name = "/dev/shm/autolaunch-remote-XXXXXX";
        path_ = ::mkdtemp(name.data());
        fs::create_directories(path_ / "files");
        std::ofstream(path_ / "files" / "large.bin", std::ios::binary) << noise(kLarge);
        std::ofstream(path_ / "files" / "small.txt") << "small";
        std::ofstream(path_ / "files" / "empty");
        const std::string command = "exec /usr/bin/python3 " AUTOLAUNCH_SOURCE_DIR
                                    "/tests/integration/http_files.py " +
                                    (path_ / "files").string() + ' ' + (path_ / "port").string() +
                                    ' ' + (path_ / "log").string();
        server_ = ::popen(command.c_str(), "w");
        for (int i = 0; i < 2000 && !fs::exists(path_ / "port"); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        REQUIRE(fs::exists(path_ / "port"));
    }
    WebPlace(const WebPlace&) = delete;
    WebPlace& operator=(const WebPlace&) = delete;
    ~WebPlace() {
        ::pclose(server_);
        const std::string command =
            "chmod -R u+w " + path_.string() + " && rm -rf " + path_.string();
        CHECK(std::system(command.c_str()) == 0);
    }

    std::string url(const std::string& path) const {
        return "http://127.0.0.1:" + slurp(path_ / "port") + '/' + path;
    }
    fs::path scratch() const { return path_ / "scratch"; }
    fs::path files() const { return path_ / "files"; }
    /// Bytes that were sent since the last call.
    std::int64_t sent() {
        std::ifstream log(path_ / "log");
        std::string method, path;
        std::int64_t status = 0, bytes = 0, sum = 0;
        while (log >> method >> path >> status >> bytes)
            sum += bytes;
        return sum - std::exchange(sent_, sum);
    }

private:
    fs::path path_;
    FILE* server_ = nullptr;
    std::int64_t sent_ = 0;
};

StagedTree stage_from(StageCache& cache, RemoteSource& remote, const std::string& words,
                      CopyProgress& progress, StagingRequest request = {}) {
    SourceTree source;
    source.tree = remote.look();
    request.key = source_key(words, source.tree);
    request.fill = [&](StagePart& part, SourceTree& from, const CopyOptions& options,
                       CopyProgress& its) { fetch_tree(remote, from.tree, part, options, its); };
    return stage_tree(cache, source, request, progress);
}

StagedTree stage_url(StageCache& cache, const std::string& url, CopyProgress& progress,
                     const std::string& verify = {},
                     std::chrono::milliseconds patience = std::chrono::seconds(5)) {
    const auto remote = open_remote(url, verify, {}, {.signs = nullptr, .patience = patience});
    return stage_from(cache, *remote, source_words(url), progress);
}

std::string refused(int code, const std::function<void()>& act) {
    try {
        act();
        FAIL("it went well");
    } catch (const ExitError& error) {
        CAPTURE(error.what());
        CHECK(error.exit_code() == code);
        CHECK(!error.hint().empty());
        return std::string(error.what()) + "; " + error.hint();
    }
    return {};
}

std::string content_of(const fs::path& path) {
    std::string text(fs::file_size(path), '\0');
    std::ifstream(path, std::ios::binary)
        .read(text.data(), static_cast<std::streamsize>(text.size()));
    return text;
}
bool are_equal(const fs::path& a, const fs::path& b) { return content_of(a) == content_of(b); }

std::time_t changed_at(const fs::path& path) {
    struct stat facts {};
    REQUIRE(::stat(path.c_str(), &facts) == 0);
    return facts.st_mtime;
}

/// Chunks that have come of what is being fetched.
std::uintmax_t pieces_in(const fs::path& scratch) {
    std::error_code none;
    for (const auto& part :
         fs::directory_iterator(stage_folder(scratch) / "stage" / "parts", none)) {
        const auto bytes = fs::file_size(part.path() / PieceJournal::kName, none);
        if (!none)
            return bytes / 32;
    }
    return 0;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// A fake: bytes that are made here, and no server.
class FakeSource final : public RemoteSource {
public:
    std::function<void()> on_read = [] {};

    class Reader final : public RemoteReader {
    public:
        explicit Reader(const std::function<void()>& on_read) : on_read_(on_read) {}
        void read(const TreeEntry& file, std::int64_t at, std::span<std::byte> into) override {
            on_read_();
            for (std::byte& byte : into)
                byte =
                    static_cast<std::byte>((at++ / 1000 + static_cast<int>(file.path[0])) & 0xFF);
        }
        void read_all(const TreeEntry&, const Take&) override {}

    private:
        const std::function<void()>& on_read_;
    };
    Tree look() override {
        Tree tree;
        for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::int64_t>>{
                 {"a", 1'100'000}, {"b", 0}, {"c", 7}}) {
            TreeEntry entry{.path = name};
            entry.mode = 0444;
            entry.bytes = bytes;
            entry.version = "\"1\"";
            tree.entries.push_back(entry);
        }
        return tree;
    }
    std::unique_ptr<RemoteReader> connect() const override {
        return std::make_unique<Reader>(on_read);
    }
};

using Kind = s3::ObjectChecksum::Kind;

std::span<const std::byte> bytes_in(std::string_view text) {
    return std::as_bytes(std::span(text));
}

/// SCRIPTED: a bucket "our" with one object, and its checksum.
class CheckedBucket {
public:
    static constexpr std::size_t kAnyByte = std::string::npos - 1;

    std::string content = noise(kLarge);
    std::string headers;  ///< the checksum's, each with its end of line
    std::vector<std::size_t> parts = {};
    std::size_t damaged = std::string::npos;  ///< a byte that is another one on its way
    int good_for = 1'000'000;                 ///< answers; then the credentials have ended
    int head_says = 200;

    void put(Kind kind, std::vector<std::size_t> in_parts = {}) {
        parts = std::move(in_parts);
        std::string value = s3::base64_of(s3::checksum_of(kind, bytes_in(content)));
        if (!parts.empty()) {
            s3::ChecksumBytes all;
            std::size_t at = 0;
            for (const std::size_t bytes : parts) {
                const auto one = s3::checksum_of(kind, bytes_in(content).subspan(at, bytes));
                all.insert(all.end(), one.begin(), one.end());
                at += bytes;
            }
            REQUIRE(at == content.size());
            value = s3::base64_of(s3::checksum_of(kind, std::as_bytes(std::span(all)))) + '-' +
                    std::to_string(parts.size());
        }
        std::string name = s3::name_of(kind);
        for (char& c : name)
            c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        headers = "x-amz-checksum-" + name + ": " + value +
                  "\r\nx-amz-checksum-type: " + (parts.empty() ? "FULL_OBJECT" : "COMPOSITE") +
                  "\r\n";
    }

    Environment settings() const {
        return {{"AWS_ENDPOINT_URL", server_.url()},
                {"AWS_ACCESS_KEY_ID", "AKIATEST"},
                {"AWS_SECRET_ACCESS_KEY", "CANARY"}};
    }
    /// Requests that have this in their line or head, since the last call of it.
    std::size_t asked(const std::string& what) {
        const auto all = server_.requests();
        const auto count = std::count_if(
            all.begin() + static_cast<std::ptrdiff_t>(seen_), all.end(), [&](const auto& request) {
                return has(request.line, what) || has(request.head, what);
            });
        return static_cast<std::size_t>(count);
    }
    void forget() { seen_ = server_.requests().size(); }

private:
    s3::testing::ScriptedAnswer answer(const s3::testing::ScriptedRequest& request) {
        if (--good_for < 0)
            return {400, "<Error><Code>ExpiredToken</Code></Error>"};
        const bool is_head = request.line.starts_with("HEAD ");
        if (is_head && head_says != 200)
            return {head_says};
        s3::testing::ScriptedAnswer answer{.headers = "ETag: \"7\"\r\n"};
        const std::size_t range = request.head.find("\nrange: bytes="),
                          part = request.line.find("partNumber=");
        if (range != std::string::npos) {
            std::size_t first = 0, last = 0;
            std::sscanf(request.head.c_str() + range, "\nrange: bytes=%zu-%zu", &first, &last);
            answer.body = content.substr(first, last - first + 1);
            answer.headers += "Content-Range: bytes " + std::to_string(first) + "-x/" +
                              std::to_string(content.size()) + "\r\n";
            answer.status = 206;
            damage(answer.body, first);
        } else {
            answer.body = content;
            damage(answer.body, 0);
        }
        if (part != std::string::npos && !parts.empty())
            answer.body.resize(
                parts.at(static_cast<std::size_t>(std::stoi(request.line.substr(part + 11))) - 1));
        if (range == std::string::npos && has(request.head, "\nx-amz-checksum-mode: enabled\r\n"))
            answer.headers += headers;
        return answer;
    }

    void damage(std::string& body, std::size_t first) const {
        if (damaged == kAnyByte)
            body[0] ^= 1;
        else if (damaged != std::string::npos && damaged - first < body.size())
            body[damaged - first] ^= 1;
    }

    std::size_t seen_ = 0;
    std::mutex mutex_;
    s3::testing::ScriptedServer server_{[this](const s3::testing::ScriptedRequest& request) {
        const std::lock_guard lock(mutex_);
        return answer(request);
    }};  // last: it uses the others
};

/// A folder for a cache, and one that is empty each time.
class EmptyCache {
public:
    EmptyCache() : path_("/dev/shm/autolaunch-checked-" + random_hex(8)), cache(path_, kMuch) {}
    EmptyCache(const EmptyCache&) = delete;
    EmptyCache& operator=(const EmptyCache&) = delete;
    ~EmptyCache() {
        CHECK(std::system(("chmod -R u+w " + path_ + " && rm -rf " + path_).c_str()) == 0);
    }

private:
    std::string path_;

public:
    StageCache cache;
};

struct Came {
    std::int64_t found_bytes = 0;      ///< that were there
    std::int64_t unchecked_files = 0;  ///< of one
};
/// Stages the object, compares it, and removes it again.
Came stage_checked(CheckedBucket& bucket, StageCache& cache, const std::string& variable = {}) {
    Environment environment = bucket.settings();
    if (!variable.empty())
        environment[variable] = "when_required";
    CopyProgress progress;
    bucket.forget();
    const auto remote = open_remote("s3://our/object", {}, environment, {});
    {
        const StagedTree staged = stage_from(cache, *remote, "s3://our/object", progress);
        CHECK(content_of(staged.held.path) == bucket.content);
    }
    for (const StageCache::Found& found : cache.list())
        CHECK(cache.remove(found.name));
    return {progress.found_bytes, progress.unchecked_files};
}

}  // namespace

TEST_CASE(
    "a file of a web server is read in ranges, once, and its version is found by the next job") {
    WebPlace place;
    StageCache cache(place.scratch(), kMuch);
    for (const std::string how : {"plain", "weak", "dated", "whole", "cut", "busy", "lead"}) {
        CAPTURE(how);
        const std::string url = place.url(how + "/large.bin?id=7&X-Amz-Signature=" + how);
        CopyProgress progress;
        fs::path first;
        {
            const StagedTree staged = stage_url(cache, url, progress);
            CHECK_FALSE(staged.was_here);
            CHECK(staged.held.path.filename() == "large.bin");
            CHECK(are_equal(staged.held.path, place.files() / "large.bin"));
            CHECK(changed_at(staged.held.path) == changed_at(place.files() / "large.bin"));
            first = staged.held.path;
        }
        CHECK(progress.unchecked_files == 0);  // a web server's have none ever
        if (how != "cut")
            CHECK(progress.read_bytes == static_cast<std::int64_t>(kLarge));
        CHECK(place.sent() < static_cast<std::int64_t>(kLarge) * (how == "cut" ? 4 : 1) + 200'000);
        // The next job's signature is another one.
        CopyProgress again;
        CHECK(stage_url(cache, place.url(how + "/large.bin?id=7&X-Amz-Signature=other"), again)
                  .was_here);
        CHECK(again.read_bytes == 0);
        place.sent();
    }
    CopyProgress progress;
    CHECK(slurp(stage_url(cache, place.url("plain/small.txt"), progress).held.path) == "small");
    CHECK(slurp(stage_url(cache, place.url("plain/empty"), progress).held.path).empty());
    CHECK_FALSE(stage_url(cache, place.url("plain/small.txt?id=8"), progress).was_here);
}

TEST_CASE("what cannot be had of a web server is named, with a code, and without its signature") {
    WebPlace place;
    StageCache cache(place.scratch(), kMuch);
    CopyProgress progress;
    const auto says = [&](int code, const std::string& words, const std::string& path,
                          std::chrono::milliseconds patience = std::chrono::seconds(2)) {
        const std::string what = refused(code, [&] {
            stage_url(cache, place.url(path + "?sig=CANARY"), progress, {}, patience);
        });
        CAPTURE(what);
        CHECK(has(what, words));
        CHECK(has(what, place.url(path)));
        CHECK_FALSE(has(what, "CANARY"));
    };
    says(77, "the server says 403", "denied/large.bin");
    says(66, "the server says 404", "plain/nothing");
    says(65, "neither ETag nor Last-Modified", "bare/large.bin");
    says(65, "does not say how long it is", "chunked/large.bin");
    says(65, "which is no web server", "away/large.bin");
    says(69, "from one address to the next", "loop/large.bin");
    says(69, "does not send the range", "lies/large.bin");
    says(66, "was changed while it was staged", "changing/large.bin");
    says(69, "what has come is gone on with", "silent/large.bin", std::chrono::milliseconds(600));
    CHECK(fs::is_empty(cache.path() / "data"));
    for (const auto& part : cache.list())
        CHECK(part.bytes < 2 * static_cast<std::int64_t>(kLarge));
    // Nobody is there any more.
    const std::string gone = "http://127.0.0.1:9/large.bin";
    const std::string what =
        refused(69, [&] { stage_url(cache, gone, progress, {}, std::chrono::milliseconds(300)); });
    CHECK(has(what, "cannot read " + gone));
    // A way that anybody could change.
    CHECK(has(refused(65, [&] { stage_url(cache, "http://example.org/x", progress); }),
              "http sends in the clear"));
    // Without any version, the digest tells.
    const std::string digest = "sha256:" + std::string(64, '0');
    CHECK_FALSE(stage_url(cache, place.url("bare/large.bin"), progress, digest).was_here);
    CHECK(stage_url(cache, place.url("bare/large.bin"), progress, digest).was_here);
}

TEST_CASE(
    "a process that is killed while it reads of a server loses no more than what is under way") {
    WebPlace place;
    const std::string url = place.url("plain/large.bin");
    std::mt19937 random(7);
    for (int round = 0; round < 3; ++round) {
        CAPTURE(round);
        const pid_t child = ::fork();
        if (child == 0) {
            StageCache cache(place.scratch(), kMuch);
            CopyProgress progress;
            StagingRequest request;
            request.copy.bytes_per_second = 20 << 20;  // half a second
            const auto remote = open_remote(url, {}, {}, {});
            stage_from(cache, *remote, source_words(url), progress, request);
            ::_exit(0);
        }
        const std::uintmax_t pieces = 1 + random() % 8;
        for (int i = 0; i < 10'000 && pieces_in(place.scratch()) < pieces; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        StageCache cache(place.scratch(), kMuch);
        CopyProgress progress;
        {
            const StagedTree staged = stage_url(cache, url, progress);
            CHECK(are_equal(staged.held.path, place.files() / "large.bin"));
            CHECK(progress.found_bytes + progress.read_bytes ==
                  (staged.was_here ? 0 : static_cast<std::int64_t>(kLarge)));
            if (!staged.was_here)
                CHECK(progress.found_bytes > 0);
        }
        CHECK(fs::is_empty(cache.path() / "parts"));
        for (const StageCache::Found& found : cache.list())
            CHECK(cache.remove(found.name));
    }
}

TEST_CASE("killed at any system call of a fetch, a process leaves what is whole or not there") {
    WebPlace place;
    StageCache cache(place.scratch(), kMuch);
    FakeSource remote;
    const auto killed_at = [&](int fatal) {
        return run_killed(fatal, [&] {
            StageCache its(place.scratch(), kMuch);
            CopyProgress progress;
            FakeSource its_remote;
            StagingRequest request;
            request.copy.threads = 1;
            stage_from(its, its_remote, "fake", progress, request);
        });
    };
    const int calls = killed_at(0);
    if (calls == -77) {
        std::printf("skipped: processes cannot be traced here\n");
        std::exit(77);
    }
    CHECK(calls > 100);
    for (const int fatal : fatal_calls(calls, 6)) {
        CAPTURE(fatal);
        for (const StageCache::Found& found : cache.list())
            CHECK(cache.remove(found.name));
        killed_at(fatal);
        for (const StageCache::Found& found : cache.list())
            if (!found.is_part)
                CHECK(cache.why_damaged(*cache.hold(found.name)) == "");
        CopyProgress progress;
        const StagedTree after = stage_from(cache, remote, "fake", progress);
        CHECK(cache.why_damaged(after.held) == "");
        CHECK(fs::file_size(after.held.path / "a") == 1'100'000);
        if (!after.was_here)
            CHECK(progress.found_bytes + progress.read_bytes == 1'100'007);
        CHECK(fs::is_empty(cache.path() / "parts"));
    }
}

TEST_CASE(
    "killed at any moment of a fetch of a web server's, a process leaves what is gone on with") {
    constexpr std::int64_t kBytes = (5 << 20) + 77;
    WebPlace place;
    std::ofstream(place.files() / "some.bin", std::ios::binary) << noise(kBytes);
    const std::string url = place.url("plain/some.bin");
    StageCache cache(place.scratch(), kMuch);
    const auto killed_at = [&](int fatal) {
        return run_killed(fatal, [&] {
            StageCache its(place.scratch(), kMuch);
            CopyProgress progress;
            StagingRequest request;
            request.copy.threads = 1;
            const auto remote = open_remote(url, {}, {}, {});
            stage_from(its, *remote, source_words(url), progress, request);
        });
    };
    const int calls = killed_at(0);
    if (calls == -77) {
        std::printf("skipped: processes cannot be traced here\n");
        std::exit(77);
    }
    CHECK(calls > 300);
    int resumed = 0;
    for (const int fatal : fatal_calls(calls, 150)) {
        CAPTURE(fatal);
        for (const StageCache::Found& found : cache.list())
            CHECK(cache.remove(found.name));
        killed_at(fatal);
        for (const StageCache::Found& found : cache.list())
            if (!found.is_part)
                CHECK(cache.why_damaged(*cache.hold(found.name)) == "");
        CopyProgress progress;
        const StagedTree after = stage_url(cache, url, progress);
        CHECK(are_equal(after.held.path, place.files() / "some.bin"));
        if (!after.was_here)
            CHECK(progress.found_bytes + progress.read_bytes == kBytes);
        resumed += progress.found_bytes > 0 ? 1 : 0;
        CHECK(fs::is_empty(cache.path() / "parts"));
        CHECK(fs::is_empty(cache.path() / "gone"));
    }
    std::printf("%d calls, %d times gone on with\n", calls, resumed);
}

TEST_CASE("a journal that is torn or wrong costs only time") {
    WebPlace place;
    const std::string url = place.url("plain/large.bin");
    StageCache cache(place.scratch(), kMuch);
    const auto begin = [&] {
        CopyProgress progress;
        StagingRequest request;
        request.check_source = [] {
            throw ExitError(exit_code::kUnavailable, ErrorCode::closed, "away", "x");
        };
        const auto remote = open_remote(url, {}, {}, {});
        refused(69, [&] { stage_from(cache, *remote, source_words(url), progress, request); });
    };
    begin();
    const fs::path part = fs::directory_iterator(cache.path() / "parts")->path();
    const fs::path file = part / "tree" / "large.bin";
    CHECK(fs::remove(part / PieceJournal::kName));
    fs::permissions(file, fs::perms(0600));  // not whole any more, and no journal
    CopyProgress progress;
    { CHECK_FALSE(stage_url(cache, url, progress).was_here); }
    CHECK(progress.read_bytes == static_cast<std::int64_t>(kLarge));
    {
        const UniqueFd folder(::open(place.scratch().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        PieceJournal journal(folder.get(), "pieces");
        journal.add(1, 2, {3, 4});
        journal.add(1, 2, {5, 6});
        journal.add(9, 9, {7, 8});
        fs::resize_file(place.scratch() / "pieces", 3 * 32 - 5);
        PieceJournal torn(folder.get(), "pieces");
        CHECK(torn.find(1, 2) == Digest128{5, 6});
        CHECK_FALSE(torn.find(9, 9));
        CHECK(fs::file_size(place.scratch() / "pieces") == 64);
        torn.add(9, 9, {7, 8});
        CHECK(PieceJournal(folder.get(), "pieces").find(9, 9) == Digest128{7, 8});
    }
}

TEST_CASE("a disk that becomes full while something comes is an error, and leaves nothing") {
    const bool root = ::geteuid() == 0;
    if (::unshare(root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        std::printf("skipped: no mounts of our own: %s\n", std::strerror(errno));
        std::exit(77);
    }
    WebPlace place;
    fs::create_directories(place.scratch());
    REQUIRE(::mount("tmpfs", place.scratch().c_str(), "tmpfs", 0, "size=3m") == 0);
    {
        StageCache cache(place.scratch(), kMuch);
        FakeSource remote;
        const fs::path ballast = place.scratch() / "ballast";
        remote.on_read = [&] {
            std::ofstream file(ballast, std::ios::binary | std::ios::app);
            const std::string block(4096, 'b');
            while (file.write(block.data(), 4096).flush()) {
            }
        };
        CopyProgress progress;
        const std::string what = refused(73, [&] { stage_from(cache, remote, "fake", progress); });
        CHECK(has(what, "No space left on device"));
        CHECK(fs::is_empty(cache.path() / "parts"));
        CHECK(fs::is_empty(cache.path() / "data"));
        fs::remove(ballast);
        remote.on_read = [] {};
        const StagedTree staged = stage_from(cache, remote, "fake", progress);
        CHECK(cache.why_damaged(staged.held) == "");
    }
    ::umount(place.scratch().c_str());
}

TEST_CASE("an object is compared with the checksum that its bucket has of it") {
    CheckedBucket bucket;
    EmptyCache empty;
    StageCache& cache = empty.cache;
    const auto refused_damage = [&](const std::string& kind) {
        bucket.damaged = bucket.content.size() / 2;
        const std::string what = refused(65, [&] { stage_checked(bucket, cache); });
        bucket.damaged = std::string::npos;
        CAPTURE(what);
        CHECK(has(what,
                  "s3://our/object was damaged at its server or on its way: what has come has " +
                      kind + ' '));
        const std::size_t at = bucket.headers.find(": ") + 2;
        CHECK(
            has(what, "and its server has written down " +
                          bucket.headers.substr(at, bucket.headers.find_first_of("-\r", at) - at) +
                          "; start the job again"));
        CHECK_FALSE(has(what, "CANARY"));
        CHECK(fs::is_empty(cache.path() / "data"));
        CHECK(fs::is_empty(cache.path() / "parts"));
    };
    constexpr std::size_t kMiB = 1 << 20;
    for (const Kind kind : {Kind::crc64_nvme, Kind::crc32c, Kind::crc32, Kind::sha256}) {
        const std::string name = s3::name_of(kind);
        CAPTURE(name);
        bucket.content = noise(kLarge);
        bucket.put(kind);
        CHECK(stage_checked(bucket, cache).unchecked_files == 0);
        CHECK(bucket.asked("HEAD ") == 1);
        refused_damage(name);
        // Parts of one size, where chunks end and elsewhere; and such that nobody can guess.
        const std::string of_parts = name + " of the checksums of its parts";
        bucket.put(kind, {5 * kMiB, 5 * kMiB, kMiB + 77});
        stage_checked(bucket, cache);
        CHECK(bucket.asked("HEAD ") == 2);
        refused_damage(of_parts);
        bucket.put(kind, {6 * kMiB - 1, 5 * kMiB + 78});
        stage_checked(bucket, cache);
        CHECK(bucket.asked("HEAD ") == 2);
        bucket.put(kind, {5 * kMiB + 1, kMiB, 5 * kMiB + 76});
        CHECK(stage_checked(bucket, cache).unchecked_files == 0);
        CHECK(bucket.asked("partNumber=") == 4);
        refused_damage(of_parts);
        // A small one comes with its checksum, in one request.
        bucket.content = noise(kMiB);
        bucket.put(kind);
        stage_checked(bucket, cache);
        CHECK(bucket.asked("HEAD ") == 0);
        CHECK(bucket.asked("/object") == 2);  // and what is there was asked
        refused_damage(name);
        bucket.put(kind, {kMiB});
        stage_checked(bucket, cache);
        refused_damage(of_parts);
    }
}

TEST_CASE("what a bucket has no checksum of, or does not tell, is read as before, and counted") {
    CheckedBucket bucket;
    EmptyCache empty;
    CHECK(stage_checked(bucket, empty.cache).unchecked_files == 1);
    CHECK(bucket.asked("HEAD ") == 1);
    for (const int says : {400, 405, 501}) {
        bucket.head_says = says;
        CHECK(stage_checked(bucket, empty.cache).unchecked_files == 1);
    }
    bucket.head_says = 200;
    // Of parts that it does not tell.
    bucket.put(Kind::crc32, {5, kLarge - 5});
    bucket.parts.clear();
    CHECK(stage_checked(bucket, empty.cache).unchecked_files == 1);
    // What it has is none; and what it has is not wanted.
    bucket.headers = "x-amz-checksum-crc32: hello\r\n";
    CHECK(has(refused(65, [&] { stage_checked(bucket, empty.cache); }),
              "s3://our/object: the S3 server's x-amz-checksum-crc32 is no checksum"));
    CHECK(stage_checked(bucket, empty.cache, "AWS_RESPONSE_CHECKSUM_VALIDATION").unchecked_files ==
          0);
    CHECK(bucket.asked("HEAD ") == 0);
    bucket.content = "small";
    stage_checked(bucket, empty.cache, "AWS_RESPONSE_CHECKSUM_VALIDATION");
    CHECK(bucket.asked("x-amz-checksum-mode") == 0);
    bucket.headers.clear();
    CHECK(stage_checked(bucket, empty.cache).unchecked_files == 1);
    bucket.content.clear();  // there is nothing of it to be damaged
    CHECK(stage_checked(bucket, empty.cache).unchecked_files == 0);
}

TEST_CASE("what an earlier job has brought without a checksum is counted by who goes on") {
    CheckedBucket bucket;
    EmptyCache empty;
    const auto bring = [&](const std::string& variable) {
        Environment environment = bucket.settings();
        environment["AWS_RESPONSE_CHECKSUM_VALIDATION"] = variable;
        const auto remote = open_remote("s3://our/object", {}, environment, {});
        StagingRequest request;
        request.check_source = [] {
            throw ExitError(exit_code::kUnavailable, ErrorCode::closed, "away", "x");
        };
        CopyProgress progress;
        refused(69,
                [&] { stage_from(empty.cache, *remote, "s3://our/object", progress, request); });
    };
    for (const std::string variable : {"when_supported", "when_required"}) {
        CAPTURE(variable);
        bring(variable);
        const Came came = stage_checked(bucket, empty.cache);
        CHECK(came.found_bytes == static_cast<std::int64_t>(kLarge));
        CHECK(came.unchecked_files == 1);
    }
}

TEST_CASE("what an earlier job has brought of an object is compared with the rest") {
    CheckedBucket bucket;
    EmptyCache empty;
    StageCache& cache = empty.cache;
    const auto begin = [&](std::size_t damaged) {
        bucket.good_for = 8;
        bucket.damaged = damaged;
        CHECK(has(refused(77, [&] { stage_checked(bucket, cache); }), "AWS_ACCESS_KEY_ID"));
        bucket.good_for = 1'000'000;
        bucket.damaged = std::string::npos;
        CHECK_FALSE(fs::is_empty(cache.path() / "parts"));
    };
    for (const Kind kind : {Kind::crc64_nvme, Kind::sha256})
        for (const bool in_parts : {false, true}) {
            bucket.put(kind, in_parts ? std::vector<std::size_t>{8U << 20, kLarge - (8U << 20)}
                                      : std::vector<std::size_t>());
            begin(std::string::npos);
            CHECK(stage_checked(bucket, cache).found_bytes > 0);
            begin(CheckedBucket::kAnyByte);
            CHECK(has(refused(65, [&] { stage_checked(bucket, cache); }), "was damaged"));
            CHECK(stage_checked(bucket, cache).found_bytes == 0);
        }
    // They end before it has said what it has.
    bucket.good_for = 1;
    CHECK(has(refused(77, [&] { stage_checked(bucket, cache); }), "ExpiredToken"));
}

}  // namespace remote_data_test
