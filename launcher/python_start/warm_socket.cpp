#include "python_start/warm_socket.hpp"

#include "base/file_io.hpp"
#include "base/memory_file.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

void append_masked(std::string& texts, const std::vector<int>& numbers, std::uint32_t& bytes) {
    constexpr int kBits = sizeof(unsigned long) * CHAR_BIT;
    if (numbers.empty())
        return;
    std::vector<unsigned long> mask(
        static_cast<std::size_t>(*std::max_element(numbers.begin(), numbers.end()) / kBits + 1));
    for (const int number : numbers)
        mask[static_cast<std::size_t>(number / kBits)] |= 1UL << (number % kBits);
    bytes = static_cast<std::uint32_t>(mask.size() * sizeof(unsigned long));
    texts.append(reinterpret_cast<const char*>(mask.data()), bytes);
}

void append_text(std::string& texts, std::string_view text, std::uint32_t& bytes) {
    texts.append(text);
    texts.push_back('\0');
    bytes += static_cast<std::uint32_t>(text.size() + 1);
}

void append_program(std::string& texts, const PreloadChoice& choice, std::uint32_t& bytes) {
    append_text(texts, choice.script, bytes);
    append_text(texts, choice.automatic ? "auto" : "list", bytes);
    append_text(texts, choice.module, bytes);
    append_text(texts, choice.is_shared ? "shared" : "", bytes);
    append_text(texts, std::to_string(choice.reads.size()), bytes);
    for (const FilePart& part : choice.reads)
        append_text(texts, fmt::format("{}\t{}\t{}", part.offset, part.bytes, part.file), bytes);
    if (!choice.automatic)
        for (const PreloadedImport& import : choice.imports)
            append_text(texts, import.statement, bytes);
}

/// The folder of the copies; then of each its path and that of the file which it is a copy of.
void append_copies(std::string& texts, const PackageCopies& copies, std::uint32_t& bytes) {
    if (copies.files.empty())
        return;
    append_text(texts, copies.folder, bytes);
    for (const HandOver::Copy& file : copies.files) {
        append_text(texts, file.path, bytes);
        append_text(texts, file.original, bytes);
    }
}

std::string order_of(const ChildSpec& spec, const PreloadChoice* choice,
                     const PackageCopies& copies = {}) {
    OrderHead head;
    std::string texts;
    head.agent = ::getpid();
    if (spec.file_limit)
        head.file_limit = static_cast<std::int64_t>(*spec.file_limit);
    if (spec.inherited_fd)
        head.inherited_as = spec.inherited_fd->as;
    for (const std::string& variable : spec.environment)
        append_text(texts, variable, head.environment_bytes);
    if (!spec.workdir.empty())
        append_text(texts, spec.workdir, head.workdir_bytes);
    append_masked(texts, spec.cpus, head.cpu_mask_bytes);
    append_masked(texts, spec.memory_nodes, head.node_mask_bytes);
    if (choice != nullptr)
        append_program(texts, *choice, head.program_bytes);
    append_copies(texts, copies, head.copies_bytes);
    return std::string(reinterpret_cast<const char*>(&head), sizeof head) + texts;
}

UniqueFd as_memory_file(const std::string& bytes) {
    UniqueFd file = create_memory_file("autolaunch-order", bytes.size());
    if (!file)
        throw SystemError(errno, "make a memory file");
    write_all(file.get(), bytes, "a memory file");
    return file;
}

}  // namespace

WarmSocket::WarmSocket(UniqueFd& other) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        throw SystemError(errno, "make a pair of sockets");
    socket_.reset(ends[0]);
    other.reset(ends[1]);
}

void WarmSocket::send_first(const ChildSpec& spec, const PreloadChoice& choice,
                            const PackageCopies& copies, int record) {
    std::vector<int> fds{record};
    if (copies.door >= 0)
        fds.push_back(copies.door);
    send_with(order_of(spec, &choice, copies), std::move(fds));
}

void WarmSocket::send(const ChildSpec& spec) {
    std::vector<int> fds{spec.stdin_fd, spec.stdout_fd, spec.stderr_fd};
    if (spec.inherited_fd)
        fds.push_back(spec.inherited_fd->fd);
    send_with(order_of(spec, nullptr), std::move(fds));
}

void WarmSocket::send_with(const std::string& order, std::vector<int> fds) {
    const UniqueFd file = as_memory_file(order);
    fds.insert(fds.begin(), file.get());
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kMostOrderFds)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
    if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        throw SystemError(errno, "send an order to the warm interpreter");
}

void WarmSocket::take_no_more() { ::shutdown(socket_.get(), SHUT_RDWR); }

WarmReply WarmSocket::receive(Deadline deadline) {
    pollfd readable{socket_.get(), POLLIN, 0};
    int ready = 0;
    while ((ready = ::poll(&readable, 1, deadline.poll_timeout_ms())) < 0 && errno == EINTR) {
    }
    if (ready <= 0)
        return Silence{};
    char bytes[kAnswerBytes];
    const ssize_t count = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count <= 0)
        return Silence{.gone = true};
    ForkAnswer answer;
    if (count == sizeof answer) {
        std::memcpy(&answer, bytes, sizeof answer);
        if (answer.mark == kOrderMark)
            return answer;
    }
    return std::string(bytes, static_cast<std::size_t>(count));
}

}  // namespace autolaunch::launcher
