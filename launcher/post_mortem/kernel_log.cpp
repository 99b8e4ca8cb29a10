#include "post_mortem/kernel_log.hpp"

#include "causes/kernel_words.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kRecordLimit = 8192;  // the kernel gives no longer one
constexpr int kMostRecords = 20'000;        // of a machine that has nothing better to do

}  // namespace

KernelLog::KernelLog() : fd_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (fd_ && ::lseek(fd_.get(), 0, SEEK_END) < 0)
        fd_.reset();
}

const std::vector<std::string>& KernelLog::read() {
    std::array<char, kRecordLimit> record;
    for (int count = 0; fd_ && count < kMostRecords; ++count) {
        const ssize_t got = ::read(fd_.get(), record.data(), record.size());
        if (got < 0 && (errno == EINTR || errno == EPIPE))  // EPIPE: records were overwritten
            continue;
        if (got <= 0)
            break;
        const std::string_view message =
            kernel_message({record.data(), static_cast<std::size_t>(got)});
        if (!is_telling_kernel_line(message))
            continue;
        if (lines_.size() == kMostLines)
            lines_.erase(lines_.begin());
        lines_.emplace_back(message);
    }
    return lines_;
}

std::string_view kernel_message(std::string_view record) {
    const auto begin = record.find(';');
    if (begin == record.npos)
        return {};
    const std::string_view message = record.substr(begin + 1);
    return message.substr(0, message.find('\n'));
}

bool knows_kernel_pids() {
    constexpr std::string_view kFirst = "pid:[4026531836]";  // PROC_PID_INIT_INO
    std::array<char, 64> name{};
    const ssize_t length = ::readlink("/proc/self/ns/pid", name.data(), name.size());
    return length > 0 && std::string_view(name.data(), static_cast<std::size_t>(length)) == kFirst;
}

}  // namespace autolaunch::launcher
