#include "checkpoint/crypto/key_file.hpp"

#include "base/file_io.hpp"
#include "base/refuse.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace autolaunch::crypto {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;

}  // namespace

void read_some(int fd, SecretBytes& text, const std::string& source) {
    std::array<std::uint8_t, 4096> buffer;
    ssize_t got = 0;
    do {
        got = ::read(fd, buffer.data(), buffer.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        throw SystemError(errno, "read " + source);
    text.insert(text.end(), buffer.begin(), buffer.begin() + got);
    ::explicit_bzero(buffer.data(), buffer.size());
    if (text.size() > kMaxBytes)
        refuse(source + " is too long to be keys");
}

SecretBytes read_key_file(const std::filesystem::path& file) {
    // Not blocking: a FIFO without a writer must not hang us.
    const UniqueFd fd = open_file(file, O_RDONLY | O_NONBLOCK);
    struct stat status = {};
    if (::fstat(fd.get(), &status) != 0)
        throw SystemError(errno, "stat " + file.string());
    if (!S_ISREG(status.st_mode))
        refuse(file.string() + " is not a regular file");
    if ((status.st_mode & 077) != 0)
        refuse("the key file " + file.string() + " is open to others",
               "chmod 600 " + file.string());
    if (status.st_uid != ::geteuid() && status.st_uid != 0)
        refuse("the key file " + file.string() + " belongs to another user",
               "make a copy of your own, with mode 600");
    SecretBytes text;
    std::size_t before = 0;
    do {
        before = text.size();
        read_some(fd.get(), text, file.string());
    } while (text.size() != before);
    return text;
}

}  // namespace autolaunch::crypto
