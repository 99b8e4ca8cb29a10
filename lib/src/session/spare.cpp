#include "session/spare.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "session/descriptor_message.hpp"
#include "session/environment.hpp"
#include "session/session_protocol.hpp"

#include <autolaunch/error.hpp>

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace autolaunch::session {
namespace {

/// What a scheduler sends to all processes of a job is no spare's business, and would end it. A
/// handler of the program stays.
class RequestsIgnored {
public:
    RequestsIgnored() {
        struct sigaction ignore {};
        ignore.sa_handler = SIG_IGN;
        for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
            struct sigaction current {};
            if (::sigaction(signal, nullptr, &current) == 0 &&
                (current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == SIG_DFL &&
                ::sigaction(signal, &ignore, nullptr) == 0)
                ignored_.push_back(signal);
        }
    }
    RequestsIgnored(const RequestsIgnored&) = delete;
    RequestsIgnored& operator=(const RequestsIgnored&) = delete;
    ~RequestsIgnored() {
        struct sigaction standard {};
        standard.sa_handler = SIG_DFL;
        for (const int signal : ignored_)
            ::sigaction(signal, &standard, nullptr);
    }

private:
    std::vector<int> ignored_;
};

struct Word {
    BecomeRank become;
    std::vector<UniqueFd> streams;
};

/// AUTOLAUNCH_SPARE, as the kernel shows it to others in /proc/PID/environ.
struct Shown {
    UniqueFd socket;
    char* begin = nullptr;  ///< of the variable, where the program has not moved it
    std::size_t bytes = 0;
};

// Where the kernel looks for the environment: /proc/self/stat, which ends with env_start, env_end
// and the exit code.
bool is_shown(const char* variable) {
    std::string stat;
    try {
        stat = read_file("/proc/self/stat");
    } catch (const Error&) {
        return false;
    }
    const auto fields = split(trim(stat), ' ');
    long long from = 0, to = 0;
    if (fields.size() < 4 || !parse_integer(fields[fields.size() - 3], from) ||
        !parse_integer(fields[fields.size() - 2], to))
        return false;
    const auto at = reinterpret_cast<std::uintptr_t>(variable);
    return at >= static_cast<std::uintptr_t>(from) && at < static_cast<std::uintptr_t>(to);
}

// The agent's watch over MPI, and an operator's look, find there who the rank is. What does not fit
// is left out.
void show(const Shown& shown, const std::map<std::string, std::string>& set) {
    std::string text;
    for (const auto& [name, value] : set)
        if (text.size() + name.size() + value.size() + 2 <= shown.bytes)
            text.append(name).append(1, '=').append(value).append(1, '\0');
    if (shown.begin == nullptr)
        return;
    std::memset(shown.begin, 0, shown.bytes);
    std::memcpy(shown.begin, text.data(), text.size());
}

Shown take_socket() {
    const char* const given = ::getenv(env::kSpare);
    if (given == nullptr)
        return {};
    const std::string text(trim(given));
    Shown shown;
    if (char* const variable = const_cast<char*>(given) - std::strlen(env::kSpare) - 1;
        is_shown(variable)) {
        shown.begin = variable;
        shown.bytes = std::strlen(variable) + 1;
    }
    ::unsetenv(env::kSpare);
    long long number = -1;
    int type = 0;
    socklen_t length = sizeof type;
    if (!parse_integer(text, number) || number < 3 || number > std::numeric_limits<int>::max() ||
        ::getsockopt(static_cast<int>(number), SOL_SOCKET, SO_TYPE, &type, &length) != 0)
        throw Error(ErrorCode::closed,
                    std::string(env::kSpare) + "=" + text + " is no socket of this process",
                    "only the process that the agent has started as a spare becomes a rank");
    shown.socket.reset(static_cast<int>(number));
    ::fcntl(shown.socket.get(), F_SETFD, FD_CLOEXEC);
    return shown;
}

// MPI that has begun, in a job of its own, cannot become another's.
bool mpi_has_begun() {
    using Initialized = int (*)(int*);
    void* const symbol = ::dlsym(RTLD_DEFAULT, "MPI_Initialized");
    int begun = 0;
    return symbol != nullptr && reinterpret_cast<Initialized>(symbol)(&begun) == 0 && begun != 0;
}

void tell(const UniqueFd& socket, const Spare& spare) {
    const std::string line = format(RankMessage(spare));
    if (send_with_descriptor(socket.get(), line, -1) != static_cast<long>(line.size()))
        throw Error(ErrorCode::closed, "the agent that started this spare process is gone");
}

Word await_word(const UniqueFd& socket) {
    Word word;
    std::string input, line;
    std::array<char, 4096> bytes{};
    while (!take_line(input, line)) {
        pollfd wait{socket.get(), POLLIN, 0};
        ::poll(&wait, 1, -1);
        const long count = receive_with_descriptors(socket.get(), bytes, word.streams);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
            throw Error(ErrorCode::closed, "this spare process was not needed");
        if (count > 0)
            input.append(bytes.data(), static_cast<std::size_t>(count));
    }
    const auto message = parse_agent_line(line);
    if (!message || !std::holds_alternative<BecomeRank>(*message))
        throw Error(ErrorCode::corrupt, "the agent said something else than which rank to be");
    word.become = std::get<BecomeRank>(*message);
    return word;
}

// Empty, or what was not possible.
std::string become(const Word& word) {
    for (const std::string& name : word.become.unset)
        ::unsetenv(name.c_str());
    for (const auto& [name, value] : word.become.set)
        if (::setenv(name.c_str(), value.c_str(), 1) != 0)
            return "its environment cannot be set";
    if (word.streams.size() != 2)
        return "its stdout and stderr did not come";
    for (int stream = 0; stream < 2; ++stream)
        if (::dup2(word.streams[static_cast<std::size_t>(stream)].get(), stream + 1) < 0)
            return "its output cannot be directed to its log";
    return {};
}

}  // namespace

void become_rank_if_spare() {
    const Shown shown = take_socket();
    const UniqueFd& socket = shown.socket;
    if (!socket)
        return;
    if (mpi_has_begun()) {
        const std::string why = "MPI_Init was called before the Session was asked for";
        tell(socket, {"cannot", why});
        throw Error(ErrorCode::unsupported, "a spare process cannot become a rank: " + why);
    }
    const RequestsIgnored ignored;
    tell(socket, {.state = "waits"});
    const Word word = await_word(socket);
    if (const std::string why = become(word); !why.empty()) {
        tell(socket, {"cannot", why});
        throw Error(ErrorCode::system, "a spare process cannot become a rank: " + why);
    }
    show(shown, word.become.set);
    tell(socket, {.state = "is_rank"});
}

}  // namespace autolaunch::session
