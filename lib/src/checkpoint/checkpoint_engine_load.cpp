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

#include <exception>
#include <utility>

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

// Whether another checkpoint may do where this one fails. A copy in memory only fits the state that
// it is of. The same on all ranks: a code travels, an errno does not.
bool another_may_do(const Error& error, const CheckpointInfo& failed) {
    return error.code() == ErrorCode::corrupt ||
           error.code() == (failed.in_memory ? ErrorCode::mismatch : ErrorCode::system);
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
    tell_loaded(*published);
    return plan.missing;
}

void CheckpointEngine::tell_loaded(const PublishedCheckpoint& checkpoint) const {
    if (world_.rank() == 0 && events_.loaded)
        events_.loaded(checkpoint.manifest().step, checkpoint.path());
}

std::optional<CheckpointInfo> CheckpointEngine::latest(
    std::int64_t before, const std::optional<CheckpointInfo>& at_hand) {
    const auto found = place_->latest({before, at_hand ? at_hand->step : -1}, {{}, at_hand});
    if (before == INT64_MAX)
        note_start(found);
    return found;
}

// By this generation's first look: what earlier ones publish from here on counts for nobody. Not in
// a directory that another job writes, of which this one only reads.
void CheckpointEngine::note_start(const std::optional<CheckpointInfo>& found) {
    const WriterIdentity& self = fence_.identity();
    if (std::exchange(has_looked_, true) || self.run_id.empty() || self.generation == 0)
        return;
    together(world_, [&] {
        if (!place_->leads())
            return;
        try {
            if (!fence_.is_of_others())
                write_start(*storage_, options_.directory,
                            {self, found ? std::optional(found->step) : std::nullopt});
        } catch (const Error& error) {
            note(std::string("what an earlier generation publishes late is not told from other "
                             "checkpoints: ") +
                 error.what());
        }
    });
}

// A file that could not be read is for choose_checkpoint() to judge, as one that could not be
// opened is.
std::optional<CheckpointInfo> CheckpointEngine::load_latest(const fsdp::State& state,
                                                            const LoadOptions& options,
                                                            const CopiesInMemory& copies) {
    KnownCheckpoints known;
    std::exception_ptr misfit;  // of a copy in memory
    if (copies.latest)
        known.at_hand = copies.latest(INT64_MAX);
    StepRange range;
    for (;;) {
        range.above = known.at_hand ? known.at_hand->step : -1;
        const auto found = place_->latest(range, known);
        note_start(found);
        if (!found)
            break;
        try {
            if (found->in_memory)
                copies.load(*found);
            else
                load(*found, state, options);
            return found;
        } catch (const Error& error) {
            if (!options.fall_back || !another_may_do(error, *found))
                throw;
            if (found->in_memory) {
                note("passed over the copies in memory of step " + std::to_string(found->step) +
                     ": " + error.what());
                misfit = std::current_exception();
                known.at_hand = copies.latest(found->step);
                continue;
            }
            known.add(*found, options_.directory,
                      error.code() == ErrorCode::system ? Unusable::unreadable : Unusable::damaged,
                      reason_of(error));
        }
    }
    if (misfit)
        std::rethrow_exception(misfit);
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
    tell_loaded(*published);
    for (std::string& value : values)
        value = broadcast_text(world_, value, 0);
    return values;
}

}  // namespace autolaunch
