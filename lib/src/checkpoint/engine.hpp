#pragma once
#include "checkpoint/storage.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace autolaunch {

/// What the engine tells whoever watches the job. Called on rank 0.
struct CheckpointEvents {
    std::function<void(std::int64_t step, const std::filesystem::path& path, double stall_seconds)> published;
    std::function<void(const std::string& text)> note;
};

/// The commit protocol and its reverse, over any storage. Owner: Checkpointer. Threads: one. Blocks: every function, in
/// collectives and in storage.
class CheckpointEngine {
public:
    CheckpointEngine(std::shared_ptr<Storage> storage, Communicator world, const CheckpointOptions& options,
                     CheckpointEvents events);

    CheckpointInfo save(std::int64_t step, const fsdp::State& state, const SaveOptions& options);
    std::optional<CheckpointInfo> latest(std::int64_t before);
    void load(const CheckpointInfo& checkpoint, const fsdp::State& state);

private:
    void require_same_state(std::int64_t step, const fsdp::State& state, const std::string& extra);
    Manifest write_and_verify(const std::filesystem::path& unfinished, std::int64_t step, const fsdp::State& state);
    void publish(const std::filesystem::path& unfinished, const Manifest& manifest);
    void tidy(std::int64_t step);

    std::shared_ptr<Storage> storage_;
    Communicator world_;
    CheckpointOptions options_;
    CheckpointEvents events_;
};

}  // namespace autolaunch
