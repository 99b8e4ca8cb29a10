#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "session/session_protocol.hpp"

#include <functional>
#include <thread>

namespace autolaunch::session {

/// The two ends of a way from the agent to a rank that waits for the next generation. Throws
/// SystemError.
struct WordOfNext {
    UniqueFd ours, agents;
};
WordOfNext make_word_of_next();

/// What the agent says there. Throws Error{closed} when it hangs up: no generation follows, or not
/// with this process. Blocks: until the deadline at most, and throws TimeoutError then.
NextGeneration wait_for_next(const UniqueFd& ours, const Deadline& deadline);

/// Hears the agent while the trainer computes or waits: calls `hear` when `socket` can be read,
/// until that returns false.
///
/// Owner: Session. Threads: one of its own, which takes no signals. Blocks: the destructor, while
/// `hear` runs.
class AgentListener {
public:
    /// Throws SystemError.
    AgentListener(int socket, std::function<bool()> hear);
    AgentListener(const AgentListener&) = delete;
    AgentListener& operator=(const AgentListener&) = delete;
    ~AgentListener();

private:
    void listen(int socket) const;

    UniqueFd end_;  // an eventfd
    std::function<bool()> hear_;
    std::thread thread_;
};

}  // namespace autolaunch::session
