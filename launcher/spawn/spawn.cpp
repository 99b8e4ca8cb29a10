#include "spawn/spawn.hpp"

#include "base/file_limit.hpp"
#include "spawn/child_setup.hpp"
#include "spawn/process_tree.hpp"
#include "spawn/program_search.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <new>
#include <system_error>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AUTOLAUNCH_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define AUTOLAUNCH_SANITIZED 1
#endif
#endif

namespace autolaunch::launcher {

namespace {

// CLONE_VFORK holds the parent until the child executes its program or ends, so the report is
// complete when clone returns. CLONE_VM spares the copy of our page tables; the sanitizers keep
// state per address space and cannot bear it.
#ifdef AUTOLAUNCH_SANITIZED
constexpr int kCloneFlags = CLONE_VFORK | CLONE_PIDFD | SIGCHLD;
constexpr std::size_t kStackBytes = 128 * 1024;
#else
constexpr int kCloneFlags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD;
#endif

std::string reason(int error_number) { return std::generic_category().message(error_number); }

/// Memory that parent and child both see: the child's stack and its report. With CLONE_VM all is,
/// and a part of our own stack will do, which waits as we do.
#ifdef AUTOLAUNCH_SANITIZED
class SharedPages {
public:
    SharedPages()
        : bytes_(::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {
        if (bytes_ == MAP_FAILED)
            throw SpawnError(SpawnStage::clone, errno, "cannot start a process: " + reason(errno),
                             "");
        setup_ = new (bytes_) ChildSetup;
    }
    SharedPages(const SharedPages&) = delete;
    SharedPages& operator=(const SharedPages&) = delete;
    ~SharedPages() { ::munmap(bytes_, kStackBytes); }

    ChildSetup& setup() { return *setup_; }
    void* stack_top() { return static_cast<char*>(bytes_) + kStackBytes; }

private:
    void* bytes_;
    ChildSetup* setup_ = nullptr;
};
#else
class SharedPages {
public:
    ChildSetup& setup() { return setup_; }
    void* stack_top() { return std::end(stack_); }

private:
    alignas(std::max_align_t) std::byte stack_[64 * 1024];  // not cleared: it costs its pages
    ChildSetup setup_;
};
#endif

/// No signal may find the child with the parent's handlers and memory.
class AllSignalsBlocked {
public:
    AllSignalsBlocked() {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    AllSignalsBlocked(const AllSignalsBlocked&) = delete;
    AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;
    ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_{};
};

std::vector<unsigned long> bit_mask(const std::vector<int>& numbers) {
    constexpr int kBits = sizeof(unsigned long) * CHAR_BIT;
    if (numbers.empty())
        return {};
    std::vector<unsigned long> mask(
        static_cast<std::size_t>(*std::max_element(numbers.begin(), numbers.end()) / kBits + 1));
    for (const int number : numbers)
        mask[static_cast<std::size_t>(number / kBits)] |= 1UL << (number % kBits);
    return mask;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> result;
    result.reserve(strings.size() + 1);
    for (const auto& string : strings)
        result.push_back(const_cast<char*>(string.c_str()));  // execve's old signature
    result.push_back(nullptr);
    return result;
}

// A source that is itself 0, 1 or 2 would be overwritten by an earlier dup2: move it out of the
// way.
int above_standard(int fd, UniqueFd& moved) {
    if (fd < 0 || fd > 2)
        return fd;
    moved.reset(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!moved)
        throw SpawnError(SpawnStage::standard_streams, errno,
                         "cannot set up the standard streams: " + reason(errno), "");
    return moved.get();
}

void set_inherited_fd(ChildSetup& setup, const InheritedFd& inherited, UniqueFd& moved) {
    if (inherited.fd < 0 || inherited.as < 3)
        throw Error(ErrorCode::invalid_argument,
                    "a descriptor that a child inherits is open, and at least 3 there");
    setup.inherited_fd = above_standard(inherited.fd, moved);
    setup.inherited_as = inherited.as;
}

[[noreturn]] void throw_spawn_error(const ChildSpec& spec, const ProgramSearch& found,
                                    SpawnStage stage, int error_number) {
    const std::string program = spec.argv[0];
    std::string doing = "start " + program;
    std::string hint;
    switch (stage) {
        case SpawnStage::exec:
            doing = "execute " + program;
            [[fallthrough]];
        case SpawnStage::clone:
            hint = exec_failure_hint(program, found, error_number, spec.environment, spec.workdir);
            break;
        case SpawnStage::workdir:
            doing += " in " + spec.workdir;
            hint = "trainer.workdir must be a folder that exists on every node";
            break;
        case SpawnStage::process_group:
            doing += " in a process group of its own";
            break;
        case SpawnStage::standard_streams:
            doing += " with its standard streams";
            break;
        case SpawnStage::inherited_fd:
            doing += " with a descriptor that it inherits";
            break;
        case SpawnStage::parent_death:
            doing += ", tied to autolaunch's life";
            break;
        case SpawnStage::none:
        case SpawnStage::stand_in:
            break;
    }
    if (error_number == EMFILE)
        hint = explain_file_limit();
    throw SpawnError(stage, error_number, "cannot " + doing + ": " + reason(error_number), hint);
}

}  // namespace

Child spawn_child(const ChildSpec& spec) {
    if (spec.argv.empty())
        throw Error(ErrorCode::invalid_argument, "no program to start");
    const ProgramSearch found = find_program(spec.argv[0], spec.environment, spec.workdir);
    if (found.error_number != 0)
        throw_spawn_error(spec, found, SpawnStage::exec, found.error_number);

    const auto argv = pointers(spec.argv);
    const auto environment = pointers(spec.environment);
    const auto cpu_mask = bit_mask(spec.cpus);
    const auto node_mask = bit_mask(spec.memory_nodes);
    auto first_node_mask = bit_mask(spec.memory_nodes.empty() ? std::vector<int>{}
                                                              : std::vector{spec.memory_nodes[0]});
    first_node_mask.resize(node_mask.size());
    UniqueFd moved[4];

    SharedPages pages;
    ChildSetup& setup = pages.setup();
    setup.path = found.path.c_str();
    setup.argv = argv.data();
    setup.environment = environment.data();
    setup.workdir = spec.workdir.empty() ? nullptr : spec.workdir.c_str();
    setup.cpu_mask = cpu_mask.empty() ? nullptr : cpu_mask.data();
    setup.cpu_mask_bytes = cpu_mask.size() * sizeof(unsigned long);
    setup.node_mask = node_mask.empty() ? nullptr : node_mask.data();
    setup.first_node_mask = first_node_mask.data();
    setup.node_mask_bits = node_mask.size() * sizeof(unsigned long) * CHAR_BIT;
    const int streams[3] = {spec.stdin_fd, spec.stdout_fd, spec.stderr_fd};
    for (int i = 0; i < 3; ++i)
        setup.streams[i] = above_standard(streams[i], moved[i]);
    if (spec.inherited_fd)
        set_inherited_fd(setup, *spec.inherited_fd, moved[3]);
    setup.file_limit = spec.file_limit ? &*spec.file_limit : nullptr;
    setup.deaf = spec.deaf;
    setup.ignores_hangup = spec.ignores_hangup;
    setup.parent = ::getpid();

    int pidfd = -1;
    Child child;
    {
        const AllSignalsBlocked blocked;
        child.pid = ::clone(run_child, pages.stack_top(), kCloneFlags, &setup, &pidfd);
    }
    if (child.pid < 0)
        throw_spawn_error(spec, found, SpawnStage::clone, errno);
    child.pidfd.reset(pidfd);
    if (setup.failed_stage != SpawnStage::none) {
        while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        throw_spawn_error(spec, found, setup.failed_stage, setup.error_number);
    }
    child.affinity_error = setup.affinity_error;
    child.memory_policy_error = setup.memory_policy_error;
    return child;
}

std::optional<ChildEnd> reap_child(pid_t pid, int pidfd) {
    const auto number = static_cast<id_t>(pidfd);
    siginfo_t info{};
    if (::waitid(P_PIDFD, number, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
        return std::nullopt;
    // The leader is not reaped yet, so its number still means this group and no other.
    ChildEnd end;
    if (info.si_code == CLD_EXITED && info.si_status == 0)
        end.left_running = running_children([pid](pid_t child) { return ::getpgid(child) == pid; });
    ::kill(-pid, SIGKILL);
    while (::waitid(P_PIDFD, number, &info, WEXITED) != 0 && errno == EINTR) {
    }
    (info.si_code == CLD_EXITED ? end.exit_code : end.signal) = info.si_status;
    end.core_dumped = info.si_code == CLD_DUMPED;
    return end;
}

std::optional<rlim_t> raise_file_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return std::nullopt;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);  // refused in some sandboxes: then it stays as it was
    return before;
}

}  // namespace autolaunch::launcher
