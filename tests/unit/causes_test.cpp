// Why a rank ended, by what is known of it: docs/causes.md, line by line.
#include "causes/final_error.hpp"
#include "causes/kernel_words.hpp"
#include "causes/known_texts.hpp"
#include "causes/rank_end.hpp"
#include "causes/stop_cause.hpp"
#include "post_mortem/kernel_log.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace causes_test {

using namespace autolaunch::launcher;
using Lines = std::vector<std::string>;

namespace {

RankEnd exited(int code, Lines lines = {}) {
    RankEnd rank;
    rank.end.rank = 3;
    rank.end.pid = 812;
    rank.end.exit_code = code;
    rank.words.last_lines = std::move(lines);
    return rank;
}

RankEnd killed(int signal, Lines lines = {}) {
    RankEnd rank = exited(0, std::move(lines));
    rank.end.exit_code.reset();
    rank.end.signal = signal;
    return rank;
}

std::string told(const RankEnd& rank) {
    const EndRecord record = judge(rank);
    return record.evidence.empty() ? "" : record.evidence.front();
}

void check(const RankEnd& rank, Cause cause, Certainty certainty, const std::string& what = {}) {
    const EndRecord record = judge(rank);
    CAPTURE(record.what);
    CHECK(name_of(record.cause) == name_of(cause));
    CHECK(name_of(record.certainty) == name_of(certainty));
    CHECK(record.rank == rank.end.rank);
    if (!what.empty())
        CHECK(record.what == what);
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE(
    "what the driver says of a rank's GPU: hardware's events are the cause, others are told") {
    RankEnd rank = exited(1, {"RuntimeError: CUDA error: unspecified launch failure"});
    rank.gpu_troubles = {{GpuTrouble::Kind::xid, 79, "Xid 79"},
                         {GpuTrouble::Kind::xid, 31, "Xid 31"}};
    check(rank, Cause::gpu, Certainty::certain, "Xid 79");
    rank.gpu_troubles = {{GpuTrouble::Kind::lost, 0, "it has fallen off the bus"}};
    check(rank, Cause::gpu, Certainty::certain, "it has fallen off the bus");
    RankEnd wrong = exited(1, {"ValueError: bad"});
    wrong.gpu_troubles = {{GpuTrouble::Kind::xid, 31, "Xid 31"},
                          {GpuTrouble::Kind::slowed, 0, "it was slowed down: too hot"}};
    check(wrong, Cause::program_error, Certainty::certain, "ValueError: bad");
    CHECK(contains(judge(wrong).evidence.back(), "its GPU: it was slowed down: too hot"));
}

TEST_CASE("a link that went down is why others could not be reached, and no reason for the rest") {
    const Lines down{"mlx5_0 port 1 is DOWN"};
    RankEnd follower = exited(1, {"RuntimeError: Connection reset by peer"});
    follower.ports_down = down;
    check(follower, Cause::network, Certainty::likely);
    CHECK_FALSE(judge(follower).follows);
    CHECK(told(follower) == "mlx5_0 port 1 is DOWN: up when the ranks were started");
    RankEnd wrong = exited(1, {"ValueError: bad"});
    wrong.ports_down = down;
    check(wrong, Cause::program_error, Certainty::certain, "ValueError: bad");
    CHECK(contains(judge(wrong).evidence.back(), "mlx5_0 port 1 is DOWN"));
}

TEST_CASE("of a rank that could not say anything itself it is told what it did last") {
    const std::string seen = "last seen: it reported step 7 0.2 s before";
    for (const int signal : {SIGKILL, SIGSEGV}) {
        RankEnd rank = killed(signal);
        rank.last_moment = seen;
        CHECK(judge(rank).evidence.back() == seen);
    }
    RankEnd memory = killed(SIGKILL);
    memory.oom_kills = 1;
    memory.last_moment = seen;
    CHECK(judge(memory).evidence.back() == seen);
    RankEnd spoke = exited(1, {"ValueError: bad"});
    spoke.last_moment = seen;
    for (const std::string& sentence : judge(spoke).evidence)
        CHECK(sentence != seen);
}

TEST_CASE("causes and certainties have names, and no other names") {
    std::set<std::string_view> names;
    for (const Cause cause : all_causes()) {
        names.insert(name_of(cause));
        CHECK(cause_named(name_of(cause)) == cause);
    }
    CHECK(names.size() == kCauses);
    CHECK_FALSE(cause_named("oom"));
    CHECK(certainty_named("likely") == Certainty::likely);
    CHECK_FALSE(certainty_named(""));
}

TEST_CASE("a program's own end: its exception where its language prints one, else its code") {
    check(exited(3), Cause::program_error, Certainty::certain, "exit code 3");
    check(exited(1, {"loading", "error: no such shard", "bye"}), Cause::program_error,
          Certainty::certain, "error: no such shard");
    check(exited(1, {"Traceback (most recent call last):", "  File \"t.py\", line 7, in <module>",
                     "    go()", "    ^^^^", "  File \"t.py\", line 3, in go", "    raise X",
                     "ValueError: bad shard", "and more of it"}),
          Cause::program_error, Certainty::certain, "ValueError: bad shard");
    check(exited(1, {"[rank3]: Traceback (most recent call last):",
                     "[rank3]:   File \"t.py\", line 3, in go", "[rank3]:     raise X",
                     "[rank3]: pkg.errors.ShardError: bad"}),
          Cause::program_error, Certainty::certain, "pkg.errors.ShardError: bad");
    check(killed(SIGABRT, {"terminate called after throwing an instance of 'std::runtime_error'",
                           "  what():  bad shard"}),
          Cause::program_error, Certainty::certain, "std::runtime_error: bad shard");
    const RankEnd hinted =
        killed(SIGABRT, {"terminate called after throwing an instance of 'autolaunch::Error'",
                         "  what():  no unit is named atention; did you mean attention?",
                         "  hint():  the units are attention, mlp", "           and so on",
                         "[node1:7] *** Process received signal ***"});
    check(hinted, Cause::program_error, Certainty::certain,
          "autolaunch::Error: no unit is named atention; did you mean attention?");
    CHECK(judge(hinted).remedy == "the units are attention, mlp; and so on");
    CHECK(judge(killed(SIGABRT, {"terminate called after throwing an instance of 'X'",
                                 "  what():  bad shard"}))
              .remedy.empty());
    check(exited(101, {"thread 'main' panicked at src/main.rs:2:5:", "index out of bounds"}),
          Cause::program_error, Certainty::certain, "index out of bounds");
    check(exited(2, {"panic: nil map", "", "goroutine 1 [running]:"}), Cause::program_error,
          Certainty::certain, "panic: nil map");
    RankEnd recorded = exited(1, {"Aborted"});
    recorded.words.error_message = "KeyError: 'lr'";
    check(recorded, Cause::program_error, Certainty::certain, "KeyError: 'lr'");
    const auto error =
        find_final_error(exited(1, {"  File \"t.py\", line 7, in <module>", "    go()",
                                    "  File \"u.py\", line 3, in go", "ValueError: x"})
                             .words);
    CHECK(error.where == "u.py:3, in go");
}

TEST_CASE("an error that was raised for another one is of that one's cause") {
    check(exited(1, {"  File \"a.py\", line 1, in f", "OSError: [Errno 28] No space left on device",
                     "", "During handling of the above exception, another exception occurred:", "",
                     "  File \"a.py\", line 3, in g", "RuntimeError: cannot save"}),
          Cause::storage, Certainty::likely, "RuntimeError: cannot save");
    check(exited(1, {"write: No space left on device", "  File \"a.py\", line 3, in g",
                     "RuntimeError: cannot save"}),
          Cause::storage, Certainty::likely);
    check(exited(1, {"warning: Connection reset by peer, once more",
                     "  File \"a.py\", line 3, in g", "ValueError: bad"}),
          Cause::program_error, Certainty::certain);
}

TEST_CASE("a signal of its own doing is a crash, and where, when somebody says so") {
    check(killed(SIGSEGV), Cause::crash, Certainty::certain, "SIGSEGV");
    check(killed(SIGABRT, {"a.out: a.c:3: main: Assertion `x' failed."}), Cause::crash,
          Certainty::certain, "SIGABRT: a.out: a.c:3: main: Assertion `x' failed.");
    check(exited(139), Cause::crash, Certainty::certain);
    CHECK(told(exited(139)) == "139 from a shell: its command was killed by SIGSEGV");
    check(killed(SIGSEGV, {"write: Broken pipe"}), Cause::crash, Certainty::certain);
    CHECK(contains(told(killed(SIGBUS)), "/dev/shm"));
    CHECK(told(killed(SIGSEGV, {"Fatal Python error: Segmentation fault", "",
                                "Current thread 0x1 (most recent call first):",
                                "  File \"t.py\", line 4 in f"})) ==
          "Python was at \"t.py\", line 4 in f");
    RankEnd logged = killed(SIGSEGV);
    logged.kernel_log = {"a.out[811]: segfault at 0 ip 1", "a.out[812]: segfault at 0 ip 2"};
    CHECK(told(logged).empty());
    logged.knows_pids = true;
    CHECK(told(logged) == "the kernel's log: a.out[812]: segfault at 0 ip 2");
}

TEST_CASE(
    "a code above 128 is a signal's where one ends processes, and Python's negative number too") {
    check(exited(139), Cause::crash, Certainty::certain);
    check(exited(245), Cause::crash, Certainty::certain);  // 256 - SIGSEGV
    check(exited(247), Cause::killed, Certainty::possible);
    check(exited(150, {"no convergence"}), Cause::program_error, Certainty::certain);  // SIGTTOU
    check(exited(145), Cause::program_error, Certainty::certain);
    check(exited(255), Cause::program_error, Certainty::certain);
    check(exited(153), Cause::storage, Certainty::certain);  // SIGXFSZ
}

TEST_CASE("wrappers tell of a signal each in its own words, or that there was one") {
    check(exited(2, {"make: *** [Makefile:2: all] Segmentation fault"}), Cause::crash,
          Certainty::likely);
    check(exited(125, {"xargs: ./solver: terminated by signal 9"}), Cause::killed,
          Certainty::possible);
    check(exited(1, {"  status: null,", "  signal: 'SIGSEGV',"}), Cause::crash, Certainty::likely);
    RankEnd hidden = exited(1, {"setsid: child 4711 did not exit normally: Success"});
    check(hidden, Cause::crash, Certainty::possible);
    hidden.knows_pids = true;
    hidden.kernel_log = {"a.out[4711]: segfault at 0 ip 0 sp 0 error 4 in a.out"};
    check(hidden, Cause::crash, Certainty::certain);
    hidden.kernel_log = {"Memory cgroup out of memory: Killed process 4711 (a.out)"};
    check(hidden, Cause::out_of_memory, Certainty::certain);
}

TEST_CASE("the system's messages are known with a small letter, too") {
    check(exited(2, {"panic: write /x: no space left on device"}), Cause::storage,
          Certainty::likely);
    check(exited(1, {"dial tcp 10.0.0.2:80: connect: connection refused"}), Cause::network,
          Certainty::likely);
    check(exited(1, {"  File \"/usr/lib/python3/dist-packages/numpy/lib/format.py\", line 8, in f",
                     "ValueError: cannot reshape array of size 46 into shape (999,)"}),
          Cause::storage, Certainty::likely);
    CHECK(find_known_text("expecting") == nullptr);
}

TEST_CASE("SIGKILL is memory's where the kernel says so, else somebody's") {
    RankEnd rank = killed(SIGKILL);
    check(rank, Cause::killed, Certainty::possible);
    CHECK(told(rank).starts_with("perhaps out of memory"));
    rank.oom_kills = 0;
    check(rank, Cause::killed, Certainty::likely);
    CHECK(told(rank).starts_with("not by this cgroup's out-of-memory killer"));
    rank.oom_kills = 2;
    check(rank, Cause::out_of_memory, Certainty::certain);
    CHECK(told(rank) == "out of memory: the kernel killed 2 processes of this job's cgroup");
    rank.oom_kills.reset();
    rank.kernel_log = {"Out of memory: Killed process 812 (python3) total-vm:1kB"};
    check(rank, Cause::killed, Certainty::possible);  // a process number of a container
    rank.knows_pids = true;
    check(rank, Cause::out_of_memory, Certainty::certain);
    RankEnd shell = exited(137);
    shell.oom_kills = 1;
    check(shell, Cause::out_of_memory, Certainty::certain);
    check(killed(SIGTERM), Cause::killed, Certainty::certain, "SIGTERM");
    check(killed(SIGXCPU), Cause::killed, Certainty::certain);
    CHECK(contains(told(killed(SIGXCPU)), "ulimit -t"));
}

TEST_CASE("memory that was refused is known by the words of those who refuse it") {
    check(exited(1, {"  File \"t.py\", line 1, in f",
                     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"}),
          Cause::out_of_memory, Certainty::likely);
    check(killed(SIGABRT, {"terminate called after throwing an instance of 'std::bad_alloc'",
                           "  what():  std::bad_alloc"}),
          Cause::out_of_memory, Certainty::likely);
    check(exited(1, {"  File \"t.py\", line 1, in f", "MemoryError"}), Cause::out_of_memory,
          Certainty::likely);
    const std::string worker = "RuntimeError: DataLoader worker (pid 77) is killed by signal: ";
    RankEnd rank = exited(1, {worker + "Killed. "});
    rank.oom_kills = 1;
    CHECK(told(rank) ==
          "a data loader's process ran out of memory: the kernel killed 1 process of "
          "this job's cgroup; ask for more, or have fewer workers");
    rank.oom_kills = 0;
    check(rank, Cause::killed, Certainty::likely);
    rank.oom_kills.reset();
    CHECK(contains(told(rank), "perhaps out of memory"));
    check(exited(1, {worker + "Bus error. "}), Cause::storage, Certainty::likely);
    rank = exited(1, {"BrokenPipeError"});
    rank.oom_kills = 2;
    CHECK(told(rank) ==
          "out of memory, for a process beside this one or started by it: the kernel "
          "killed 2 processes of this job's cgroup");
}

TEST_CASE("a program that is not there, or cannot be loaded") {
    const auto said = [](const std::string& line, int code = 127) {
        const RankEnd rank = exited(code, {"epoch 1", line, "bye"});
        check(rank, Cause::cannot_start, Certainty::likely);
        return told(rank);
    };
    CHECK(said("./solver: error while loading shared libraries: libfoo.so.1: cannot open shared "
               "object file: No such file or directory")
              .starts_with("the library libfoo.so.1 is missing on this node: "));
    CHECK(said("ImportError: libcudnn.so.9: cannot open shared object file: No such file", 1)
              .starts_with("the library libcudnn.so.9 is missing"));
    CHECK(said("Error loading shared library libbar.so: No such file or directory (needed by ./p)")
              .starts_with("the library libbar.so is missing"));
    CHECK(said("./p: error while loading shared libraries: libz.so: wrong ELF class: ELFCLASS32") ==
          "the library libz.so cannot be loaded");
    CHECK(contains(said("./p: /lib/libc.so.6: version `GLIBC_2.38' not found (required by ./p)", 1),
                   "than this node has (GLIBC_2.38)"));
    CHECK(said("./p: symbol lookup error: ./p: undefined symbol: ncclCommRevoke")
              .ends_with("it lacks ncclCommRevoke"));
    for (const char* dos : {"/usr/bin/env: \u2018python3\\r\u2019: No such file or directory",
                            "job.sh: line 2: $'\\r': command not found",
                            "bash: ./x: /bin/bash^M: bad interpreter: No such file or directory",
                            "/bin/bash: -\\r: invalid option", "sh: 0: Illegal option -\\r",
                            "Unknown option: -\\r", "t: line 7: exit: 3\\r: numeric argument"})
        CHECK_MESSAGE(contains(said(dos), "dos2unix"), dos);
    CHECK(said("sh: 1: gone: not found") ==
          "127 from a shell: a command it was to run was not found");
    said("python3: can't open file '/x/t.py': [Errno 2] No such file or directory", 2);
    CHECK(said("/usr/bin/python3: No module named trainer", 1) == "Python has no module trainer");
    said("sh: 1: ./p: Exec format error", 126);
    RankEnd later = exited(127, {"sh: 1: gone: not found"});
    later.end.last_step = 5;
    check(later, Cause::program_error, Certainty::certain);
}

TEST_CASE("a full disk: words, a signal, or silence where nothing could be written") {
    check(exited(1, {"x", "cp: error writing: Disk quota exceeded"}), Cause::storage,
          Certainty::likely);
    check(killed(SIGXFSZ), Cause::storage, Certainty::certain);
    RankEnd rank = exited(1);
    rank.no_room = "No space left on device";
    check(rank, Cause::storage, Certainty::certain);
    CHECK(contains(judge(rank).vain, "before there is room"));
    rank.words.last_lines = {"loading"};  // its last words are there, and tell of no disk
    check(rank, Cause::program_error, Certainty::certain);
    CHECK(judge(rank).vain.empty());
    CHECK(contains(told(rank), "nothing can be written where its logs are"));
    rank.words.may_miss_words = true;
    check(rank, Cause::storage, Certainty::certain);
    for (const int signal : {SIGBUS, SIGABRT}) {  // a mapped log; an exception of a stream
        RankEnd mapped = killed(signal, {"loading"});
        mapped.words.may_miss_words = true;
        check(mapped, Cause::crash, Certainty::certain);
        mapped.no_room = rank.no_room;
        check(mapped, Cause::storage, Certainty::certain);
    }
    RankEnd crashed = killed(SIGSEGV, {"loading"});
    crashed.no_room = rank.no_room;
    crashed.words.may_miss_words = true;
    check(crashed, Cause::crash, Certainty::certain);
}

TEST_CASE(
    "checkpoints that cannot be used make a restart vain, by the library's word or by code 74") {
    RankEnd rank = exited(1, {"loading"});
    rank.cannot_resume = "step-00000300: Input/output error";
    check(rank, Cause::storage, Certainty::likely);
    CHECK(judge(rank).vain == kSameCheckpoints);
    CHECK(judge(exited(74)).vain == kSameCheckpoints);
    CHECK(told(exited(74)) == "it cannot go on from its checkpoints: exit code 74 says so");
}

TEST_CASE("MPI_Abort is the rank's own act, but for one that only noticed its peer") {
    RankEnd rank = exited(3);
    rank.mpi_fault = "called MPI_Abort with error code 3";
    check(rank, Cause::mpi_abort, Certainty::certain, rank.mpi_fault);
    CHECK_FALSE(judge(rank).follows);
    rank.words.last_lines = {"*** An error occurred in MPI_Recv", "MPI_ERR_PROC_FAILED: peer"};
    CHECK(judge(rank).follows);
    rank.mpi_fault = "left without MPI_Finalize";
    check(rank, Cause::program_error, Certainty::certain);
}

TEST_CASE("the GPU's own failures, and those that a program brings about") {
    RankEnd rank = exited(1, {"  File \"t.py\", line 1, in f",
                              "RuntimeError: CUDA error: uncorrectable ECC error encountered"});
    check(rank, Cause::gpu, Certainty::likely);
    rank = killed(SIGABRT);
    rank.kernel_log = {
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=812, name=python3, GPU has fallen off the bus."};
    check(rank, Cause::gpu, Certainty::likely, "Xid 79");
    rank.knows_pids = true;
    check(rank, Cause::gpu, Certainty::certain);
    rank.kernel_log = {"NVRM: Xid (PCI:0000:3b:00): 31, pid=812, name=python3, MMU Fault"};
    check(rank, Cause::crash, Certainty::certain);
}

TEST_CASE("waiting in vain and lost peers are known by their texts, and peers' are followers") {
    const auto record_of = [](const std::string& line) { return judge(exited(1, {line})); };
    for (const char* text :
         {"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, "
          "OpType=ALLREDUCE)",
          "RuntimeError: [gloo/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv",
          "rank 0 waited 30 s for rank 1 in all_reduce #2"}) {
        CAPTURE(text);
        CHECK(record_of(text).cause == Cause::collective_timeout);
        CHECK_FALSE(record_of(text).follows);
    }
    for (const char* text :
         {"RuntimeError: [gloo/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:23",
          "NCCL error: remote process exited or there was a network error, NCCL version 2.18",
          "rank 1 (pid 8) went away during all_reduce #2", "ConnectionResetError: [Errno 104]"}) {
        CAPTURE(text);
        CHECK(record_of(text).cause == Cause::network);
        CHECK(record_of(text).follows);
    }
    CHECK_FALSE(record_of("socket.gaierror: Temporary failure in name resolution").follows);
}

TEST_CASE("a table of texts that hides none of its lines") {
    for (const KnownText& known : known_texts()) {
        CAPTURE(known.text);
        REQUIRE(find_known_text(known.text) != nullptr);
        CHECK(find_known_text(known.text)->cause == known.cause);
    }
}

TEST_CASE(
    "a signal that ended a process which the rank had started is told by whoever waited for it") {
    const auto certainty = [](Cause cause) {  // whether memory ran out is not known here
        return cause == Cause::killed ? Certainty::possible : Certainty::likely;
    };
    const auto told_by = [&](const std::string& line, Cause cause) {
        check(exited(1, {line, "training failed"}), cause, certainty(cause), line);
    };
    told_by("run.sh: line 2: 17612 Segmentation fault      (core dumped) \"$@\"", Cause::crash);
    told_by("run.sh: line 2: 17612 Aborted                 ./solver", Cause::crash);
    told_by("run.sh: line 2: 17612 Killed                  ./solver", Cause::killed);
    told_by("Segmentation fault", Cause::crash);
    told_by("Floating point exception (core dumped)", Cause::crash);
    told_by("Command terminated by signal 11", Cause::crash);
    told_by("forrtl: severe (174): SIGSEGV, segmentation fault occurred", Cause::crash);
    const Lines raised = {"Traceback (most recent call last):", "  File \"t.py\", line 3, in go",
                          "    run()"};
    const auto raises = [&](const std::string& error, Cause cause) {
        Lines lines = raised;
        lines.push_back(error);
        check(exited(1, lines), cause, certainty(cause), error);
        lines.insert(lines.begin(), "Segmentation fault");
        lines.back() = "ValueError: 7";  // which ended it; what its child did was survived
        check(exited(1, lines), Cause::program_error, Certainty::certain, "ValueError: 7");
    };
    raises("subprocess.CalledProcessError: Command '['./a']' died with <Signals.SIGSEGV: 11>.",
           Cause::crash);
    raises("RuntimeError: DataLoader worker (pid 7) is killed by signal: Aborted. ", Cause::crash);
    raises("ProcessExitedException: process 1 terminated with signal SIGKILL", Cause::killed);
    RankEnd rank = exited(1, {"run.sh: line 2: 17612 Killed                  ./solver"});
    rank.oom_kills = 1;
    check(rank, Cause::out_of_memory, Certainty::likely);
    for (const char* line : {"run.sh: line 2: Killed by the editor", "Killed all 7 workers",
                             "epoch 3: line 4: 7 Segmentation faulty", "Aborted: no data"})
        check(exited(1, {line}), Cause::program_error, Certainty::certain);
    check(killed(SIGTERM, {"Segmentation fault"}), Cause::killed, Certainty::certain);
}

TEST_CASE("a reader that is gone is often a peer: who writes to it follows") {
    check(killed(SIGPIPE), Cause::program_error, Certainty::likely, "SIGPIPE");
    CHECK(judge(killed(SIGPIPE)).follows);
}

TEST_CASE("an error that was logged long before the end did not end it") {
    Lines lines = {"ERROR:root:upload failed, trying again",
                   "Traceback (most recent call last):", "  File \"t.py\", line 3, in go",
                   "    send()", "ConnectionResetError: [Errno 104] Connection reset by peer"};
    check(exited(1, lines), Cause::network, Certainty::likely);
    for (int step = 0; step < 20; ++step)
        lines.push_back("step " + std::to_string(step));
    lines.emplace_back("no data in /data");
    check(exited(1, lines), Cause::program_error, Certainty::certain, "no data in /data");
    lines.front() = "loading";  // nobody logged it: it was not caught, and handlers at exit talk
    CHECK(contains(judge(exited(1, lines)).what, "ConnectionResetError"));
}

TEST_CASE("errors that differ in numbers alone are the same error") {
    const auto signature = [](const std::string& what) {
        EndRecord record;
        record.what = what;
        return error_signature(record);
    };
    CHECK(signature("pid 812: bad pointer 0x7ffe12ab") ==
          signature("pid 9: bad pointer 0x55ab0011"));
    CHECK(signature("shard is bad") != signature("shard is good"));
}

TEST_CASE("what the kernel's log says, line by line") {
    const auto xid =
        read_xid("NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', name=<unknown>, DBE");
    REQUIRE(xid);
    CHECK(xid->number == 48);
    CHECK_FALSE(xid->pid);
    CHECK(xid->is_hardware);
    CHECK_FALSE(read_xid("NVRM: loading"));
    CHECK(read_oom_victim("Memory cgroup out of memory: Killed process 44 (a.out) total-vm:1kB") ==
          44);
    CHECK_FALSE(read_oom_victim("Killed process 44"));
    CHECK(tells_fault_of("traps: a.out[44] general protection fault ip:1", 44));
    CHECK_FALSE(tells_fault_of("a.out[44]: started", 44));
    CHECK(kernel_message("6,12,34,-;a.out[44]: segfault\n SUBSYSTEM=x\n") == "a.out[44]: segfault");
    CHECK(kernel_message("no record").empty());
}

TEST_CASE("a stop is the scheduler's or a person's") {
    using std::chrono::seconds;
    const auto cause = [](const AskedToStop& stop) { return judge_stop(stop).cause; };
    CHECK(cause({.signal = SIGINT, .under_scheduler = true, .left = seconds(5)}) ==
          Cause::cancelled);
    CHECK(cause({.signal = SIGTERM, .under_scheduler = true, .left = seconds(5)}) ==
          Cause::time_limit);
    CHECK(cause({.signal = SIGTERM, .under_scheduler = true, .left = seconds(500)}) ==
          Cause::cancelled);
    CHECK(judge_stop({.signal = SIGTERM, .under_scheduler = true}).certainty ==
          Certainty::possible);
    const EndRecord told = judge_stop({.signal = SIGTERM,
                                       .under_scheduler = true,
                                       .left = seconds(5),
                                       .told = Cause::preempted,
                                       .told_by = "JobState=RUNNING PreemptTime=12:40:01"});
    CHECK(told.cause == Cause::preempted);
    CHECK(told.certainty == Certainty::certain);
    CHECK(told.evidence == std::vector<std::string>{"JobState=RUNNING PreemptTime=12:40:01"});
    CHECK(judge_start({.rank = 1, .exit_code = 127, .node = {}, .what = "x", .hint = {}}).cause ==
          Cause::cannot_start);
    CHECK(judge_start({.rank = 1, .exit_code = 73, .node = {}, .what = "x", .hint = {}}).cause ==
          Cause::storage);
}

}  // namespace causes_test
