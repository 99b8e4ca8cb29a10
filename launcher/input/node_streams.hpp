#pragma once
#include "input/input_sink.hpp"
#include "input/input_supply.hpp"
#include "rank_services/credited_stream.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// One node's way to the job's stdin, in relays of the control connection (docs/control-protocol.md
/// has the bytes). `send` takes a whole message to the other end. What the other end says goes to
/// hear(), which throws Error{corrupt} for what it cannot have meant.

/// On the head.
///
/// Owner: JobInput. Threads: the agent's one. Blocks: never.
class NodeSink final : public InputSink {
public:
    using Send = std::function<void(std::string message)>;
    NodeSink(Send send, std::function<void()> on_room);

    void hear(std::string_view message);
    /// What it said makes no sense.
    void give_up() { is_gone_ = true; }

    bool has_room() const override;
    void put(std::string_view bytes) override;
    void finish() override;
    bool is_gone() const override { return is_gone_; }

private:
    void flush();

    Send send_;
    std::function<void()> on_room_;
    store_relay::CreditedStream stream_;
    bool is_ready_ = false, is_finished_ = false, is_gone_ = false;
};

/// On the node whose ranks read it.
///
/// Owner: JobInput. Threads: the agent's one. Blocks: never.
class RelayedInput final : public InputSupply {
public:
    /// Asks the head to begin.
    explicit RelayedInput(NodeSink::Send send);

    void hear(std::string_view message);
    /// What it said makes no sense: the input ends.
    void give_up();

    InputState read(std::string& into, std::size_t most) override;
    void wait(std::function<void()> on_ready) override { on_ready_ = std::move(on_ready); }
    void leave() override;

private:
    void tell_ready();

    NodeSink::Send send_;
    store_relay::CreditedStream stream_;
    std::function<void()> on_ready_;
    std::string arrived_;
    std::size_t offset_ = 0;
    bool ended_ = false, left_ = false;
};

}  // namespace autolaunch::launcher
