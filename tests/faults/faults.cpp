// Ways for a C++ program to fail, by name. Rank 1 of all fails; the others wait until they are stopped.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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
        {"daemon", [] { if (fork() == 0) { setsid(); sleep(600); } std::exit(5); }},
    };
    kFaults.at(name)();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string name = argc > 1 ? argv[1] : "";
    const bool ignores_term = name == "ignores_term";
    if (std::getenv("RANK") != nullptr && std::atoi(std::getenv("RANK")) == 1)
        fault(ignores_term ? "exit3" : name);
    if (ignores_term)
        std::signal(SIGTERM, SIG_IGN);
    sleep(600);
}
