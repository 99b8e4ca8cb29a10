#pragma once
#include <autolaunch/digest.hpp>
#include <autolaunch/export.hpp>

#include <cstddef>
#include <memory>

namespace autolaunch {

/// XXH3, 128 bits, of bytes that come in parts. Move-only. Owner: one. Threads: one.
class AUTOLAUNCH_API RunningHash {
public:
    RunningHash();
    RunningHash(RunningHash&&) noexcept;
    RunningHash& operator=(RunningHash&&) noexcept;
    ~RunningHash();

    void update(const void* data, std::size_t bytes);
    /// Of what came since the last call of it, and begins anew.
    Digest128 take();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace autolaunch
