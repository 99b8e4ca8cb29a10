#pragma once
#include "metered_backend.hpp"

#include <gpt/cpu_math.hpp>
#include <gpt/model.hpp>
#include <gpt/sharded_parameters.hpp>
#include <gpt/text_data.hpp>
#include <gpt/thread_pool.hpp>

#include <autolaunch/autolaunch.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::bench {

/// What all contestants share: the model, its data and how it is trained.
struct StepWork {
    gpt::ModelConfig model;
    std::int64_t sequences = 1;  ///< of each rank
    int threads = 1;
    std::uint64_t seed = 1;
    double lr = 1e-3;
    double max_grad_norm = 1.0;
    std::vector<std::uint8_t>
        tokens;  ///< windows of context + 1 bytes; a step takes a run of them, rank after rank
};

/// A ShardedModel in training, and what its steps take. Owner: the bench. Threads: one. Collective.
class StepContestant {
public:
    StepContestant(Communicator& world, const fsdp::ShardedModelOptions& options,
                   const StepWork& work, gpt::ThreadPool& pool);

    /// A step as a trainer takes it: forward, backward, optimizer, the loss over all ranks; returns
    /// that.
    double train();

    struct Times {  // seconds, of the slowest rank
        double step = 0;
        double silent = 0;        ///< the same without any communication
        CallMeter::Totals alone;  ///< the step's collectives with nothing beside them
    };
    /// Of one step each. The one with communication follows another at once: a step may begin the
    /// next one's gathers.
    Times measure();
    struct IdleTimes {
        double step = 0, silent = 0;
    };
    /// The same schedule, where each unit's computation leaves the CPUs alone for as long as it
    /// took in measure(), as an accelerator's would. The optimizer computes.
    IdleTimes measure_idle();

    fsdp::ModelMemory memory() const { return model_.memory(); }

private:
    class Timed;
    class Queue;
    struct UnitTimes {
        double forward = 0, backward = 0;  ///< seconds, the least seen
    };
    gpt::Batch next_batch();
    double compute();
    void update();
    void idle();
    /// No call is under way, and nothing is gathered.
    void settle();
    void silence(bool silent);
    template <class Body>
    double timed(Body body);

    const StepWork& work_;
    Communicator& world_;
    std::shared_ptr<CallMeter> meter_ = std::make_shared<CallMeter>();
    Communicator metered_;
    fsdp::ShardedModel model_;
    gpt::CpuMath<float> math_;
    gpt::ShardedParameters<float> parameters_;
    gpt::Model<float> trained_;
    fsdp::AdamW optimizer_;
    bool overlaps_;
    std::vector<UnitTimes> times_;
    std::int64_t steps_ = 0;
};

}  // namespace autolaunch::bench
