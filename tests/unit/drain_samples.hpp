#pragma once
// Checkpoints of one rank to drain, and what is found of them.
#include "checkpoint/checkpoint_engine.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/drain/drain.hpp"
#include "comm/self/self_backend.hpp"

#include <autolaunch/error.hpp>

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::testing {

/// A state whose values say which save they are of.
struct DrainSample {
    DrainSample(float value, std::size_t elements) : weights(elements, value) {}
    fsdp::State state() {
        const auto count = static_cast<std::int64_t>(weights.size());
        return {
            {"w", f32, {count}, {{0, count, reinterpret_cast<std::byte*>(weights.data())}}, false}};
    }
    std::vector<float> weights;
};

inline CheckpointEngine drain_engine(std::shared_ptr<Storage> storage,
                                     const std::filesystem::path& directory, int keep) {
    CheckpointOptions options;
    options.directory = directory;
    options.keep = keep;
    return CheckpointEngine(std::move(storage), Communicator(std::make_shared<SelfBackend>()),
                            options, {});
}

inline void save_sample(std::shared_ptr<Storage> storage, const std::filesystem::path& directory,
                        std::int64_t step, std::size_t elements = 3000, int keep = 9,
                        std::optional<double> metric = {}) {
    DrainSample sample(static_cast<float>(step), elements);
    drain_engine(std::move(storage), directory, keep)
        .save(step, sample.state(), {.metric = metric});
}

/// The newest in a directory or tier, loaded and compared; nothing without one. -1: it is not what
/// was saved.
inline std::optional<std::int64_t> newest_sample(std::shared_ptr<Storage> storage,
                                                 const std::filesystem::path& directory,
                                                 std::size_t elements = 3000) {
    const auto found = find_newest(*storage, directory, INT64_MAX);
    if (!found)
        return std::nullopt;
    DrainSample sample(-1, elements);
    drain_engine(std::move(storage), directory, 9).load(*found, sample.state());
    for (const float weight : sample.weights)
        if (weight != static_cast<float>(found->step))
            return -1;
    return found->step;
}

/// What a drain said. Threads: any.
class DrainLog {
public:
    DrainEvents events() {
        return {[this](const DrainedCheckpoint& checkpoint) {
                    const std::lock_guard lock(mutex_);
                    drained_.push_back(checkpoint);
                },
                [this](const std::string& text) {
                    const std::lock_guard lock(mutex_);
                    notes_ += text + '\n';
                }};
    }
    std::vector<DrainedCheckpoint> drained() const {
        const std::lock_guard lock(mutex_);
        return drained_;
    }
    std::string notes() const {
        const std::lock_guard lock(mutex_);
        return notes_;
    }

private:
    mutable std::mutex mutex_;
    std::vector<DrainedCheckpoint> drained_;
    std::string notes_;
};

}  // namespace autolaunch::testing
