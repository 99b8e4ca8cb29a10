#pragma once
#include "input/input_sink.hpp"
#include "input/input_supply.hpp"

#include <asio/io_context.hpp>

#include <memory>
#include <vector>

namespace autolaunch::launcher {

/// Moves one node's input of one generation from its supply to all its sinks, at the pace of the
/// slowest that still reads: little is held in between.
///
/// Owner: JobInput. Threads: the agent's one. Blocks: as the supply.
class InputPump {
public:
    /// All outlive it.
    InputPump(asio::io_context& io, InputSupply& supply, std::vector<InputSink*> sinks)
        : io_(io), supply_(supply), sinks_(std::move(sinks)) {}

    /// Moves what can be moved. To be called again whenever a sink has room or is gone.
    void run();

private:
    bool all_have_room() const;
    void run_later();

    asio::io_context& io_;
    InputSupply& supply_;
    std::vector<InputSink*> sinks_;
    std::string piece_;
    bool over_ = false, running_ = false;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher
