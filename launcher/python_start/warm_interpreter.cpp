// autolaunch-python.so: the user's own interpreter as a parent of ranks (docs/python-start.md).
//
// The agent starts it with the rank's very command line and this library in LD_PRELOAD. In place of
// main() it makes the interpreter as Py_BytesMain() does, in two steps: after the first, which
// reads the command line, it imports and waits; in a forked rank the second, Py_RunMain(), goes on
// as if nothing had been between. So argv, __main__, frames and exit codes are Python's own.
//
// Needs the C library alone: the interpreter's functions are looked up by name, of the stable ABI
// and of PEP 587.
#include "python_start/environment_reads.hpp"
#include "python_start/fork_order.hpp"
#include "python_start/mount_copies.hpp"
#include "python_start/warm_program.hpp"
#include "spawn/child_setup.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace autolaunch::launcher {

namespace {

using Object = void;  // PyObject

struct Function {  // PyMethodDef
    const char* name;
    Object* (*call)(Object*, Object*);
    int flags;
    const char* text;
};

/// Longer than any version's PyConfig, which is some 400 bytes; nobody here looks inside.
constexpr size_t kConfigBytes = 64 * 1024;
constexpr int kFileInput = 257;   // Py_file_input
constexpr int kNoArguments = 4;   // METH_NOARGS
constexpr int kLowestOwnFd = 64;  // ours, away from those that a rank is promised

struct Status {  // PyStatus
    int type;    // 0: good, 1: an error, 2: the program ends
    const char* function;
    const char* message;
    int exit_code;
};

struct Python {
    void (*init_preconfig)(void*);
    Status (*preinitialize)(const void*, long, char**);
    void (*init_config)(void*);
    Status (*set_argv)(void*, long, char* const*);
    Status (*initialize)(const void*);
    void (*clear_config)(void*);
    int (*run_main)();
    void (*before_fork)();
    void (*after_fork_parent)();
    void (*after_fork_child)();
    Object* (*new_dict)();
    Object* (*get_builtins)();
    int (*set_item)(Object*, const char*, Object*);
    Object* (*get_item)(Object*, const char*);
    Object* (*run)(const char*, int, Object*, Object*);
    Object* (*make_bytes)(const char*, long);
    Object* (*make_function)(Function*, Object*, Object*);
    const char* (*as_utf8)(Object*);
    Object* (*decode)(const char*, long);
    void (*forget)(Object*);
    void (*print_error)();
    void (*clear_error)();
};

template <class F>
bool find(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(RTLD_DEFAULT, name));
    return function != nullptr;
}

bool find_python(Python& py) {
    return find(py.init_preconfig, "PyPreConfig_InitPythonConfig") &&
           find(py.preinitialize, "Py_PreInitializeFromBytesArgs") &&
           find(py.init_config, "PyConfig_InitPythonConfig") &&
           find(py.set_argv, "PyConfig_SetBytesArgv") &&
           find(py.initialize, "Py_InitializeFromConfig") &&
           find(py.clear_config, "PyConfig_Clear") && find(py.run_main, "Py_RunMain") &&
           find(py.before_fork, "PyOS_BeforeFork") &&
           find(py.after_fork_parent, "PyOS_AfterFork_Parent") &&
           find(py.after_fork_child, "PyOS_AfterFork_Child") && find(py.new_dict, "PyDict_New") &&
           find(py.get_builtins, "PyEval_GetBuiltins") &&
           find(py.set_item, "PyDict_SetItemString") && find(py.get_item, "PyDict_GetItemString") &&
           find(py.run, "PyRun_String") && find(py.make_bytes, "PyBytes_FromStringAndSize") &&
           find(py.make_function, "PyCFunction_NewEx") && find(py.as_utf8, "PyUnicode_AsUTF8") &&
           find(py.decode, "PyUnicode_DecodeFSDefaultAndSize") && find(py.forget, "Py_DecRef") &&
           find(py.print_error, "PyErr_Print") && find(py.clear_error, "PyErr_Clear");
}

/// An order as it came, with its descriptors; all are closed by drop().
struct Order {
    OrderHead head;
    char* texts = nullptr;
    size_t bytes = 0;
    int fds[kMostOrderFds] = {-1, -1, -1, -1, -1};

    const char* environment() const { return texts; }
    const char* workdir() const { return texts + head.environment_bytes; }
    const char* cpu_mask() const { return workdir() + head.workdir_bytes; }
    const char* node_mask() const { return cpu_mask() + head.cpu_mask_bytes; }
    const char* program() const { return node_mask() + head.node_mask_bytes; }
    const char* copies() const { return program() + head.program_bytes; }
};

int control = -1;           // the agent's other end
char* old_block = nullptr;  // where the kernel looks for /proc/PID/environ
size_t old_block_bytes = 0;

void answer(const char* format, ...) __attribute__((format(printf, 1, 2)));

void answer(const char* format, ...) {
    char text[kAnswerBytes];
    va_list arguments;
    va_start(arguments, format);
    int length = ::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    length = length < int{sizeof text} ? length : int{sizeof text} - 1;
    if (::send(control, text, static_cast<size_t>(length), MSG_NOSIGNAL) < 0)
        ::_exit(0);  // nobody listens
}

[[noreturn]] void give_up(const char* format, const char* what) {
    answer(format, what);
    ::_exit(0);
}

void drop(Order& order) {
    for (int& fd : order.fds)
        if (fd >= 0)
            ::close(fd);
    ::free(order.texts);
}

bool read_whole(int fd, void* into, size_t bytes, off_t at) {
    auto* to = static_cast<char*>(into);
    while (bytes > 0) {
        const ssize_t count = ::pread(fd, to, bytes, at);
        if (count <= 0)
            return false;
        to += count, at += count, bytes -= static_cast<size_t>(count);
    }
    return true;
}

bool read_order(Order& order) {
    OrderHead& head = order.head;
    if (!read_whole(order.fds[0], &head, sizeof head, 0) || head.mark != kOrderMark)
        return false;
    const unsigned long long bytes = 0ULL + head.environment_bytes + head.workdir_bytes +
                                     head.cpu_mask_bytes + head.node_mask_bytes +
                                     head.program_bytes + head.copies_bytes;
    if (bytes > kMostOrderBytes)
        return false;
    order.bytes = bytes;
    order.texts = static_cast<char*>(::malloc(bytes + 1));
    return order.texts && read_whole(order.fds[0], order.texts, bytes, sizeof head);
}

/// Waits for the agent. False when it is gone.
bool receive(Order& order) {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kMostOrderFds)];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    ssize_t count = 0;
    while ((count = ::recvmsg(control, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    if (count <= 0)
        return false;
    const cmsghdr* part_of = CMSG_FIRSTHDR(&message);
    if (part_of == nullptr || part_of->cmsg_type != SCM_RIGHTS)
        return false;
    ::memcpy(order.fds, CMSG_DATA(part_of), part_of->cmsg_len - CMSG_LEN(0));
    return read_order(order);
}

/// C's environment as ordered, in memory of its own; it stays as long as the process.
void set_environment(const char* block, size_t bytes) {
    char* own = static_cast<char*>(::malloc(bytes + 1));
    if (own == nullptr)
        give_up("%s", "no memory is left");
    ::memcpy(own, block, bytes);
    ::clearenv();
    for (char* at = own; at < own + bytes; at += ::strlen(at) + 1)
        ::putenv(at);
}

/// What `ps e` shows. The kernel looks there whatever the program does, and nobody else any more.
void show_environment(const char* block, size_t bytes) {
    const size_t shown = bytes < old_block_bytes ? bytes : old_block_bytes - 1;
    ::memcpy(old_block, block, shown);
    ::memset(old_block + shown, 0, old_block_bytes - shown);
}

Object* run(const Python& py, Object* names, const char* code) {
    return py.run(code, kFileInput, names, names);
}

void give(const Python& py, Object* names, const char* name, Object* value) {
    if (value == nullptr || py.set_item(names, name, value) != 0)
        give_up("%s", "no memory is left");
    py.forget(value);
}

/// What `code` leaves in `result`; null where it raised.
const char* ask(const Python& py, Object* names, const char* code) {
    if (Object* done = run(py, names, code)) {
        py.forget(done);
        Object* result = py.get_item(names, "result");
        return result ? py.as_utf8(result) : nullptr;
    }
    py.print_error();
    return nullptr;
}

/// The rank's parent is the agent once the process between is gone.
void wait_for_adoption(pid_t between, pid_t agent) {
    while (::getppid() == between)
        ::usleep(20);
    if (::getppid() != agent)
        ::_exit(0);
}

/// What imports printed is the rank's, too.
void repeat_output(int from, int to) {
    char part[16 * 1024];
    off_t at = 0;
    for (ssize_t count = 0; (count = ::pread(from, part, sizeof part, at)) > 0; at += count)
        for (ssize_t done = 0; done < count;) {
            const ssize_t written = ::write(to, part + done, static_cast<size_t>(count - done));
            if (written <= 0)
                return;
            done += written;
        }
}

[[noreturn]] void fail(const ForkAnswer& told) {
    ::send(control, &told, sizeof told, MSG_NOSIGNAL);
    ::_exit(0);
}

ForkAnswer settle(const Order& order) {
    ChildSetup setup;
    const OrderHead& head = order.head;
    const rlim_t limit = static_cast<rlim_t>(head.file_limit);
    setup.workdir = head.workdir_bytes ? order.workdir() : nullptr;
    setup.cpu_mask =
        head.cpu_mask_bytes ? reinterpret_cast<const unsigned long*>(order.cpu_mask()) : nullptr;
    setup.cpu_mask_bytes = head.cpu_mask_bytes;
    setup.node_mask =
        head.node_mask_bytes ? reinterpret_cast<const unsigned long*>(order.node_mask()) : nullptr;
    setup.node_mask_bits = head.node_mask_bytes * 8UL;
    setup.first_node_mask = setup.node_mask;
    setup.file_limit = head.file_limit >= 0 ? &limit : nullptr;
    for (int stream = 0; stream < 3; ++stream)
        setup.streams[stream] = order.fds[stream + 1];
    setup.inherited_fd = order.fds[4];
    setup.inherited_as = head.inherited_as;
    setup.parent = head.agent;
    const int printed[2] = {::fcntl(1, F_DUPFD_CLOEXEC, kLowestOwnFd),
                            ::fcntl(2, F_DUPFD_CLOEXEC, kLowestOwnFd)};
    const bool placed = enter_place(setup);
    const ForkAnswer told{
        kOrderMark,         ::getpid(),           static_cast<std::int32_t>(setup.failed_stage),
        setup.error_number, setup.affinity_error, setup.memory_policy_error};
    if (!placed)
        fail(told);
    repeat_output(printed[0], 1);
    repeat_output(printed[1], 2);
    ::close(printed[0]);
    ::close(printed[1]);
    return told;
}

void close_all_but(int kept) {
    const auto keep = static_cast<unsigned>(kept);
    if (kept > 3)
        ::syscall(SYS_close_range, 3U, keep - 1, 0U);
    ::syscall(SYS_close_range, kept >= 3 ? keep + 1 : 3U, ~0U, 0U);
}

/// In the rank: everything between fork and the interpreter's own way on.
void become_rank(const Python& py, Object* names, Order& order, pid_t between) {
    wait_for_adoption(between, order.head.agent);
    ForkAnswer told = settle(order);
    py.after_fork_child();
    show_environment(order.environment(), order.head.environment_bytes);
    const char* done = ask(py, names, "begin(block); result = ''");
    if (done == nullptr) {
        told.failed_stage = static_cast<std::int32_t>(SpawnStage::exec);
        told.error_number = ECANCELED;
        fail(told);
    }
    if (::send(control, &told, sizeof told, MSG_NOSIGNAL) < 0)
        ::_exit(0);  // the agent has given up waiting
    close_all_but(order.head.inherited_as);
    ::free(order.texts);
    py.forget(names);
}

/// True in the rank. The process between, whose end makes the rank an orphan, is in this process's
/// memory, and this one stands still meanwhile: with torch imported a copy of its own would cost
/// 10 ms to make and 25 ms to take down. It writes to no frame above its own, and the rank, which
/// has a copy of all of them, goes on in them.
bool fork_rank(const Python& py, Object* names, Order& order) {
    py.before_fork();
    const pid_t between = ::vfork();
    if (between == 0) {
        const pid_t own = ::getpid();
        const pid_t rank = ::fork();
        if (rank != 0)
            ::_exit(rank < 0 ? 1 : 0);
        become_rank(py, names, order, own);
        return true;
    }
    const int error = errno;
    py.after_fork_parent();
    int status = 0;
    while (between > 0 && ::waitpid(between, &status, 0) < 0 && errno == EINTR) {
    }
    if (between < 0 || status != 0)
        answer("fork failed: %s", ::strerror(between < 0 ? error : EAGAIN));
    return false;
}

/// Serves the agent. Returns in ranks; ends this process when the agent is gone.
void serve(const Python& py, Object* names) {
    for (;;) {
        Order order;
        if (!receive(order))
            ::_exit(0);
        give(py, names, "block",
             py.make_bytes(order.environment(), static_cast<long>(order.head.environment_bytes)));
        const char* why = ask(py, names, "result = check(block)");
        if (why == nullptr || why[0] != '\0')
            answer("%s", why == nullptr ? "the variables could not be compared" : why);
        else if (fork_rank(py, names, order))
            return;
        drop(order);
    }
}

void initialize(const Python& py, int argc, char** argv) {
    alignas(16) static char config[kConfigBytes];
    py.init_preconfig(config);
    Status status = py.preinitialize(config, argc, argv);
    if (status.type == 0) {
        ::memset(config, 0, sizeof config);
        py.init_config(config);
        status = py.set_argv(config, argc, argv);
    }
    if (status.type == 0)
        status = py.initialize(config);
    if (status.type == 1)
        give_up("the interpreter does not start: %s",
                status.message ? status.message : "no reason");
    if (status.type != 0)
        give_up("%s", "the command line is one that starts no program");
    py.clear_config(config);
}

MountedCopies mounted;  // in the place of files, before Python began
Object* (*bytes_of_python)(const char*, long) = nullptr;

/// For Python: the names since the last call, each with its zero.
Object* reads_of_c(Object*, Object*) {
    static char names[kMostReadBytes];
    return bytes_of_python(names, static_cast<long>(take_reads(names)));
}

void import_and_serve(const Python& py, Order& order) {
    Object* names = py.new_dict();
    if (names == nullptr || py.set_item(names, "__builtins__", py.get_builtins()) != 0)
        give_up("%s", "no memory is left");
    static Function reads{"reads_of_c", reads_of_c, kNoArguments, nullptr};
    bytes_of_python = py.make_bytes;
    give(py, names, reads.name, py.make_function(&reads, nullptr, nullptr));
    give(py, names, "program",
         py.decode(order.program(), static_cast<long>(order.head.program_bytes)));
    char record[160];
    ::snprintf(record, sizeof record, "record_fd = %d\nmounted = %d\ncopy_devices = (%lu, %lu)\n",
               order.fds[1], mounted.mounted, mounted.copies_device, mounted.pieces_device);
    if (Object* done = run(py, names, record))
        py.forget(done);
    give(py, names, "copies",
         py.decode(order.copies(), static_cast<long>(order.head.copies_bytes)));
    give(py, names, "not_mounted",
         py.decode(mounted.why, static_cast<long>(::strlen(mounted.why))));
    give(py, names, "walk_program",
         py.decode(kWalkProgram, static_cast<long>(::strlen(kWalkProgram))));
    if (ask(py, names, kWarmProgram) == nullptr)
        give_up("%s", "the interpreter cannot be prepared");
    const char* result = ask(py, names, "result = prepare(program)");
    note_reads(false);
    if (result == nullptr)
        give_up("%s", "the imports could not be made");
    answer("%s", result);
    if (::strncmp(result, "ready ", 6) != 0)
        ::_exit(0);
    serve(py, names);
}

void remember_old_block(char** environment) {
    if (*environment == nullptr)
        return;
    char** last = environment;
    while (last[1] != nullptr)
        ++last;
    old_block = *environment;
    old_block_bytes = static_cast<size_t>(*last + ::strlen(*last) + 1 - old_block);
}

/// Before the interpreter opens a file. Its parent-death signal stays, whatever namespaces it is
/// in.
void see_copies(Order& order) {
    if (order.head.copies_bytes == 0)
        return;
    const size_t folder_bytes = ::strlen(order.copies()) + 1;
    mounted = mount_copies(order.copies() + folder_bytes, order.head.copies_bytes - folder_bytes,
                           order.copies(), order.fds[2]);
    if (order.fds[2] >= 0)
        ::close(order.fds[2]);
    order.fds[2] = -1;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != order.head.agent)
        ::_exit(0);
}

int warm_main(int argc, char** argv, const char* number) {
    control = ::fcntl(::atoi(number), F_DUPFD_CLOEXEC, kLowestOwnFd);
    ::close(::atoi(number));
    Order order;
    if (control < 0 || !receive(order))
        ::_exit(0);
    Python py;
    if (!find_python(py))
        give_up("%s is no CPython from 3.8 on", program_invocation_short_name);
    see_copies(order);
    set_environment(order.environment(), order.head.environment_bytes);
    note_reads(true);
    initialize(py, argc, argv);
    import_and_serve(py, order);
    // In a rank, from here on.
    return py.run_main();
}

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

int main_in_between(int argc, char** argv, char** environment) {
    const char* number = ::getenv(kWarmVariable);
    if (number == nullptr || ::strcmp(program_invocation_short_name, "env") == 0)
        return program_main(argc, argv, environment);  // on its way to the interpreter
    remember_old_block(environment);
    return warm_main(argc, argv, number);
}

}  // namespace

}  // namespace autolaunch::launcher

extern "C" __attribute__((visibility("default"))) int __libc_start_main(
    int (*main)(int, char**, char**), int argc, char** argv, void (*init)(), void (*fini)(),
    void (*rtld_fini)(), void* stack_end) {
    using Start = int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(),
                          void (*)(), void*);
    const auto start = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
    autolaunch::launcher::program_main = main;
    return start(autolaunch::launcher::main_in_between, argc, argv, init, fini, rtld_fini,
                 stack_end);
}
