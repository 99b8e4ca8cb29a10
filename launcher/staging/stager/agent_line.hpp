#pragma once
#include "staging/stager_words.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>

namespace autolaunch::launcher {

/// To the agent; any thread. When it is gone, this process ends.
void say(const StagerWord& word);
[[noreturn]] void say_failed(StagingFailure failure);

/// Lines of the agent's. When it is gone, this process ends.
class AgentLine {
public:
    AgentLine();
    AgentLine(const AgentLine&) = delete;
    AgentLine& operator=(const AgentLine&) = delete;

    /// Waits without an end: while others work, the agent watches them.
    std::string hear();

private:
    void listen();

    std::mutex mutex_;
    std::condition_variable heard_;
    std::deque<std::string> lines_;
};

}  // namespace autolaunch::launcher
