#pragma once
#include "input/input_reader.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// The job's stdin from its beginning, once a generation: a file is read again; of a pipe what was
/// read is kept, up to a limit.
///
/// Owner: JobInput, on the head. Threads: the agent's one. Blocks: as InputReader.
class InputSource final : public InputSupply {
public:
    static constexpr std::size_t kKeptBytes = std::size_t{64} << 20;

    struct Handlers {
        std::function<void()> on_spent;  ///< more was read of a pipe than is kept; once
        std::function<void(const std::string& why)> on_failure;  ///< it cannot be read; once
    };

    /// `keep`: there may be another generation. Throws SystemError.
    InputSource(asio::io_context& io, int fd, bool keep, Handlers handlers,
                std::size_t most_kept = kKeptBytes);

    /// Back to the beginning. False: what was read is not there any more.
    bool begin();
    InputState read(std::string& into, std::size_t most) override;
    void wait(std::function<void()> on_ready) override { reader_.wait(std::move(on_ready)); }
    void leave() override { reader_.leave(); }
    bool has_read() const { return given_ > 0 || !kept_.empty() || is_spent_; }

private:
    void keep_piece(std::string_view piece);

    InputReader reader_;
    const bool is_file_, keep_;
    const Handlers handlers_;
    const std::size_t most_kept_;
    std::string kept_;
    std::size_t given_ = 0;  ///< of `kept_`, in this generation
    bool ended_ = false, is_spent_ = false;
};

}  // namespace autolaunch::launcher
