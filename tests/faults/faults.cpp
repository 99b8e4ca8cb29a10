// Ways for a C++ program to fail, by name. Rank FAULT_RANK (else 1) fails; the others wait until they are stopped.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

extern "C" void __chk_fail();  // what a fortified function calls when it finds a buffer too small

namespace {

volatile int zero = 0;

void limit(int resource, rlim_t value) {
    const rlimit both{value, value};
    if (setrlimit(static_cast<__rlimit_resource>(resource), &both) != 0)
        std::perror("setrlimit"), _exit(99);
}

int recurse(int depth) {
    volatile char frame[4096] = {};
    frame[depth % 4096] = 1;
    return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}

[[noreturn]] void complain(const char* what) {
    std::perror(what);
    std::exit(1);
}

void write_full(const char* path) {
    const int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, "x", 1) != 1)
        complain(path);
}

void grow_file() {
    limit(RLIMIT_FSIZE, 4096);
    std::FILE* file = std::tmpfile();
    for (int i = 0; i < 100; ++i)
        std::fprintf(file, "%4000d\n", i), std::fflush(file);
}

void open_many() {
    limit(RLIMIT_NOFILE, 16);
    for (;;)
        if (open("/dev/null", O_RDONLY) < 0)
            complain("open /dev/null");
}

void fork_many() {
    if (geteuid() == 0 && setuid(65534) != 0)
        complain("setuid");
    limit(RLIMIT_NPROC, 0);
    if (fork() < 0)
        complain("fork");
}

void allocate_all() {
    limit(RLIMIT_AS, 256U << 20);
    std::vector<std::vector<char>> kept;
    for (;;)
        kept.emplace_back(16U << 20, 'x');
}

void map_refused() {
    if (mmap(nullptr, std::size_t{1} << 50, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
        complain("mmap");
}

void start_many_threads() {
    if (geteuid() == 0 && setuid(65534) != 0)
        complain("setuid");
    limit(RLIMIT_NPROC, 0);
    std::thread([] {}).join();
}

void map_cut_file() {
    std::FILE* file = std::tmpfile();
    const int fd = fileno(file);
    if (ftruncate(fd, 1 << 20) != 0)
        complain("ftruncate");
    auto* map = static_cast<volatile char*>(mmap(nullptr, 1 << 20, PROT_READ, MAP_SHARED, fd, 0));
    if (ftruncate(fd, 0) != 0)
        complain("ftruncate");
    std::exit(map[1 << 19]);
}

void throw_nested() {
    try {
        throw std::system_error(ENOENT, std::generic_category(), "open shard 7");
    } catch (...) {
        std::throw_with_nested(std::runtime_error("cannot load the data"));
    }
}

void smash_stack(const char* text) {
    char small[8];
    std::strcpy(small, text);
    std::fputs(small, stderr);
}

void overrun_heap() {
    auto* block = static_cast<char*>(std::malloc(24));
    void* next = std::malloc(2000);
    std::memset(block, 'x', 64);
    std::free(next);
}

void write_to_closed_pipe() {
    int ends[2];
    if (pipe(ends) != 0)
        complain("pipe");
    close(ends[0]);
    if (write(ends[1], "x", 1) != 1)
        complain("write");
}

struct Base {
    Base() { call(); }
    virtual ~Base() = default;
    void call() { work(); }
    virtual void work() = 0;
};
struct Derived : Base {
    void work() override {}
};

void eat_memory() {
    for (std::vector<std::vector<char>> kept;;)
        kept.emplace_back(16U << 20, 'x');
}

void print_much(std::size_t megabytes, char last) {
    std::string line(1 << 20, 'x');
    line.back() = last;
    for (std::size_t i = 0; i < megabytes; ++i)
        std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
    std::exit(6);
}

void fault(const std::string& name) {
    int* volatile nowhere = nullptr;
    const std::map<std::string, std::function<void()>> kFaults = {
        {"exit3", [] { std::exit(3); }},
        {"exit255", [] { std::exit(255); }},
        {"return_after_words", [] { std::fputs("fatal: no such shard\n", stderr); std::exit(2); }},
        {"throw", [] { throw std::runtime_error("shard 00071 is truncated"); }},
        {"throw_int", [] { throw 3; }},
        {"throw_in_thread", [] { std::thread([] { throw std::logic_error("in a thread"); }).join(); }},
        {"bad_alloc", allocate_all},
        {"abort", [] { std::abort(); }},
        {"assert", [] { assert(!"the loader is empty"); }},
        {"segv", [=] { *nowhere = 1; }},
        {"bus", [] { raise(SIGBUS); }},
        {"ill", [] { __builtin_trap(); }},
        {"fpe", [] { std::exit(7 / zero); }},  // 1 / zero needs no division
        {"stack", [] { std::exit(recurse(0)); }},
        {"double_free", [] { void* p = std::malloc(8); std::free(p); std::free(p); }},
        {"sigkill", [] { raise(SIGKILL); }},
        {"sigterm", [] { raise(SIGTERM); }},
        {"sigusr1", [] { raise(SIGUSR1); }},
        {"xcpu", [] { limit(RLIMIT_CPU, 1); for (;;) {} }},
        {"full_disk", [] { write_full("/dev/full"); }},
        {"file_limit", grow_file},
        {"descriptors", open_many},
        {"fork_limit", fork_many},
        {"much_output", [] { print_much(50, '\n'); }},
        {"no_newline", [] { print_much(50, 'x'); }},
        {"escapes", [] { std::fputs("\033[2J\033]0;title\007\377\376\001error: bad\033[0m\n", stderr); std::exit(4); }},
        {"nested", throw_nested},
        {"noexcept", []() noexcept { throw std::out_of_range("index 7 of 7"); }},
        {"joinable", [] { std::thread left([] { sleep(600); }); }},
        {"pure_virtual", [] { Derived(); }},
        {"filesystem", [] { std::filesystem::directory_iterator("/no/such/data"); }},
        {"smashed", [] { smash_stack("longer than eight characters, and then some"); }},
        {"overrun", overrun_heap},
        {"fortified", [] { __chk_fail(); }},
        {"cut_mapping", map_cut_file},
        {"wild_jump", [] { reinterpret_cast<void (*)()>(0x40)(); }},
        {"broken_pipe", write_to_closed_pipe},
        {"threads", start_many_threads},
        {"map_refused", map_refused},
        {"future", [] { std::async(std::launch::async, [] { throw std::runtime_error("bad shard"); }).get(); }},
        {"too_long", [] { std::vector<int>().reserve(~std::size_t{0}); }},
        {"stopped_timer", [] { alarm(1); sleep(600); }},
        {"eat_memory", eat_memory},
        {"daemon", [] { if (fork() == 0) { setsid(); sleep(600); } std::exit(5); }},
    };
    kFaults.at(name)();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string name = argc > 1 ? argv[1] : "";
    const bool ignores_term = name == "ignores_term";
    const char *rank = std::getenv("RANK"), *culprit = std::getenv("FAULT_RANK");
    if (rank != nullptr && std::atoi(rank) == (culprit != nullptr ? std::atoi(culprit) : 1))
        fault(ignores_term ? "exit3" : name);
    if (ignores_term)
        std::signal(SIGTERM, SIG_IGN);
    sleep(600);
}
