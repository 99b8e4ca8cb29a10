#include "session/memory_request.hpp"

#include "session/descriptor_message.hpp"
#include "session/unix_address.hpp"

#include <autolaunch/error.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

namespace autolaunch::session {

namespace {

[[noreturn]] void hung_up() {
    throw Error(
        ErrorCode::closed, "this node's agent hung up when it was asked for memory",
        "an autolaunch of another version than the trainer's library knows no such request");
}

// The next bytes, appended to `input`; waits for them.
void receive_some(int socket, std::string& input, UniqueFd& file, Deadline deadline) {
    std::array<char, 4096> bytes{};
    while (true) {
        const long count = receive_with_descriptor(socket, bytes, file);
        if (count > 0) {
            input.append(bytes.data(), static_cast<std::size_t>(count));
            return;
        }
        if (count == 0 || (errno != EAGAIN && errno != EINTR))
            hung_up();
        if (deadline.passed())
            throw TimeoutError("this node's agent did not answer when it was asked for memory");
        pollfd wait{socket, POLLIN, 0};
        ::poll(&wait, 1, deadline.poll_timeout_ms());
    }
}

}  // namespace

// The request ends what we send: an agent that knows no such request then hangs up instead of
// keeping us waiting.
GrantedMemory ask_for_memory(const std::filesystem::path& socket, const Hello& hello,
                             const MemoryAsked& asked, Deadline deadline) {
    const UniqueFd connection = connect_to_unix(socket, deadline);
    const std::string request = format(RankMessage(hello)) + format(RankMessage(asked));
    if (!connection ||
        send_with_descriptor(connection.get(), request, -1) != static_cast<long>(request.size()) ||
        ::shutdown(connection.get(), SHUT_WR) != 0)
        hung_up();
    std::string input, line;
    UniqueFd file;
    while (true) {
        while (!take_line(input, line))
            receive_some(connection.get(), input, file, deadline);
        const std::optional<AgentMessage> message = parse_agent_line(line);
        const auto* const answer = message ? std::get_if<MemoryAnswer>(&*message) : nullptr;
        if (answer == nullptr)
            continue;  // what it asks of all ranks comes here, too
        if (!answer->refused.empty())
            throw Error(ErrorCode::unsupported, answer->refused, answer->hint);
        if (answer->bytes == 0)
            return {};
        struct stat found {};
        if (!file || ::fstat(file.get(), &found) != 0 || found.st_size != answer->bytes)
            throw Error(ErrorCode::corrupt,
                        "this node's agent sent memory that is not what it says it is");
        return {std::move(file), static_cast<std::uint64_t>(answer->bytes)};
    }
}

}  // namespace autolaunch::session
