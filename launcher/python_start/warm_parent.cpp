#include "python_start/warm_parent.hpp"

#include "base/file_io.hpp"
#include "base/memory_file.hpp"
#include "base/text.hpp"
#include "session/environment.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr int kItsSocket = 3;  // descriptor of the interpreter
constexpr int kMostLost = 2;
constexpr off_t kMostRecorded = 16 << 20;
constexpr std::size_t kLastWords = 300;
/// So that the environment of any rank fits where the kernel shows that of the interpreter.
constexpr std::size_t kRoom = 2048;
constexpr auto kLook = std::chrono::seconds(1);
constexpr auto kEndTimeout = std::chrono::seconds(2);
constexpr std::string_view kPreloadVariable = "LD_PRELOAD=";

bool is_subreaper() {
    int value = 0;
    return ::prctl(PR_GET_CHILD_SUBREAPER, &value) == 0 && value != 0;
}

void reap(pid_t killed) {
    const Deadline deadline = Deadline::after(kEndTimeout);
    while (::waitpid(killed, nullptr, WNOHANG) == 0 && !deadline.passed())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Where the interpreter writes until it is a rank's, and is read back from.
UniqueFd scratch_stream(const char* name) {
    UniqueFd file(::memfd_create(name, MFD_CLOEXEC));
    if (!file)
        throw SystemError(errno, "make a memory file");
    return file;
}

std::string content_of(const UniqueFd& file) {
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0 || facts.st_size > kMostRecorded)
        return {};
    std::string text(static_cast<std::size_t>(facts.st_size), '\0');
    const ssize_t count = ::pread(file.get(), text.data(), text.size(), 0);
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
}

std::string identity(const UniqueFd& file) {
    struct stat facts {};
    ::fstat(file.get(), &facts);
    return fmt::format("{}:{}", facts.st_dev, facts.st_ino);
}

/// In place of a rank's variable, where it has that one.
void replace(std::vector<std::string>& environment, const std::string& name,
             const std::string& value) {
    for (std::string& variable : environment)
        if (variable.starts_with(name + '='))
            variable = name + '=' + value;
}

/// The library in front of what the rank preloads.
std::vector<std::string> with_hook(std::vector<std::string> environment,
                                   const std::string& library) {
    std::string preload = std::string(kPreloadVariable) + library;
    std::erase_if(environment, [&](const std::string& variable) {
        if (!variable.starts_with(kPreloadVariable))
            return false;
        if (variable.size() > kPreloadVariable.size())
            preload += ':' + variable.substr(kPreloadVariable.size());
        return true;
    });
    environment.push_back(preload);
    environment.push_back(
        fmt::format("{}={}{}", kWarmVariable, kItsSocket, std::string(kRoom, ' ')));
    return environment;
}

bool is_terminal(const ChildSpec& rank) {
    return ::isatty(rank.stdin_fd) == 1 || ::isatty(rank.stdout_fd) == 1 ||
           ::isatty(rank.stderr_fd) == 1;
}

}  // namespace

WarmParent::WarmParent(asio::io_context& io, const PreloadChoice& choice, Times times)
    : choice_(choice), times_(times), readable_(io), timer_(io) {
    if (!choice.wants_interpreter())
        state_ = State::off;
}

WarmParent::~WarmParent() { end_process(); }

void WarmParent::use_copies(PackageCopies copies) {
    if (state_ == State::ready && has_lost_pieces()) {
        end_process();
        state_ = State::idle;
    }
    if (state_ == State::idle)
        copies_ = std::move(copies);
}

bool WarmParent::is_settled(const std::function<ChildSpec()>& rank, std::function<void()> then) {
    if (state_ == State::ready || state_ == State::off)
        return true;
    then_ = std::move(then);
    if (state_ == State::importing)
        return false;
    try {
        begin(rank());
    } catch (const Error& error) {
        end_process();
        state_ = State::off;
        note(error.what());
    }
    return state_ == State::off;
}

void WarmParent::begin(const ChildSpec& rank) {
    if (!is_subreaper())
        throw Error(ErrorCode::unsupported, "this agent does not adopt orphans");
    first_ = rank;
    printed_ = scratch_stream("stdout");
    complained_ = scratch_stream("stderr");
    replace(first_.environment, env::kStdout, identity(printed_));
    const UniqueFd no_input = open_file("/dev/null", O_RDONLY);
    UniqueFd its_end;
    socket_.emplace(its_end);
    record_ = scratch_stream("record");
    socket_->send_first(first_, choice_, copies_, record_.get());
    ChildSpec spec = first_;
    spec.environment = with_hook(spec.environment, choice_.library);
    spec.stdin_fd = no_input.get();
    spec.stdout_fd = printed_.get();
    spec.stderr_fd = complained_.get();
    spec.inherited_fd = {.fd = its_end.get(), .as = kItsSocket};
    begun_at_ = std::chrono::steady_clock::now();
    Child child = spawn_child(spec);
    ++made_;
    pid_ = child.pid;
    process_ = std::move(child.pidfd);
    state_ = State::importing;
    await_imports();
}

void WarmParent::await_imports() {
    const int own = ::fcntl(socket_->fd(), F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        throw SystemError(errno, "duplicate a socket");
    readable_.assign(own);
    readable_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](const std::error_code& error) {
                             if (!error)
                                 imports_are_over();
                         });
    watch_.emplace(times_.imports, begun_at_);
    watch_imports();
}

void WarmParent::watch_imports() {
    timer_.expires_after(kLook);
    timer_.async_wait([this](const std::error_code& error) {
        if (error || state_ != State::importing)
            return;
        const std::string why =
            watch_->why_given_up(sample_import(pid_), std::chrono::steady_clock::now());
        if (why.empty())
            return watch_imports();
        give_up_imports(why);
    });
}

void WarmParent::imports_are_over() {
    if (state_ != State::importing)
        return;  // answer and timer came together
    timer_.cancel();
    readable_.close();
    const WarmReply reply = socket_->receive(Deadline::after(std::chrono::seconds(0)));
    const auto* answer = std::get_if<std::string>(&reply);
    const std::string text = answer == nullptr ? std::string() : *answer;
    const std::string found = content_of(record_);
    PreloadWalk walk = parse_walk(found);
    copies_missing_ = walk.copies_missing;
    const int copies = walk.copies;
    // Of a list nothing is to be found but what its imports read.
    if (choice_.automatic ? !found.empty() : text.starts_with("ready ") && !walk.reads.empty())
        walk_ = std::move(walk);
    if (text.starts_with("ready ")) {
        ready_ = {.modules = std::atoi(text.c_str() + 6),
                  .took = std::chrono::duration_cast<std::chrono::milliseconds>(
                      std::chrono::steady_clock::now() - begun_at_),
                  .late = text.substr(std::min(text.find(' ', 6), text.size() - 1) + 1),
                  .copies = copies};
        return settle(State::ready);
    }
    give_up_imports((text.empty() ? "the interpreter that was to import for them ended" : text) +
                    last_words());
}

void WarmParent::give_up_imports(std::string why) {
    end_process();
    note(std::move(why));
    settle(State::off);
}

void WarmParent::settle(State state) {
    state_ = state;
    const auto then = std::exchange(then_, nullptr);
    if (then)
        then();
}

Child WarmParent::start(const ChildSpec& rank) {
    if (state_ == State::ready && has_lost_pieces())
        lose("whoever served its files in pieces has ended");
    if (state_ == State::ready) {
        if (std::string why = why_not_forked(rank); !why.empty())
            note(why);
        else if (auto child = fork(rank))
            return std::move(*child);
    }
    return spawn_child(rank);
}

// What differs from the first and is the interpreter's from its start.
std::string WarmParent::why_not_forked(const ChildSpec& rank) const {
    if (rank.argv != first_.argv)
        return "another command line is in front of the program";
    if (rank.workdir != first_.workdir || is_terminal(rank))
        return "a terminal is its stdin or output from its start";
    if (rank.cpus.size() != first_.cpus.size())
        return "it has another number of CPUs, and pools of threads are as large as that";
    if (rank.memory_nodes.empty() != first_.memory_nodes.empty())
        return "it has another memory policy";
    return {};
}

std::optional<Child> WarmParent::fork(const ChildSpec& rank) {
    try {
        socket_->send(rank);
    } catch (const Error& error) {
        lose(std::string("the warm interpreter is gone: ") + error.what() + last_words());
        return std::nullopt;
    }
    const WarmReply reply = socket_->receive(Deadline::after(times_.answer));
    if (const auto* answer = std::get_if<ForkAnswer>(&reply))
        return adopted(*answer);
    if (const auto* why = std::get_if<std::string>(&reply)) {
        note(*why);
        return std::nullopt;
    }
    lose(std::get<Silence>(reply).gone
             ? "the warm interpreter has ended" + last_words()
             : fmt::format("the warm interpreter did not answer within {} s",
                           static_cast<double>(times_.answer.count()) / 1000));
    return std::nullopt;
}

// Whatever the answer says: only a child of ours is taken for a rank.
std::optional<Child> WarmParent::adopted(const ForkAnswer& answer) {
    Child child;
    child.pid = answer.pid;
    child.affinity_error = answer.affinity_error;
    child.memory_policy_error = answer.memory_policy_error;
    if (answer.failed_stage != 0 || answer.pid <= 1 || parent_of(answer.pid) != ::getpid()) {
        note("the warm interpreter made a process that could not become a rank");
        return std::nullopt;
    }
    child.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, answer.pid, 0)));
    if (!child.pidfd) {
        note("the system has no pidfd_open(2)");
        ::kill(answer.pid, SIGKILL);
        return std::nullopt;
    }
    return child;
}

// A new one is tried at the next start of all ranks.
void WarmParent::lose(const std::string& why) {
    note(why);
    end_process();
    state_ = ++lost_ < kMostLost ? State::idle : State::off;
}

void WarmParent::end_process() {
    timer_.cancel();
    std::error_code ignored;
    readable_.close(ignored);
    if (pid_ > 0)
        ::kill(-pid_, SIGKILL);
    end_late_ranks();
    socket_.reset();
    if (pid_ <= 0)
        return;
    reap(pid_);
    pid_ = -1;
    process_.reset();
}

// A rank that answered after nobody waited any longer: another has been started in its place. One
// that answers from now on cannot, and ends by itself.
void WarmParent::end_late_ranks() {
    if (!socket_)
        return;
    socket_->take_no_more();
    for (WarmReply reply = Silence{};;) {
        reply = socket_->receive(Deadline::after(std::chrono::seconds(0)));
        if (std::holds_alternative<Silence>(reply))
            return;
        const auto* late = std::get_if<ForkAnswer>(&reply);
        if (late == nullptr || late->pid <= 1 || parent_of(late->pid) != ::getpid())
            continue;
        ::kill(late->pid, SIGKILL);
        reap(late->pid);
    }
}

std::string WarmParent::last_words() const {
    std::string text(kLastWords, '\0');
    struct stat facts {};
    if (!complained_ || ::fstat(complained_.get(), &facts) != 0 || facts.st_size == 0)
        return {};
    const off_t from = std::max<off_t>(0, facts.st_size - static_cast<off_t>(text.size()));
    const ssize_t count = ::pread(complained_.get(), text.data(), text.size(), from);
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    const auto lines = split(trim(text), '\n');
    return ": " + std::string(lines.empty() ? "" : trim(lines.back()));
}

std::optional<WarmParent::Ready> WarmParent::take_ready() { return std::exchange(ready_, {}); }

std::optional<PreloadWalk> WarmParent::take_walk() { return std::exchange(walk_, {}); }

void WarmParent::note(const std::string& why) {
    ++notes_[why];
    if (walk_ && walk_->trouble.empty())
        walk_->trouble = why;
}

std::vector<std::string> WarmParent::take_notes() {
    std::vector<std::string> notes;
    for (const auto& [why, ranks] : std::exchange(notes_, {}))
        notes.push_back(fmt::format("trainer.preload: {} by {}: {}",
                                    state_ == State::off ? "every rank starts"
                                    : ranks == 1         ? "a rank was started"
                                                 : std::to_string(ranks) + " ranks were started",
                                    ranks == 1 || state_ == State::off ? "itself" : "themselves",
                                    why));
    if (const std::string why = std::exchange(copies_missing_, {}); !why.empty())
        notes.push_back("trainer.preload_from: " + why + "; those files are read where they are");
    return notes;
}

}  // namespace autolaunch::launcher
