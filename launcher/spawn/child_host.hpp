#pragma once
#include "spawn/spawn.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <functional>
#include <utility>

namespace autolaunch::launcher {

/// Where one child at a time is started and watched: in this process, or in another task of the
/// node (StandIns).
///
/// Threads: the main one, which runs the event loop. Blocks: start(), until the program runs.
class ChildHost {
public:
    using EndHandler = std::function<void(const ChildEnd&)>;

    virtual ~ChildHost() = default;
    /// Throws SpawnError. `on_end` is called from the event loop, once, when the child is reaped
    /// and the rest of its process group has SIGKILL. The result's pidfd is empty.
    virtual Child start(const ChildSpec& spec, EndHandler on_end) = 0;
    /// To the child's whole process group; nothing after its end.
    virtual void signal_group(int signal) = 0;
};

/// Makes a child of this process; spawn_child() is one.
using ChildMaker = std::function<Child(const ChildSpec&)>;

/// Children of this process.
class OwnChild : public ChildHost {
public:
    explicit OwnChild(asio::io_context& io, ChildMaker make = spawn_child)
        : make_(std::move(make)), pidfd_(io) {}

    Child start(const ChildSpec& spec, EndHandler on_end) override;
    void signal_group(int signal) override;

private:
    void wait_for_end();

    ChildMaker make_;
    pid_t pid_ = -1;  ///< -1: none runs
    asio::posix::stream_descriptor pidfd_;
    EndHandler on_end_;
};

}  // namespace autolaunch::launcher
