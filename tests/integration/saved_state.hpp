#pragma once
// A state that says which save it is of: one tensor that is cut over the ranks, and a counter that
// all have.
#include "checkpoint/checkpoint_engine.hpp"
#include "fsdp_ranks.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::testing {

struct SavedState {
    SavedState(Communicator& world, std::int64_t elements_a_rank)
        : rank(world.rank()),
          size(world.size()),
          values(static_cast<std::size_t>(elements_a_rank)) {}

    void set(std::int64_t step) {
        std::fill(values.begin(), values.end(), static_cast<float>(step));
        counter = step;
    }
    /// The step that all of it is of; nothing when it is mixed.
    std::optional<std::int64_t> step() const {
        for (const float value : values)
            if (value != static_cast<float>(counter))
                return std::nullopt;
        for (const float value : frozen)
            if (value != kFrozen)
                return std::nullopt;
        return counter;
    }
    /// From now on it has a tensor that stays the same, too.
    void add_frozen(std::size_t elements) { frozen.assign(elements, kFrozen); }
    fsdp::State state() {
        const auto count = static_cast<std::int64_t>(values.size());
        fsdp::State state = {
            {"w",
             f32,
             {size * count},
             {{rank * count, count, reinterpret_cast<std::byte*>(values.data())}},
             false},
            {"n", i64, {1}, {{0, 1, reinterpret_cast<std::byte*>(&counter)}}, true}};
        const auto fixed = static_cast<std::int64_t>(frozen.size());
        auto* data = reinterpret_cast<std::byte*>(frozen.data());
        if (fixed > 0)
            state.push_back(
                {"f", f32, {size * fixed}, {{rank * fixed, fixed, data}}, false, 0, true});
        return state;
    }
    static constexpr float kFrozen = 0.5f;

    std::int64_t rank, size;
    std::vector<float> values;
    std::int64_t counter = 0;
    std::vector<float> frozen;
};

/// An engine on this machine's files that keeps what it reports.
struct RecordedEngine {
    RecordedEngine(Communicator& world, const CheckpointOptions& options,
                   WriterIdentity identity = {},
                   std::shared_ptr<Storage> storage = make_posix_storage(),
                   std::chrono::milliseconds progress_every = std::chrono::seconds(10))
        : engine(std::move(storage), world, options,
                 {[this](std::int64_t step, const std::filesystem::path&, double stall) {
                      published.emplace_back(step, stall);
                  },
                  [this](const std::string& text) { notes.push_back(text); }, progress_every},
                 std::move(identity)) {}

    CheckpointEngine* operator->() { return &engine; }
    /// The step of the newest checkpoint, which must be whole; nothing without one.
    std::optional<std::int64_t> newest(SavedState& state) {
        const auto found = engine.latest(INT64_MAX);
        if (!found)
            return std::nullopt;
        engine.load(*found, state.state());
        fsdp::testing::expect(state.step() == found->step, "the checkpoint is of one step");
        return found->step;
    }

    std::vector<std::pair<std::int64_t, double>> published;  // read them after finish()
    std::vector<std::string> notes;
    CheckpointEngine engine;
};

}  // namespace autolaunch::testing
