// The console on real pipes, files and pseudo-terminals.

#include "report/console.hpp"
#include "../write_file.hpp"
#include "causes/failure_evidence.hpp"
#include "report/failure_screen.hpp"
#include "report/reporter.hpp"

#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/unique_fd.hpp"
#include "report/bar.hpp"
#include "small_terminal.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace console_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

struct Pipe {
    UniqueFd reader, writer;

    Pipe() {
        int fds[2];
        REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
        reader.reset(fds[0]);
        writer.reset(fds[1]);
    }
};

// A pseudo-terminal that passes bytes unchanged (no "\n" -> "\r\n"), of 60 columns.
struct Terminal {
    UniqueFd screen, user;  // what the person sees; what a program writes to

    Terminal() {
        screen.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
        REQUIRE(screen);
        REQUIRE(::grantpt(screen.get()) == 0);
        REQUIRE(::unlockpt(screen.get()) == 0);
        user.reset(::open(::ptsname(screen.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
        REQUIRE(user);
        winsize size{};
        size.ws_col = 60;
        size.ws_row = 24;
        REQUIRE(::ioctl(user.get(), TIOCSWINSZ, &size) == 0);
    }
};

// All that can be read within `wait` after the last byte.
std::string read_available(int fd, int wait_ms = 50) {
    std::string content;
    pollfd entry{fd, POLLIN, 0};
    char buffer[4096];
    while (::poll(&entry, 1, wait_ms) == 1) {
        const ssize_t got = ::read(fd, buffer, sizeof buffer);
        if (got <= 0)
            break;
        content.append(buffer, static_cast<std::size_t>(got));
    }
    return content;
}

ConsoleOptions options(int out, int err) {
    ConsoleOptions chosen;
    chosen.stdout_fd = out;
    chosen.stderr_fd = err;
    return chosen;
}

bool is_nonblocking(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0; }

struct TemporaryDirectory {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("autolaunch-console-" + random_hex(8));
    TemporaryDirectory() { std::filesystem::create_directory(path); }
    ~TemporaryDirectory() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE(
    "stdout of ranks goes to stdout, their stderr and our messages to stderr, without colours on "
    "pipes") {
    Pipe out, err;
    Console console(options(out.writer.get(), err.writer.get()));
    console.write_line(OutputStream::out, "[n 0]", "\x1b[31mred\x1b[0m");
    console.write_line(OutputStream::err, "[n 1]", "bad\x07");
    console.write_message("ours, with a \x1b[2Jjob name");
    console.set_status("never seen on a pipe");
    console.pump();
    CHECK_FALSE(console.has_status_line());
    CHECK(read_available(out.reader.get()) == "[n 0] red\n");
    CHECK(read_available(err.reader.get()) == "[n 1] bad\\x07\nours, with a job name\n");
}

TEST_CASE("two names of one pipe keep the order of lines") {
    Pipe both;
    const UniqueFd second(::fcntl(both.writer.get(), F_DUPFD_CLOEXEC, 3));
    Console console(options(both.writer.get(), second.get()));
    for (int i = 0; i < 4; ++i)
        console.write_line(i % 2 == 0 ? OutputStream::out : OutputStream::err, "",
                           std::to_string(i));
    console.pump();
    CHECK(read_available(both.reader.get()) == "0\n1\n2\n3\n");
}

TEST_CASE("a reader that stands still holds up nothing, and gets every line when it goes on") {
    Pipe out, err;
    Console console(options(out.writer.get(), err.writer.get()));
    std::string expected;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; console.ready(OutputStream::out); ++i) {
        REQUIRE(i < 100'000);
        const std::string line = "line " + std::to_string(i) + std::string(100, '.');
        expected += line + "\n";
        console.write_line(OutputStream::out, "", line);
        console.pump();
    }
    CHECK(std::chrono::steady_clock::now() - begin <
          10s);                               // it came back at all; a blocked write never would
    CHECK(console.ready(OutputStream::err));  // the other stream is not held up
    CHECK_FALSE(is_nonblocking(out.writer.get()));  // and the shared description is as it was
    CHECK_FALSE(console.flush(Deadline::after(100ms)));
    std::string got;
    while (got.size() < expected.size()) {
        console.pump();
        const std::string part = read_available(out.reader.get());
        REQUIRE_FALSE(part.empty());
        got += part;
    }
    CHECK(got == expected);
    CHECK(console.ready(OutputStream::out));
}

TEST_CASE("messages for a console that is stuck are bounded, and what is left out is counted") {
    Pipe err;
    Console console(options(err.writer.get(), err.writer.get()));
    const std::string message(100'000, 'm');
    for (int i = 0; i < 30; ++i)
        console.write_message(message);
    std::string got;
    for (std::string part = "first"; !part.empty();) {
        console.pump();
        part = read_available(err.reader.get());
        got += part;
    }
    CHECK(got.size() <= Console::kMessageLimitBytes + 100);
    console.write_message("after");
    console.pump();
    CHECK(read_available(err.reader.get()) == "… 20 messages not shown\nafter\n");
}

TEST_CASE("a closed stdout raises no signal and ends nothing") {
    Pipe out, err;
    Console console(options(out.writer.get(), err.writer.get()));
    out.reader.reset();
    for (int i = 0; i < 3; ++i) {  // SIGPIPE has its default action here: it would end the test
        console.write_line(OutputStream::out, "", "nobody reads this");
        console.pump();
    }
    CHECK(console.ready(OutputStream::out));
    console.write_line(OutputStream::err, "", "still here");
    CHECK(console.flush(Deadline::after(5s)));
    CHECK(read_available(err.reader.get()) == "still here\n");
}

TEST_CASE("descriptors that were closed before the start are no error") {
    Console console(options(1'000'000, 1'000'001));
    console.write_line(OutputStream::out, "", "x");
    console.write_message("y");
    console.pump();
    CHECK(console.flush(Deadline::after(1s)));
}

TEST_CASE("sockets and files take whole lines too") {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    const UniqueFd near(pair[0]), far(pair[1]);
    TemporaryDirectory directory;
    const UniqueFd file = open_file(directory.path / "log", O_WRONLY | O_CREAT, 0644);
    write_all(file.get(), "before\n", "log");
    Console console(options(near.get(), file.get()));
    console.write_line(OutputStream::out, "", "to a socket");
    console.write_line(OutputStream::err, "", "to a file");
    CHECK(console.flush(Deadline::after(5s)));
    CHECK(read_available(far.get()) == "to a socket\n");
    CHECK(read_file(directory.path / "log") == "before\nto a file\n");  // at the shared offset
}

TEST_CASE("on a terminal the status line is below, erased before a line and put back after it") {
    Terminal terminal;
    Console console(options(terminal.user.get(), terminal.user.get()));
    REQUIRE(console.has_status_line());
    const Console::Clock::time_point start{};
    console.set_status("step 1");
    console.pump(start);
    CHECK(read_available(terminal.screen.get()) == "\r\x1b[?7lstep 1\x1b[K\x1b[J\r\x1b[?7h");
    console.write_line(OutputStream::out, "[n 0]", "hello");
    console.pump(start + 20ms);
    CHECK(read_available(terminal.screen.get()) ==
          "\r\x1b[K\x1b[C\x1b[J\r\x1b[2m[n 0]\x1b[0m hello\r\n\r\x1b[?7lstep "
          "1\x1b[K\x1b[J\r\x1b[?7h");
    CHECK(console.flush(Deadline::after(5s)));
    CHECK(read_available(terminal.screen.get()) == "\r\x1b[K\x1b[C\x1b[J\r");
}

TEST_CASE("the status line is redrawn ten times a second at most, and cut to the width") {
    Terminal terminal;
    Console console(options(terminal.user.get(), terminal.user.get()));
    const Console::Clock::time_point start{};
    int redraws = 0;
    for (int ms = 0; ms < 1000; ms += 20) {
        console.set_status("step " + std::to_string(ms));
        console.pump(start + std::chrono::milliseconds(ms));
        if (!read_available(terminal.screen.get(), 0).empty())
            ++redraws;
    }
    CHECK(redraws >= 5);
    CHECK(redraws <= 10);
    console.set_status(std::string(100, 'x'));
    console.pump(start + 2s);
    CHECK(read_available(terminal.screen.get()) ==
          "\r\x1b[?7l" + std::string(58, 'x') + "…\x1b[K\x1b[J\r\x1b[?7h");
}

TEST_CASE("live lines of ranks stand above the status line, as many as fit") {
    Terminal terminal;
    Console console(options(terminal.user.get(), terminal.user.get()));
    SmallTerminal screen(60, true);
    const auto look = [&](Console::Clock::time_point now) {
        console.pump(now);
        screen.feed(read_available(terminal.screen.get()));
        return screen.lines();
    };
    using Lines = std::vector<std::string>;
    const Console::Clock::time_point start{};
    REQUIRE(console.shows_live(OutputStream::out));
    console.set_live({{"[n 0]", "10%\x1b[2J"}});
    CHECK(look(start) == Lines{"[n 0] 10%"});
    console.set_status("step 1");
    console.write_line(OutputStream::out, "[n 1]", "hello");
    CHECK(look(start + 1s) == Lines{"[n 1] hello", "[n 0] 10%", "step 1"});
    console.set_live({{"[n 0]", "20%"}, {"[n 1]", std::string(80, 'x')}});
    console.write_message("ours");
    CHECK(look(start + 2s) == Lines{"[n 1] hello", "ours", "[n 0] 20%",
                                    "[n 1] " + std::string(52, 'x') + "…", "step 1"});
    std::vector<LiveLine> many;
    for (int rank = 0; rank < 20; ++rank)
        many.push_back({"[n " + std::to_string(rank) + "]", "0%"});
    console.set_live(many);
    const Lines full = look(start + 3s);
    REQUIRE(full.size() == 2 + Console::kMostLiveLines + 2);
    CHECK(full[9] == "[n 7] 0%");
    CHECK(full[10] == "… and 12 more");
    console.set_live({});
    CHECK(look(start + 4s) == Lines{"[n 1] hello", "ours", "step 1"});
    CHECK(console.flush(Deadline::after(5s)));
    screen.feed(read_available(terminal.screen.get()));
    CHECK(screen.lines() == Lines{"[n 1] hello", "ours"});
    Pipe pipe;
    Console other(options(pipe.writer.get(), terminal.user.get()));
    CHECK_FALSE(other.shows_live(OutputStream::out));
    CHECK(other.shows_live(OutputStream::err));
}

TEST_CASE("a terminal that is made narrower and wider keeps no pieces of what was below") {
    for (const bool breaks_anew : {true, false}) {
        Terminal terminal;
        Console console(options(terminal.user.get(), terminal.user.get()));
        SmallTerminal screen(60, breaks_anew);
        std::vector<std::string> expected;
        Console::Clock::time_point now{};
        const auto look = [&] {
            console.pump(now += 20ms);
            screen.feed(read_available(terminal.screen.get(), 10));
        };
        int step = 0;
        for (const unsigned short columns : {60, 41, 23, 12, 35, 60, 20}) {
            console.set_status(std::string(70, '='));
            console.pump(now += 200ms);  // for the old width, and it arrives when it is another
            winsize size{};
            size.ws_col = columns;
            size.ws_row = 24;
            REQUIRE(::ioctl(terminal.user.get(), TIOCSWINSZ, &size) == 0);
            screen.resize(columns);
            look();  // nothing new: the width alone has it drawn again
            const std::string left = "step " + std::to_string(++step) + "/9 ";
            console.set_live({{"[n 0]", "epoch " + std::to_string(step) + std::string(50, '#')}});
            console.set_status(left + draw_bar(0.5, 70));
            look();
            console.write_line(OutputStream::out, "", "l" + std::to_string(step));
            expected.push_back("l" + std::to_string(step));
            look();
            auto shown = screen.lines();
            REQUIRE(shown.size() == expected.size() + 2);
            CHECK(shown[expected.size()].starts_with("[n 0] e"));
            CHECK(shown[expected.size() + 1].starts_with(left));
            shown.resize(expected.size());
            CHECK(shown == expected);
        }
        CHECK(console.flush(Deadline::after(5s)));
        screen.feed(read_available(terminal.screen.get()));
        CHECK(screen.lines() == expected);
    }
}

TEST_CASE("bytes of ranks pass a console unchanged, and our own words begin a line on a terminal") {
    Pipe out, err;
    ConsoleOptions chosen = options(out.writer.get(), err.writer.get());
    chosen.ranks_write_bytes = true;
    {
        Console console(chosen);
        const std::string bytes("\x1b[31m\0\xff\r\x07 no end", 16);
        console.write_bytes(OutputStream::out, bytes);
        console.write_bytes(OutputStream::err, bytes);
        console.write_message("ours");
        CHECK_FALSE(console.written());
        console.pump();
        CHECK(console.written());
        CHECK(read_available(out.reader.get()) == bytes);
        CHECK(read_available(err.reader.get()) == bytes + "ours\n");
    }
    Terminal terminal;
    chosen.stdout_fd = chosen.stderr_fd = terminal.user.get();
    Console console(chosen);
    CHECK_FALSE(console.has_status_line());
    CHECK_FALSE(console.shows_live(OutputStream::out));
    console.write_bytes(OutputStream::out, "prompt> ");
    console.write_message("ours");
    console.write_bytes(OutputStream::out, "whole\n");
    console.write_message("ours again");
    console.pump();
    CHECK(read_available(terminal.screen.get()) == "prompt> \r\nours\r\nwhole\r\nours again\r\n");
}

TEST_CASE("in ASCII what ranks print stays, and what we say is ASCII") {
    Pipe err;
    ConsoleOptions chosen = options(err.writer.get(), err.writer.get());
    chosen.charset = Charset::ascii;
    Console console(chosen);
    console.write_line(OutputStream::out, "[ranks 0-1 ×2]", "é ✗");
    console.write_message("✗ rank 0 · é");
    console.pump();
    CHECK(read_available(err.reader.get()) == "[ranks 0-1 x2] é ✗\nx rank 0 - \\u{00e9}\n");
}

TEST_CASE("a terminal that is not read does not block, and the status line does not pile up") {
    Terminal terminal;
    Console console(options(terminal.user.get(), terminal.user.get()));
    const Console::Clock::time_point start{};
    for (int i = 0; i < 20'000; ++i) {
        console.set_status("step " + std::to_string(i));
        console.pump(start + i * 200ms);
    }
    CHECK_FALSE(console.flush(Deadline::after(50ms)));
    const std::string shown = read_available(terminal.screen.get());
    CHECK(shown.size() < 2 * Console::kReadyBelowBytes);
    CHECK_FALSE(is_nonblocking(terminal.user.get()));
}

TEST_CASE("NO_COLOR and TERM=dumb are honoured") {
    ::setenv("TERM", "xterm-256color", 1);
    ::unsetenv("NO_COLOR");
    CHECK(ConsoleOptions::from_environment().colours);
    ::setenv("NO_COLOR", "1", 1);
    CHECK_FALSE(ConsoleOptions::from_environment().colours);
    CHECK(ConsoleOptions::from_environment().cursor_control);
    Terminal terminal;
    ConsoleOptions chosen = ConsoleOptions::from_environment();
    chosen.stdout_fd = chosen.stderr_fd = terminal.user.get();
    Console console(chosen);
    console.write_line(OutputStream::err, "[n 0]", "\x1b[31mred");
    console.write_message(console.style().red("message"));
    console.pump();
    CHECK(read_available(terminal.screen.get()) == "[n 0] red\r\nmessage\r\n");
    ::unsetenv("NO_COLOR");
    ::setenv("TERM", "dumb", 1);
    CHECK_FALSE(ConsoleOptions::from_environment().colours);
    CHECK_FALSE(ConsoleOptions::from_environment().cursor_control);
}

TEST_CASE("of a line that was written over its end counts, but quoted carriage returns are shown") {
    TemporaryDirectory directory;
    const auto evidence_in = [&](const std::string& text) {
        const std::string path = directory.path / "stderr";
        write_file(path, text);
        return collect_evidence(path, {}, {}).last_lines;
    };
    using Lines = std::vector<std::string>;
    CHECK(evidence_in("10 %\r20 %\r\r\n") == Lines{"20 %"});
    CHECK(evidence_in("DOS line\r\n\r\n") == Lines{"DOS line"});
    CHECK(evidence_in("/bin/bash: -\r: invalid option\n") ==
          Lines{"/bin/bash: -\\r: invalid option"});
    CHECK(evidence_in("t: export: `A\r': not a valid identifier\n") ==
          Lines{"t: export: `A\\r': not a valid identifier"});
    CHECK(evidence_in("sh: 0: Illegal option -\r\n") == Lines{"sh: 0: Illegal option -\\r"});
    CHECK(evidence_in("Unknown option: -\r\nusage\n") == Lines{"Unknown option: -\\r", "usage"});
    CHECK(evidence_in(std::string(60'000, '\r') + "x\n") == Lines{"x"});
}

TEST_CASE("the reporter shows a job from its banner to its end, and records every event") {
    TemporaryDirectory directory;
    const std::string stderr_path = directory.path / "stderr";
    write_file(stderr_path, "loading\rloaded\nValueError: bad shard\n\n");
    Pipe err;
    Console console(options(err.writer.get(), err.writer.get()));
    ReporterOptions chosen;
    chosen.version = "0.1";
    chosen.events_path = directory.path / "events.jsonl";
    Reporter reporter(chosen, console);
    int events = 0;
    const auto give = [&](auto what) {
        reporter.handle({std::chrono::system_clock::now(), 0, std::move(what)});
        ++events;
    };
    const Reporter::Clock::time_point start{};
    JobStarted job;
    job.job_name = "gpt";
    job.run_id = "7";
    job.run_dir = directory.path;
    job.world_size = 2;
    job.binding = "node";
    give(job);
    give(GenerationStarted{0, 5ms, 2, 1, 0});
    StepReported step;
    step.step = 1;
    step.total_steps = 10;
    give(step);
    reporter.tick(start);
    step.step = 2;
    give(step);
    reporter.tick(start + 5s);  // too soon for a second line
    GenerationFailed failure;
    failure.record.cause = Cause::program_error;
    failure.record.certainty = Certainty::certain;
    failure.record.what = "ValueError: bad shard";
    failure.first.pid = 42;
    failure.first.exit_code = 1;
    failure.first.ran = 3s;
    failure.stderr_path = stderr_path;
    failure.evidence = collect_evidence(stderr_path, {}, {});
    give(failure);
    give(JobEnded{1, "failed", 0, 3s});
    console.pump();
    const std::string dir = directory.path;
    std::string shown = read_available(err.reader.get());
    const std::size_t ledger = shown.find("\ntime: ");  // goes by the clock
    REQUIRE(ledger != std::string::npos);
    shown.erase(ledger, shown.find('\n', ledger + 1) - ledger);
    CHECK(shown ==
          "autolaunch 0.1   job 7 gpt   1 node x 1 rank   run dir " + dir +
              "\n  placed    2/2 ranks as planned in 5 ms · binding node on 1 NUMA node · no "
              "GPUs\nstep 1/10\n" +
              "\n✗ rank 0 (pid 42) exited with code 1, 3.0 s after it started\n    the last lines "
              "of its stderr:\n"
              "      | loaded\n      | ValueError: bad shard\n    cause: program_error, certain\n  "
              "  more: less " +
              stderr_path + "\nfailed after 3.0 s · exit code 1 · " + dir + "\n");
    const std::string recorded = read_file(chosen.events_path);
    CHECK(std::count(recorded.begin(), recorded.end(), '\n') == events);
}

TEST_CASE(
    "quiet leaves out banner and closing line, not warnings and failures; a restart is announced "
    "otherwise") {
    for (const bool quiet : {false, true}) {
        Pipe err;
        Console console(options(err.writer.get(), err.writer.get()));
        ReporterOptions chosen;
        chosen.quiet = quiet;
        Reporter reporter(chosen, console);
        JobStarted job;
        job.warnings = {"heed this"};
        reporter.handle({{}, 0, job});
        reporter.handle({{}, 0, GenerationStarted{0, 70ms, 1, 1, 0}});
        reporter.handle({{}, 1, GenerationStarted{1, 80ms, 1, 1, 0}});
        reporter.handle({{}, 1, SpawnFailed{0, "no such program", "check the path"}});
        reporter.handle({{}, 1, JobEnded{127, "failed", 1, 2s}});
        console.pump();
        const std::string shown = read_available(err.reader.get());
        CHECK(shown.find("heed this") != std::string::npos);
        CHECK(shown.find("✗ rank 0 could not be started: no such program\n    check the path\n") !=
              std::string::npos);
        CHECK((shown.find("run dir") == std::string::npos) == quiet);
        CHECK((shown.find("  restarted 1/1 rank as planned in 80 ms\n") == std::string::npos) ==
              quiet);
        CHECK((shown.find("failed after 2.0 s · exit code 127 · 1 restart\n") ==
               std::string::npos) == quiet);
    }
}

TEST_CASE("on other nodes than the head events are recorded, and only the head's loss is shown") {
    TemporaryDirectory directory;
    Pipe err;
    Console console(options(err.writer.get(), err.writer.get()));
    ReporterOptions chosen;
    chosen.events_path = directory.path / "events.node-1.jsonl";
    chosen.only_records = true;
    Reporter reporter(chosen, console);
    reporter.handle({{}, 0, WarningRaised{"heed this"}});
    reporter.handle({{}, 0, StopRequested{"SIGTERM"}});
    reporter.handle({{}, 0, HeadLost{"node1", "the head, node1, broke its connection"}});
    reporter.tick(Reporter::Clock::now() + Reporter::kStopNoticeDelay);
    console.pump();
    CHECK(read_available(err.reader.get()) ==
          "✗ the head was lost: the head, node1, broke its connection\n"
          "    cause: node_lost\n");
    const std::string recorded = read_file(chosen.events_path);
    CHECK(std::count(recorded.begin(), recorded.end(), '\n') == 3);
}

TEST_CASE("a stop that takes long is announced, one that is quick is not") {
    Pipe err;
    Console console(options(err.writer.get(), err.writer.get()));
    Reporter reporter({}, console);
    reporter.handle({{}, 0, StopRequested{"SIGTERM"}});
    reporter.tick();
    console.pump();
    CHECK(read_available(err.reader.get()).empty());
    reporter.tick(Reporter::Clock::now() + Reporter::kStopNoticeDelay);
    console.pump();
    CHECK(read_available(err.reader.get()) == "stopping all ranks: SIGTERM\n");
}

TEST_CASE("events that cannot be recorded are said once, and the job goes on") {
    std::string folder = "/tmp/autolaunch-console-XXXXXX";
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    Pipe err;
    Console console(options(err.writer.get(), err.writer.get()));
    ReporterOptions chosen;
    chosen.events_path = folder + "/events.jsonl";
    Reporter reporter(chosen, console);
    // As `ulimit -f 0`: no file may grow.
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit nothing = {0, before.rlim_max};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &nothing);
    reporter.handle({{}, 0, MessageReported{0, "a"}});
    reporter.handle({{}, 0, MessageReported{0, "b"}});
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, SIG_DFL);
    console.pump();
    const std::string said = read_available(err.reader.get());
    CHECK(said.starts_with("warning: events are not recorded: cannot write " +
                           chosen.events_path.string() + ": File too large; "));
    CHECK(std::count(said.begin(), said.end(), '\n') == 1);
    std::filesystem::remove_all(folder);
}

}  // namespace console_test
