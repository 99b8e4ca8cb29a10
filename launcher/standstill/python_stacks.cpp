#include "standstill/python_stacks.hpp"

#include "spawn/process_condition.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostPythonBytes = std::size_t{1} << 20;

}  // namespace

// Only memory is emptied before each time: no file of somebody's that came in its place.
void PythonStacks::can_tell(int rank, pid_t pid, const session::PythonStacks& stacks) {
    const bool is_memory =
        stacks.file && *stacks.file && ::fcntl(stacks.file->get(), F_GET_SEALS) >= 0;
    if (pid <= 0 || !is_memory || stacks.signal < SIGRTMIN || stacks.signal > SIGRTMAX)
        return;
    UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (process)
        ranks_[rank] = Process{pid, std::move(process), stacks.signal, stacks.file};
}

// What another program took the place of, by execve, would die of it. The offset in the memory is
// the rank's, too.
bool PythonStacks::ask(int rank) {
    const auto found = ranks_.find(rank);
    if (found == ranks_.end())
        return false;
    const Process& python = found->second;
    return has_handler(python.pid, python.signal) && ::ftruncate(python.file->get(), 0) == 0 &&
           ::lseek(python.file->get(), 0, SEEK_SET) == 0 &&
           ::syscall(SYS_pidfd_send_signal, python.process.get(), python.signal, nullptr, 0) == 0;
}

std::size_t PythonStacks::written(int rank) const {
    const auto found = ranks_.find(rank);
    struct stat status {};
    return found != ranks_.end() && ::fstat(found->second.file->get(), &status) == 0
               ? static_cast<std::size_t>(status.st_size)
               : 0;
}

std::string PythonStacks::read(int rank) const {
    std::string text(std::min(written(rank), kMostPythonBytes), '\0');
    if (text.empty())
        return text;
    const ssize_t count = ::pread(ranks_.at(rank).file->get(), text.data(), text.size(), 0);
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
}

}  // namespace autolaunch::launcher
