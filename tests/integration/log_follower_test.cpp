// The log follower on real files with real writers.

#include "logs/log_follower.hpp"

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "report/console.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace log_follower_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

struct TemporaryDirectory {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("autolaunch-logs-" + random_hex(8));
    TemporaryDirectory() { std::filesystem::create_directory(path); }
    ~TemporaryDirectory() { std::filesystem::remove_all(path); }
};

// Takes every line while `is_ready`.
struct Sink final : LineSink {
    bool is_ready = true, is_terminal = false, is_written = true;
    std::vector<std::string> out, err, live;
    std::string out_bytes, err_bytes;

    bool ready(OutputStream) const override { return is_ready; }
    void write_line(OutputStream stream, std::string_view prefix, std::string_view text) override {
        (stream == OutputStream::out ? out : err)
            .push_back(std::string(prefix) + (prefix.empty() ? "" : " ") + std::string(text));
    }
    void write_bytes(OutputStream stream, std::string_view bytes) override {
        (stream == OutputStream::out ? out_bytes : err_bytes) += bytes;
    }
    bool shows_live(OutputStream) const override { return is_terminal; }
    void set_live(std::vector<LiveLine> lines) override {
        live.clear();
        for (const LiveLine& line : lines)
            live.push_back(line.prefix + ' ' + line.text);
    }
    bool written() const override { return is_written; }
    bool flush(Deadline deadline) override {
        if (is_ready)
            return true;
        std::this_thread::sleep_for(deadline.remaining());
        return false;
    }
};

using Lines = std::vector<std::string>;
const LogFollower::Clock::time_point kStart{};

// Ranks of one generation with their files, and a follower of them.
struct Job {
    TemporaryDirectory run_dir;
    std::vector<RankFiles> files;
    LogFollower follower;
    Sink sink;

    explicit Job(int ranks, LoggingSpec options = {}, int first_rank = 0)
        : follower(std::move(options), "node1") {
        for (int i = 0; i < ranks; ++i) {
            files.push_back(
                open_rank_files(open_generation_folder(run_dir.path, 0), first_rank + i));
            follower.add_rank(first_rank + i, i, files.back());
        }
    }
    void print(int local_rank, std::string_view text) {
        write_all(files[static_cast<std::size_t>(local_rank)].out.get(), text, "stdout");
    }
    void complain(int local_rank, std::string_view text) {
        write_all(files[static_cast<std::size_t>(local_rank)].err.get(), text, "stderr");
    }
};

LoggingSpec no_fold() {
    LoggingSpec options;
    options.fold = false;
    return options;
}

}  // namespace

TEST_CASE("a rank's files lie in its own folder of the generation and are opened for appending") {
    TemporaryDirectory run_dir;
    {
        const RankFiles first = open_rank_files(open_generation_folder(run_dir.path, 2), 13);
        CHECK(first.stdout_path == run_dir.path / "generation-2/rank-13/stdout");
        CHECK(first.error_file_path == run_dir.path / "generation-2/rank-13/error.json");
        CHECK((::fcntl(first.out.get(), F_GETFL) & O_APPEND) != 0);
        CHECK((::fcntl(first.err.get(), F_GETFD) & FD_CLOEXEC) != 0);
        CHECK(first.stdout_start == 0);
        write_all(first.out.get(), "earlier\n", "stdout");
        write_file(first.error_file_path, "{}");
    }
    const RankFiles again = open_rank_files(open_generation_folder(run_dir.path, 2), 13);
    CHECK(again.stdout_start == 8);
    CHECK_FALSE(std::filesystem::exists(
        again.error_file_path));  // an old one would explain the wrong failure
    LogFollower follower(no_fold(), "n");
    follower.add_rank(13, 0, again);
    write_all(again.out.get(), "now\n", "stdout");
    Sink sink;
    follower.follow(sink, kStart);
    CHECK(sink.out == Lines{"[n 13] now"});
}

TEST_CASE("a run directory that cannot be made is an error that names it and says what to do") {
    TemporaryDirectory run_dir;
    write_file(run_dir.path / "generation-0", "a file stands in the way");
    try {
        open_rank_files(open_generation_folder(run_dir.path, 0), 3);
        FAIL("no exception");
    } catch (const SystemError& error) {
        CHECK(std::string(error.what()).find("generation-0") != std::string::npos);
        CHECK(error.hint().find("--log-dir") != std::string::npos);
    }
}

TEST_CASE("lines come once, whole and prefixed, each on its stream") {
    Job job(2, no_fold(), 8);
    job.print(0, "one\ntw");
    job.complain(1, "oops\n");
    job.follower.follow(job.sink, kStart);
    CHECK(job.sink.out == Lines{"[node1 8] one"});
    CHECK(job.sink.err == Lines{"[node1 9] oops"});
    job.print(0, "o\n");
    job.follower.follow(job.sink, kStart + 20ms);
    job.follower.follow(job.sink, kStart + 40ms);
    CHECK(job.sink.out == Lines{"[node1 8] one", "[node1 8] two"});
}

TEST_CASE("what all ranks print is folded, what one prints comes after the window") {
    Job job(4);
    for (int rank = 0; rank < 4; ++rank)
        job.print(rank, "hello\nI am " + std::to_string(rank) + "\n");
    job.follower.follow(job.sink, kStart);
    job.follower.follow(job.sink, kStart + LineFolder::kWindow);
    auto lines = job.sink.out;
    REQUIRE(lines.size() == 5);
    CHECK(lines[0] == "[ranks 0-3 ×4] hello");
    std::sort(lines.begin(), lines.end());
    CHECK(lines == Lines{"[node1 0] I am 0", "[node1 1] I am 1", "[node1 2] I am 2",
                         "[node1 3] I am 3", "[ranks 0-3 ×4] hello"});
}

TEST_CASE("only the wanted ranks and streams are shown, and all are in the files") {
    LoggingSpec options = no_fold();
    options.console_default = StdStreams::err;
    options.console_by_local_rank = {{0, StdStreams::all}, {1, StdStreams::none}};
    options.local_ranks_filter = {0, 1, 2};
    Job job(4, options);
    for (int rank = 0; rank < 4; ++rank) {
        job.print(rank, "out " + std::to_string(rank) + "\n");
        job.complain(rank, "err " + std::to_string(rank) + "\n");
    }
    CHECK(job.follower.drain(job.sink, Deadline::after(10s)));
    CHECK(job.sink.out == Lines{"[node1 0] out 0"});
    CHECK(job.sink.err == Lines{"[node1 0] err 0", "[node1 2] err 2"});
    CHECK(read_file(job.files[3].stdout_path) == "out 3\n");
}

TEST_CASE("a rank that ends leaves its last line, and a continuation is marked") {
    Job job(1, no_fold());
    job.print(0, "continue? ");
    job.follower.follow(job.sink, kStart);
    job.follower.follow(job.sink, kStart + LineSplitter::kPromptDelay);
    job.print(0, "no\nlast words");
    job.follower.follow(job.sink, kStart + 1s);
    CHECK(job.sink.out == Lines{"[node1 0] continue? ", "[node1 0] … no"});
    job.follower.rank_ended(0);
    job.follower.follow(job.sink, kStart + 1s);
    CHECK(job.sink.out.back() == "[node1 0] last words");
}

TEST_CASE("a console that takes nothing is given nothing, and later everything") {
    Job job(2, no_fold());
    job.sink.is_ready = false;
    Lines expected;
    for (int i = 0; i < 1000; ++i) {
        job.print(0, "line " + std::to_string(i) + "\n");
        job.follower.follow(job.sink, kStart);
        expected.push_back("[node1 0] line " + std::to_string(i));
    }
    CHECK(job.sink.out.empty());
    job.sink.is_ready = true;
    CHECK(job.follower.drain(job.sink, Deadline::after(10s)));
    CHECK(job.sink.out == expected);
}

TEST_CASE(
    "a console that is far behind skips to the end and says how much it left out, and where it "
    "is") {
    Job job(1, no_fold());
    std::string block;
    for (int i = 0; i < 1000; ++i)
        block += "line of thirty bytes, " + std::to_string(1000 + i) + "...\n";
    for (int i = 0; i < 400; ++i)
        job.print(0, block);  // 12 MB
    job.print(0, "the last line\n");
    CHECK(job.follower.drain(job.sink, Deadline::after(10s)));
    REQUIRE(job.sink.out.size() > 100);
    CHECK(job.sink.out.front() ==
          "[node1 0] … 11.9 MB not shown; see " + job.files[0].stdout_path.string());
    CHECK(job.sink.out[1].starts_with(
        "[node1 0] line of thirty bytes, "));  // begins with a whole line
    CHECK(job.sink.out.back() == "[node1 0] the last line");
    std::size_t shown = 0;
    for (const auto& line : job.sink.out)
        shown += line.size();
    CHECK(shown < 2 * LogFollower::kShownAfterSkipBytes);
}

TEST_CASE("draining onto a console that is stuck ends at its deadline and says what is left") {
    Job job(1, no_fold());
    job.print(0, "never shown\n");
    job.sink.is_ready = false;
    CHECK_FALSE(job.follower.drain(job.sink, Deadline::after(50ms)));
    CHECK(job.sink.out ==
          Lines{"[node1 0] … 12 B not shown; see " + job.files[0].stdout_path.string()});
}

TEST_CASE("without prefixes bytes go as they are, and none is left out") {
    LoggingSpec options;
    options.prefix = false;
    Job job(1, options);
    std::string bytes;
    for (int i = 0; i < 6'000'000; ++i)  // more than would be skipped; zeros, escapes, no line ends
        bytes += static_cast<char>((i * 7 + i / 256) % 256 == '\n' ? 'n' : (i * 7 + i / 256) % 256);
    job.print(0, bytes);
    job.complain(0, "\x1b[2J\rbar");
    CHECK(job.follower.owes(job.sink));
    CHECK(job.follower.drain(job.sink, Deadline::after(30s)));
    CHECK(job.sink.out_bytes == bytes);
    CHECK(job.sink.err_bytes == "\x1b[2J\rbar");
    CHECK_FALSE(job.follower.owes(job.sink));
    job.sink.is_written = false;
    CHECK(job.follower.owes(job.sink));
    CHECK(job.sink.out.empty());
}

TEST_CASE(
    "without prefixes lines of several ranks stay whole, unless one is silent within its own") {
    LoggingSpec options;
    options.prefix = false;
    Job job(2, options);
    job.print(0, "first\nbegin");
    job.print(1, "other\n");
    job.follower.follow(job.sink, kStart);
    CHECK(job.sink.out_bytes == "first\nother\n");
    job.print(0, "ning\n? ");
    job.follower.follow(job.sink, kStart + 20ms);
    CHECK(job.sink.out_bytes == "first\nother\nbeginning\n");
    job.follower.follow(job.sink, kStart + 40ms);
    job.follower.follow(job.sink, kStart + 40ms + LineSplitter::kPromptDelay);
    CHECK(job.sink.out_bytes == "first\nother\nbeginning\n? ");
    job.print(1, "last words");
    job.follower.rank_ended(1);
    job.follower.follow(job.sink, kStart + 1s);
    CHECK(job.sink.out_bytes == "first\nother\nbeginning\n? last words");
}

TEST_CASE(
    "without prefixes what is not shown in the end is said on stderr, and not among the bytes") {
    LoggingSpec options;
    options.prefix = false;
    Job job(1, options);
    job.print(0, "never shown\n");
    job.sink.is_ready = false;
    CHECK_FALSE(job.follower.drain(job.sink, Deadline::after(50ms)));
    CHECK(job.sink.out_bytes.empty());
    CHECK(job.sink.out.empty());
    CHECK(job.sink.err ==
          Lines{"[node1 0] … 12 B not shown; see " + job.files[0].stdout_path.string()});
}

TEST_CASE("bars are live on a terminal, alike ones once, and each is a line when it ends") {
    Job job(3);
    job.sink.is_terminal = true;
    for (int rank = 0; rank < 3; ++rank)
        job.complain(rank, "\r 10%\r 20%");
    job.print(0, "a line\n");
    job.follower.follow(job.sink, kStart);
    CHECK(job.sink.live == Lines{"[ranks 0-2 ×3]  20%"});
    job.complain(1, "\r 30%");
    job.follower.follow(job.sink, kStart + 15s);  // no state in between, as it is to be seen
    CHECK(job.sink.live == Lines{"[ranks 0,2 ×2]  20%", "[node1 1]  30%"});
    CHECK(job.sink.err.empty());
    for (int rank = 0; rank < 3; ++rank)
        job.complain(rank, "\r100%\n");
    job.follower.follow(job.sink, kStart + 16s);
    job.follower.follow(job.sink, kStart + 17s);
    CHECK(job.sink.live.empty());
    CHECK(job.sink.err == Lines{"[ranks 0-2 ×3] 100%"});
    CHECK(job.sink.out == Lines{"[node1 0] a line"});
}

TEST_CASE("a rank that truncates its log is followed from the new beginning") {
    Job job(1, no_fold());
    job.print(0, "before, and quite long\n");
    job.follower.follow(job.sink, kStart);
    REQUIRE(::ftruncate(job.files[0].out.get(), 0) == 0);
    job.print(0, "after\n");
    job.follower.follow(job.sink, kStart);
    CHECK(job.sink.out.back() == "[node1 0] after");
}

TEST_CASE("no rank is starved by one that floods") {
    Job job(2, no_fold());
    const std::string line(99, 'x');
    for (int i = 0; i < 30'000; ++i)
        job.print(0, line + "\n");  // 3 MB: less than is skipped
    job.print(1, "a quiet word\n");
    job.follower.follow(job.sink, kStart);
    const auto word = std::find(job.sink.out.begin(), job.sink.out.end(), "[node1 1] a quiet word");
    REQUIRE(word != job.sink.out.end());
    CHECK(word - job.sink.out.begin() <=
          static_cast<std::ptrdiff_t>(LogFollower::kReadBytes / 100 + 1));
}

namespace {

constexpr int kWriters = 8;
constexpr int kLinesEach = 100'000;

// A process that prints kLinesEach numbered lines as fast as it can.
pid_t start_writer(int fd, int rank) {
    const pid_t pid = ::fork();
    if (pid != 0)
        return pid;
    std::string block;
    for (int i = 0; i < kLinesEach; ++i) {
        block += "rank " + std::to_string(rank) + " line " + std::to_string(i) + "\n";
        if (block.size() < 8192 && i + 1 < kLinesEach)
            continue;
        if (::write(fd, block.data(), block.size()) != static_cast<ssize_t>(block.size()))
            ::_exit(1);
        block.clear();
    }
    ::_exit(0);
}

// The numbers of one rank's lines must grow by one, except behind a line that says that some are
// not shown.
void check_order(const Lines& lines) {
    std::map<std::string, int> next;  // by prefix
    std::map<std::string, bool> skipped;
    int wrong = 0;
    for (const auto& line : lines) {
        const std::string prefix = line.substr(0, line.find(']'));
        if (line.find("not shown; see") != std::string::npos) {
            skipped[prefix] = true;
            continue;
        }
        const int number = std::stoi(line.substr(line.rfind(' ')));
        const bool follows = number == next[prefix] || (skipped[prefix] && number > next[prefix]);
        if (!follows)
            ++wrong;
        next[prefix] = number + 1;
        skipped[prefix] = false;
    }
    CHECK(wrong == 0);
    for (const auto& entry : next)
        CHECK_MESSAGE(entry.second == kLinesEach, "the last line of ", entry.first);
}

}  // namespace

TEST_CASE("eight ranks that flood: the files are complete and the console shows them in order") {
    Job job(kWriters);
    std::vector<pid_t> writers;
    for (int rank = 0; rank < kWriters; ++rank)
        writers.push_back(start_writer(job.files[static_cast<std::size_t>(rank)].out.get(), rank));
    const Deadline deadline = Deadline::after(60s);
    for (std::size_t ended = 0; ended < writers.size() && !deadline.passed();) {
        job.follower.follow(job.sink);
        std::this_thread::sleep_for(5ms);
        int status = 0;
        const pid_t pid = ::waitpid(-1, &status, WNOHANG);
        if (pid <= 0)
            continue;
        CHECK(status == 0);
        ++ended;
    }
    CHECK(job.follower.drain(job.sink, Deadline::after(30s)));
    for (const auto& files : job.files) {
        const std::string content = read_file(files.stdout_path);
        CHECK(std::count(content.begin(), content.end(), '\n') == kLinesEach);
    }
    check_order(job.sink.out);
}

TEST_CASE(
    "a terminal that nobody reads: follow() does not block, writers finish, their files are "
    "complete") {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    const UniqueFd reader(fds[0]), writer(fds[1]);
    ConsoleOptions options;
    options.stdout_fd = options.stderr_fd = writer.get();
    Console console(options);
    Job job(1);
    const pid_t pid = start_writer(job.files[0].out.get(), 0);
    int status = -1;
    const Deadline deadline = Deadline::after(60s);
    while (::waitpid(pid, &status, WNOHANG) == 0 && !deadline.passed()) {
        job.follower.follow(console);
        console.pump();
        std::this_thread::sleep_for(5ms);
    }
    CHECK(status == 0);
    CHECK_FALSE(job.follower.drain(console, Deadline::after(200ms)));
    const std::string content = read_file(job.files[0].stdout_path);
    CHECK(std::count(content.begin(), content.end(), '\n') == kLinesEach);
}

}  // namespace log_follower_test
