#include "base/hash.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/checkpoint_engine.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/commit/usable.hpp"
#include "checkpoint/format/opaque_tensors.hpp"
#include "checkpoint/format/read_plan.hpp"
#include "checkpoint/place/place.hpp"
#include "checkpoint/state_rules.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch {

namespace {

// What ranks of a node must agree about to share blocks.
std::uint64_t hash_of_names(const fsdp::State& state) {
    std::string text;
    for (const auto& tensor : state)
        text += tensor.name + (tensor.replicated ? "\tr\n" : "\ts\n");
    return hash64(text.data(), text.size());
}

// With the first clause of the hint, which says how it came; what to do is for whoever tells it.
std::string reason_of(const Error& error) {
    const std::string how = error.hint().substr(0, error.hint().find(';'));
    return error.what() + (how.empty() ? "" : ": " + how);
}

[[noreturn]] void throw_not_passed_over(const CheckpointInfo& checkpoint, const Error& error) {
    const std::string name = checkpoint.path.filename().string();
    throw Error(error.code(), error.what(),
                name +
                    " is not known to be damaged, so none older is taken for it. Mend what keeps "
                    "it from being read, or move it elsewhere. To go on without it set "
                    "pass_over_unusable (CheckpointOptions)");
}

}  // namespace

std::vector<std::string> CheckpointEngine::load(const CheckpointInfo& checkpoint,
                                                const fsdp::State& state,
                                                const LoadOptions& options) {
    together(world_, [&] { require_valid(state); });
    require_equal(world_, hash_of_names(state), "the ranks load tensors of different names");
    const auto published = place_->open(checkpoint);
    ReadPlan plan;
    together(world_, [&] {
        plan = plan_loading(published->manifest(), state,
                            {.cast = options.cast, .allow_missing = options.allow_missing});
    });
    published->read(plan.parts);
    return plan.missing;
}

std::optional<CheckpointInfo> CheckpointEngine::load_latest(const fsdp::State& state,
                                                            const LoadOptions& options) {
    std::vector<UnusableCheckpoint> damaged;
    auto found = latest(INT64_MAX);
    while (found) {
        try {
            load(*found, state, options);
            return found;
        } catch (const Error& error) {
            // The same on all ranks: a code travels, an errno does not.
            const bool cannot_read = error.code() == ErrorCode::system;
            if (!options.fall_back || (error.code() != ErrorCode::corrupt && !cannot_read))
                throw;
            if (cannot_read && !options_.pass_over_unusable)
                throw_not_passed_over(*found, error);
            damaged.insert(damaged.begin(), {found->step, checkpoint_name(found->step),
                                             cannot_read ? Unusable::unreadable : Unusable::damaged,
                                             reason_of(error)});
        }
        found = place_->latest({.before = found->step}, damaged);
    }
    return std::nullopt;
}

std::vector<std::string> CheckpointEngine::load_opaque(const CheckpointInfo& checkpoint,
                                                       const std::string& name) {
    const auto published = place_->open(checkpoint);
    const auto tensors = find_opaque(published->manifest(), name);
    std::vector<std::string> values(tensors.size());
    ReadPlan plan;
    together(world_, [&] {
        if (world_.rank() != 0)
            return;
        fsdp::State state;
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            const std::int64_t bytes = tensors[i]->element_count();
            values[i].resize(static_cast<std::size_t>(bytes));
            state.push_back({tensors[i]->name, DataType::u8, tensors[i]->shape, {}, false});
            if (bytes > 0)
                state.back().pieces = {{0, bytes, reinterpret_cast<std::byte*>(values[i].data())}};
        }
        plan = plan_loading(published->manifest(), state);
    });
    published->read_alone(plan.parts);
    for (std::string& value : values)
        value = broadcast_text(world_, value, 0);
    return values;
}

}  // namespace autolaunch
