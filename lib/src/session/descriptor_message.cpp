#include "session/descriptor_message.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace autolaunch {

namespace {
constexpr std::size_t kMostDescriptors = 4;  // of one message; the kernel drops the rest
}

long send_with_descriptors(int socket, std::string_view bytes, std::span<const int> descriptors) {
    if (descriptors.size() > kMostDescriptors) {
        errno = EINVAL;
        return -1;
    }
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control{};
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

long send_with_descriptor(int socket, std::string_view bytes, int descriptor) {
    return send_with_descriptors(socket, bytes, std::span(&descriptor, descriptor >= 0 ? 1U : 0U));
}

long receive_with_descriptors(int socket, std::span<char> bytes,
                              std::vector<UniqueFd>& descriptors) {
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0)
        return count;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        const std::size_t came = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < came; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            descriptors.emplace_back(fd);
        }
    }
    return count;
}

long receive_with_descriptor(int socket, std::span<char> bytes, UniqueFd& descriptor) {
    std::vector<UniqueFd> came;
    const long count = receive_with_descriptors(socket, bytes, came);
    if (!came.empty())
        descriptor = std::move(came.back());
    return count;
}

}  // namespace autolaunch
