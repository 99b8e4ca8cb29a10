#pragma once
#include "base/unique_fd.hpp"

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A process forked from this one to ask what may crash or never answer: a driver, a library, a
/// file system. What it writes comes back through a pipe. It has no other descriptor of ours, so
/// that nobody who waits for the end of our output waits for it; it leaves no core file, ignores
/// signals that others send (a scheduler may signal every process of a job), and dies with us.
///
/// Owner: whoever asks; the destructor ends it. Threads: one, and it is a fork: no other thread
/// should hold a lock of the C library. Blocks: end() and the destructor, 50 ms at most; one that
/// hangs in the kernel dies when it can, and nobody waits for it.
class HelperProcess {
public:
    /// answer: it is asked one thing, and ended with what it was asked for. job: it goes on over
    /// generations, whose ends spare it (lasting()).
    enum class Lifetime { answer, job };

    HelperProcess() = default;
    /// In the new process, `work` writes to `output`; what it throws ends that process. Throws
    /// SystemError.
    explicit HelperProcess(const std::function<void(int output)>& work,
                           Lifetime lifetime = Lifetime::answer);
    HelperProcess(HelperProcess&& other) noexcept;
    HelperProcess& operator=(HelperProcess&& other) noexcept;
    ~HelperProcess();

    /// To wait at until it is readable; -1 when there is no process, and after kill().
    int output() const { return output_.get(); }
    /// Appends to `text` what has come, and does not wait for more. False when nothing more will
    /// come.
    bool read_some(std::string& text);

    /// SIGKILL, if it is there. Somebody else may have ended or reaped it, as with all children of
    /// this process.
    void kill();
    /// True when there is no process, or no longer: then it has been reaped.
    bool gone();
    /// kill(), and waits a little until it is gone.
    void end();
    pid_t pid() const { return pid_; }  ///< -1 when it is gone

    /// Those with Lifetime::job: who ends or reaps the children of this process spares them.
    static std::vector<pid_t> lasting();

private:
    pid_t pid_ = -1;
    UniqueFd process_;  ///< a pidfd; none on kernels before 5.3
    UniqueFd output_;
};

}  // namespace autolaunch::launcher
