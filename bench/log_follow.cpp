// How much of the launcher's time do logs take, and is anything lost? Writers print lines at a
// given speed into their rank files, a follower with a console on a drained pipe shows them as the
// agent would, from a 20 ms timer.
//
//   bench_log_follow [--ranks 8] [--mb-per-second 50] [--seconds 5] [--directory DIR]
//
// Exits with 1 when a file is not complete.

#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "logs/log_follower.hpp"
#include "report/console.hpp"
#include "report/units.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    int ranks = 8;
    double mb_per_second = 50;
    double seconds = 5;
    std::filesystem::path directory = std::filesystem::temp_directory_path();
};

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string_view name = argv[i];
        if (i + 1 == argc)
            throw Error(ErrorCode::invalid_argument, fmt::format("{} needs a value", name));
        if (name == "--ranks")
            options.ranks = std::atoi(argv[i + 1]);
        else if (name == "--mb-per-second")
            options.mb_per_second = std::atof(argv[i + 1]);
        else if (name == "--seconds")
            options.seconds = std::atof(argv[i + 1]);
        else if (name == "--directory")
            options.directory = argv[i + 1];
        else
            throw Error(ErrorCode::invalid_argument, fmt::format("unknown option {}", name));
    }
    return options;
}

constexpr std::size_t kLineBytes = 100;
constexpr std::size_t kBlockLines = 80;  // about the 8 KiB that stdio and Python write at once

// In the child: numbered lines of kLineBytes, paced, for `seconds`. The number of lines is written
// to `count_fd` at the end.
[[noreturn]] void write_lines(int fd, int count_fd, const Options& options) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto begin = Clock::now();
    const double lines_per_second = options.mb_per_second * 1e6 / kLineBytes;
    long long lines = 0;
    std::string block;
    for (;;) {
        const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
        if (elapsed >= options.seconds)
            break;
        if (static_cast<double>(lines) > lines_per_second * elapsed) {
            std::this_thread::sleep_for(1ms);
            continue;
        }
        block.clear();
        for (std::size_t i = 0; i < kBlockLines; ++i)
            block += fmt::format("line {:>94}\n", lines++);
        write_all(fd, block, "the rank's stdout");
    }
    write_all(count_fd, fmt::format("{}\n", lines), "the count");
    ::_exit(0);
}

double cpu_seconds(int who) {
    rusage usage{};
    ::getrusage(who, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Child {
    pid_t pid = -1;
    UniqueFd count;
};

Child start_writer(const RankFiles& files, const Options& options) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0)
        throw SystemError(errno, "make a pipe");
    UniqueFd reader(fds[0]), writer(fds[1]);
    const pid_t pid = ::fork();
    if (pid < 0)
        throw SystemError(errno, "fork");
    if (pid == 0)
        write_lines(files.out.get(), writer.get(), options);
    return {pid, std::move(reader)};
}

// A process that reads and counts what the console shows, as `cat` would; the count comes as its
// last line.
struct Viewer {
    UniqueFd input;  // the console's stdout
    Child child;

    Viewer() {
        int shown[2], count[2];
        if (::pipe2(shown, O_CLOEXEC) != 0 || ::pipe2(count, O_CLOEXEC) != 0)
            throw SystemError(errno, "make a pipe");
        UniqueFd shown_reader(shown[0]), count_writer(count[1]);
        input.reset(shown[1]);
        child.count.reset(count[0]);
        child.pid = ::fork();
        if (child.pid != 0)
            return;
        input.reset();
        std::vector<char> buffer(65536);
        long long bytes = 0;
        for (ssize_t got; (got = ::read(shown_reader.get(), buffer.data(), buffer.size())) > 0;)
            bytes += got;
        write_all(count_writer.get(), fmt::format("{}\n", bytes), "the count");
        ::_exit(0);
    }
};

long long wait_for_count(const Child& child) {
    char text[32] = {};
    if (::read(child.count.get(), text, sizeof text - 1) <= 0)
        throw Error(ErrorCode::closed, "a child died");
    ::waitpid(child.pid, nullptr, 0);
    return std::atoll(text);
}

struct Measured {
    long long written_bytes = 0, file_bytes = 0, shown_bytes = 0;
    double seconds = 0, cpu_seconds = 0, drain_ms = 0;
    bool drained = false;
};

// The agent's part: follow and pump every 20 ms while the ranks write, then drain.
void follow(LogFollower& follower, Console& console, const std::vector<Child>& writers,
            const Options& options, Measured& measured) {
    const double cpu_before = cpu_seconds(RUSAGE_SELF);
    const auto begin = Clock::now();
    while (Clock::now() - begin < std::chrono::duration<double>(options.seconds)) {
        follower.follow(console);
        console.pump();
        std::this_thread::sleep_for(20ms);
    }
    measured.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    measured.cpu_seconds = cpu_seconds(RUSAGE_SELF) - cpu_before;
    for (const auto& writer : writers)
        measured.written_bytes += wait_for_count(writer) * static_cast<long long>(kLineBytes);
    const auto drain_begin = Clock::now();
    measured.drained = follower.drain(console, Deadline::after(10s));
    measured.drain_ms =
        std::chrono::duration<double, std::milli>(Clock::now() - drain_begin).count();
}

Measured measure(const Options& options, const std::filesystem::path& run_dir) {
    Measured measured;
    Viewer viewer;
    {
        ConsoleOptions console_options;
        console_options.stdout_fd = viewer.input.get();
        Console console(console_options);
        LogFollower follower({}, "node1");
        std::vector<RankFiles> files;
        std::vector<Child> writers;
        for (int rank = 0; rank < options.ranks; ++rank) {
            files.push_back(open_rank_files(open_generation_folder(run_dir, 0), rank));
            follower.add_rank(rank, rank, files.back());
        }
        for (const auto& rank_files : files)
            writers.push_back(start_writer(rank_files, options));
        follow(follower, console, writers, options, measured);
        for (const auto& rank_files : files)
            measured.file_bytes +=
                static_cast<long long>(std::filesystem::file_size(rank_files.stdout_path));
    }
    viewer.input.reset();  // with the console's own opening of it: now the viewer sees the end
    measured.shown_bytes = wait_for_count(viewer.child);
    return measured;
}

void print(const Measured& measured, const Options& options) {
    const auto size = [](long long bytes) {
        return format_bytes(static_cast<std::uint64_t>(bytes));
    };
    const bool complete = measured.file_bytes == measured.written_bytes;
    fmt::print("ranks         {} x {} MB/s asked for\n", options.ranks, options.mb_per_second);
    fmt::print("written       {} by all ranks, {:.1f} MB/s\n", size(measured.written_bytes),
               static_cast<double>(measured.written_bytes) / 1e6 / measured.seconds);
    fmt::print("in the files  {}: {}\n", size(measured.file_bytes),
               complete ? "complete" : "NOT COMPLETE");
    fmt::print(
        "shown         {} on the console; equal lines are folded, what is far behind is skipped\n",
        size(measured.shown_bytes));
    fmt::print("agent         {:.1f} % of one core for following\n",
               100 * measured.cpu_seconds / measured.seconds);
    fmt::print("final drain   {:.0f} ms{}\n", measured.drain_ms,
               measured.drained ? "" : ", not complete");
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const Options options = parse(argc, argv);
        const auto run_dir = options.directory / ("autolaunch-log-follow-" + random_hex(4));
        const Measured measured = measure(options, run_dir);
        std::filesystem::remove_all(run_dir);
        print(measured, options);
        return measured.file_bytes == measured.written_bytes ? 0 : 1;
    } catch (const std::exception& error) {
        fmt::print(stderr, "bench_log_follow: {}\n", error.what());
        return 2;
    }
}
