#pragma once
#include <functional>
#include <string_view>

namespace autolaunch::launcher {

/// Where input goes: to a rank, or to another node.
///
/// Threads: the agent's one. Blocks: never.
class InputSink {
public:
    virtual ~InputSink() = default;
    /// Little enough waits in it. `on_room` of the maker is called when that is so again.
    virtual bool has_room() const = 0;
    virtual void put(std::string_view bytes) = 0;
    /// After what was put comes the end of the input.
    virtual void finish() = 0;
    /// Nobody reads there any more.
    virtual bool is_gone() const = 0;
};

}  // namespace autolaunch::launcher
