#pragma once
#include "fsdp/bucket.hpp"
#include "fsdp/communicator_watch.hpp"
#include "fsdp/model_device.hpp"
#include "fsdp/optimizer_shard.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::fsdp {

/// A sharded model as its optimizer sees it: this rank's shards, where they are, and the brackets
/// of a step. Owner: the model, at a fixed address. Threads: the trainer's. Blocks: in collectives,
/// at most the communicator's timeout.
class OptimizedModel {
public:
    OptimizedModel(const OptimizedModel&) = delete;
    OptimizedModel& operator=(const OptimizedModel&) = delete;

    virtual Communicator& world() noexcept = 0;
    virtual const ShardedModelOptions& options() const noexcept = 0;
    virtual ModelDevice& device() noexcept = 0;
    /// The trainer's, as its latest call gave it.
    virtual Stream stream() const noexcept = 0;
    /// The stream is what the trainer's work is on from here on. Throws Error{unsupported} for one
    /// of elsewhere.
    virtual void use_stream(Stream given) = 0;

    /// Throws Error{invalid_argument} before finalize().
    virtual void require_finalized(const char* doing) const = 0;
    /// Collective. Throws Error{mismatch} with this text on every rank when the ranks' values
    /// differ.
    virtual void require_equal(std::uint64_t value, const std::string& what,
                               const std::string& hint) = 0;
    /// Throws what a call on a lane or on a stream failed with.
    virtual void check_calls() = 0;
    /// Of the model's communicators, for state that is on its way to the CPU.
    virtual std::shared_ptr<const CommunicatorWatch> calls() const = 0;

    /// Where optimizers count the bytes of their state; one that outlives the model counts for
    /// nobody.
    virtual std::shared_ptr<std::size_t> optimizer_bytes() = 0;
    /// In the order of their gathers.
    virtual std::vector<Bucket*> trainable_buckets() = 0;
    /// Of the trainable buckets' members, in this order.
    virtual std::vector<OptimizerShard*> optimizer_shards() = 0;

    /// Collective, first thing in a step: gradients are whole sums from here on. Throws
    /// Error{invalid_argument} when parameters are unsharded or gradients not yet reduced.
    virtual void begin_step() = 0;
    /// The values summed over the ranks that hold different shards; themselves where every rank
    /// holds everything.
    virtual void sum_over_shards(std::span<double> values, std::string_view what) = 0;
    /// The same on the stream, of values on the GPU.
    virtual void sum_over_shards_on_stream(double* values, std::size_t count,
                                           std::string_view what) = 0;
    /// Collective, between begin_step() and end_step(), where the gradients turned out not to be
    /// finite: when any rank's own gradient had a NaN or an infinity before it was summed, throws
    /// Error{invalid_argument} on every rank, naming the first such rank, its unit and parameter.
    /// Returns when none had, or when ranks do not look (ShardedModelOptions::find_nonfinite).
    virtual void require_finite_contributions() = 0;
    /// Last thing in a step: gradients are used up, and parameters are gathered anew.
    virtual void end_step() = 0;

protected:
    OptimizedModel() = default;
    ~OptimizedModel() = default;
};

/// Of a model that has units.
OptimizedModel& optimized(ShardedModel& model);

}  // namespace autolaunch::fsdp
