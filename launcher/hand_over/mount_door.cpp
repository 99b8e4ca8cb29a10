#include "hand_over/mount_door.hpp"

#include <autolaunch/error.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr int kDescriptors = 2;

}  // namespace

void MountDoor::serve() {
    for (;;) {
        char byte = 0;
        iovec part{&byte, 1};
        alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kDescriptors)];
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = space;
        message.msg_controllen = sizeof space;
        const ssize_t count = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return;
        const cmsghdr* head = CMSG_FIRSTHDR(&message);
        if (head == nullptr || head->cmsg_type != SCM_RIGHTS ||
            head->cmsg_len != CMSG_LEN(sizeof(int) * kDescriptors))
            continue;
        int fds[kDescriptors];
        std::memcpy(fds, CMSG_DATA(head), sizeof fds);
        take(UniqueFd(fds[0]), UniqueFd(fds[1]));
    }
}

// An answer that does not come is the other's to notice: the device closes, and the mount is dead.
void MountDoor::take(UniqueFd device, UniqueFd answer) {
    std::erase_if(servers_, [](const auto& server) { return server->is_over(); });
    try {
        servers_.push_back(
            std::make_unique<FuseServer>(std::move(device), files_.all(), patience_));
        [[maybe_unused]] const ssize_t ignored = ::send(answer.get(), "r", 1, MSG_NOSIGNAL);
    } catch (const Error&) {
    }
}

}  // namespace autolaunch::launcher
