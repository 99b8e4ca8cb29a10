#pragma once
#include "base/unique_fd.hpp"
#include "input/input_sink.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace autolaunch::launcher {

/// The pipe that is a rank's stdin.
///
/// Owner: JobInput. Threads: the agent's one, where SIGPIPE is ignored. Blocks: never.
class PipeSink final : public InputSink {
public:
    /// Throws SystemError.
    PipeSink(asio::io_context& io, std::function<void()> on_room);

    /// The end that the rank reads; -1 once it has been given.
    int reading_end() const { return reading_end_.get(); }
    void was_given() { reading_end_.reset(); }
    /// The rank has ended, or is not started.
    void close();

    bool has_room() const override { return backlog_.size() - offset_ < kMostWaiting; }
    void put(std::string_view bytes) override;
    void finish() override;
    bool is_gone() const override { return !pipe_.is_open(); }

private:
    static constexpr std::size_t kMostWaiting = std::size_t{256} << 10;

    void write();
    void write_later();
    void close_writing_end();

    UniqueFd reading_end_;
    asio::posix::stream_descriptor pipe_;
    std::function<void()> on_room_;
    std::string backlog_;
    std::size_t offset_ = 0;
    bool waiting_ = false, finished_ = false;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher
