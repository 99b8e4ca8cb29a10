#pragma once
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <mutex>
#include <string>

namespace autolaunch::launcher {

/// In a program that is a MoverProcess: a line to the agent, which is at descriptor 0. Ends the
/// process where nobody listens any more. Threads: any; lines stay whole. Blocks: while the agent
/// takes none.
inline void send_to_agent(std::string line) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    line += '\n';
    for (std::size_t done = 0; done < line.size();) {
        const ssize_t sent = ::send(0, line.data() + done, line.size() - done, MSG_NOSIGNAL);
        if (sent <= 0)
            ::_exit(0);
        done += static_cast<std::size_t>(sent);
    }
}

}  // namespace autolaunch::launcher
