#pragma once
#include <cstddef>
#include <functional>
#include <string>

namespace autolaunch::launcher {

enum class InputState { bytes, nothing_yet, ended };

/// Where input comes from, piece by piece.
///
/// Threads: the agent's one. Blocks: never.
class InputSupply {
public:
    virtual ~InputSupply() = default;
    /// Appends at most `most` bytes. After `ended` nothing comes any more.
    virtual InputState read(std::string& into, std::size_t most) = 0;
    /// Calls once, from the event loop, when it is worth reading again. A later call replaces an
    /// earlier one.
    virtual void wait(std::function<void()> on_ready) = 0;
    /// Nobody wants more of it in this generation.
    virtual void leave() = 0;
};

}  // namespace autolaunch::launcher
