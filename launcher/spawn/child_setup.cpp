#include "spawn/child_setup.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace autolaunch::launcher {

namespace {

constexpr int kSetupFailed = 127;  // never seen: the parent reads the report and reaps the child

bool fail(ChildSetup& setup, SpawnStage stage) {
    setup.error_number = errno;
    setup.failed_stage = stage;
    return false;
}

// The parent-death signal is sent when the starting *thread* ends. A parent that was gone before
// the request never triggers it, hence the check.
bool die_with_parent(pid_t parent) {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return false;
    if (::getppid() == parent)
        return true;
    errno = ESRCH;
    return false;
}

// So that what the parent starts may look at where this one stands: Yama allows it to ancestors
// alone, and a debugger is none. Another user gains nothing; without Yama it does nothing.
void let_parent_trace(pid_t parent) { ::prctl(PR_SET_PTRACER, parent); }

void bind_cpus(ChildSetup& setup) {
    if (setup.cpu_mask == nullptr)
        return;
    const auto* mask = reinterpret_cast<const cpu_set_t*>(setup.cpu_mask);
    if (::sched_setaffinity(0, setup.cpu_mask_bytes, mask) != 0)
        setup.affinity_error = errno;
}

// Preferred, not bound: a full node spills to its neighbours instead of killing the rank. Kernels
// before 5.15 know only one preferred node. The raw call keeps libnuma out; maxnode counts one more
// than the bits (a kernel quirk).
void prefer_memory(ChildSetup& setup) {
    if (setup.node_mask == nullptr)
        return;
    const std::size_t max_node = setup.node_mask_bits + 1;
    if (::syscall(SYS_set_mempolicy, MPOL_PREFERRED_MANY, setup.node_mask, max_node) == 0)
        return;
    if (errno == EINVAL &&
        ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, setup.first_node_mask, max_node) == 0)
        return;
    setup.memory_policy_error = errno;
}

// Back to what autolaunch was started with; it cannot fail, as the hard limit is never below.
void restore_file_limit(const ChildSetup& setup) {
    rlimit limit{};
    if (setup.file_limit == nullptr || ::getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = *setup.file_limit;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

bool connect_streams(const ChildSetup& setup) {
    for (int stream = 0; stream < 3; ++stream)
        if (setup.streams[stream] >= 0 && ::dup2(setup.streams[stream], stream) < 0)
            return false;
    // Whatever else we inherited without CLOEXEC is not the rank's business. Kernels before 5.11
    // cannot do this.
    ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    return true;
}

// After connect_streams, which would close it again on exec.
bool hand_over_descriptor(const ChildSetup& setup) {
    if (setup.inherited_fd < 0)
        return true;
    if (setup.inherited_fd == setup.inherited_as)
        return ::fcntl(setup.inherited_fd, F_SETFD, 0) == 0;
    return ::dup2(setup.inherited_fd, setup.inherited_as) >= 0;
}

bool is_request(int signal) {
    switch (signal) {
        case SIGSEGV:
        case SIGBUS:
        case SIGFPE:
        case SIGILL:
        case SIGABRT:
        case SIGTRAP:
        case SIGSYS:
        case SIGPIPE:
        case SIGALRM:
        case SIGVTALRM:
        case SIGPROF:
        case SIGXCPU:
        case SIGXFSZ:
        case SIGCHLD:
        case SIGCONT:
        case SIGTSTP:
        case SIGTTIN:
        case SIGTTOU:
        case SIGSTOP:
        case SIGKILL:
            return false;
        default:
            return true;
    }
}

}  // namespace

// Dispositions first, mask second: a pending signal must not meet a handler of the parent.
void reset_signals() {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    for (int signal = 1; signal < NSIG; ++signal)
        ::sigaction(signal, &standard, nullptr);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void ignore_requests() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (int signal = 1; signal < NSIG; ++signal)
        if (is_request(signal))
            ::sigaction(signal, &ignore, nullptr);
}

bool enter_place(ChildSetup& setup) {
    if (::setpgid(0, 0) != 0)
        return fail(setup, SpawnStage::process_group);
    if (!die_with_parent(setup.parent))
        return fail(setup, SpawnStage::parent_death);
    let_parent_trace(setup.parent);
    bind_cpus(setup);
    prefer_memory(setup);
    if (!connect_streams(setup))
        return fail(setup, SpawnStage::standard_streams);
    if (!hand_over_descriptor(setup))
        return fail(setup, SpawnStage::inherited_fd);
    restore_file_limit(setup);
    if (setup.workdir != nullptr && ::chdir(setup.workdir) != 0)
        return fail(setup, SpawnStage::workdir);
    return true;
}

int run_child(void* argument) {
    auto& setup = *static_cast<ChildSetup*>(argument);
    if (!enter_place(setup))
        return kSetupFailed;
    reset_signals();
    if (setup.deaf)
        ignore_requests();
    if (setup.ignores_hangup)
        ::signal(SIGHUP, SIG_IGN);
    ::execve(setup.path, setup.argv, setup.environment);
    fail(setup, SpawnStage::exec);
    return kSetupFailed;
}

}  // namespace autolaunch::launcher
