#pragma once
#include "compute.hpp"
#include "network.hpp"
#include "text_data.hpp"
#include "trainer_config.hpp"

#include <autolaunch/autolaunch.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// One rank's part of the training: resumes from the newest checkpoint, trains, saves, and shows at
/// the end what was learned. Only rank 0 prints.
///
/// Threads: one, plus the pool's. Blocks: in collectives, at most the communicator's timeout.
/// Throws what they throw.
class Trainer {
public:
    Trainer(autolaunch::Session& session, const TrainerConfig& config);
    void run();

private:
    struct StepOutcome {
        double loss = 0;  ///< average over the whole global batch, in nats per byte
        double grad_norm = 0;
        double seconds = 0;
    };

    bool prints() const { return session_->rank() == 0; }
    void introduce(const std::string& resumed) const;
    std::string why_this_device() const;
    /// Planned, and as it is once a step was taken.
    std::string memory_now() const;
    /// What there is to say of it.
    std::string resume();
    void train();
    StepOutcome train_step(std::int64_t step);
    autolaunch::fsdp::StepResult step_optimizer(std::int64_t step);
    void report(std::int64_t step, const StepOutcome& outcome);
    void print_step(std::int64_t step, const StepOutcome& outcome);
    /// Whether to save after this step, and to stop; the same on every rank.
    autolaunch::SaveReason decide_after(std::int64_t step);
    std::string extra_state(bool of_a_copy) const;
    /// Begins to; the state is copied and written while the next steps compute.
    void save(std::int64_t step);
    /// In memory, whole when it returns.
    void copy(std::int64_t step);
    void fail_if_asked(std::int64_t step) const;
    double validation_loss();
    std::vector<std::uint8_t> sample_text();
    void show_result();

    autolaunch::Session* session_;
    TrainerConfig config_;
    TextData text_;
    autolaunch::Communicator world_;
    Compute compute_;
    autolaunch::fsdp::ShardedModel sharded_;
    autolaunch::fsdp::AdamW optimizer_;
    std::unique_ptr<Network> network_;
    std::optional<autolaunch::fsdp::GradScaler> scaler_;  ///< where gradients travel in f16
    std::optional<autolaunch::Checkpointer> checkpointer_;
    Peak peak_;                          ///< of all ranks together
    autolaunch::fsdp::MemoryPlan plan_;  ///< of this rank
    std::int64_t steps_done_ = 0;
    bool tells_memory_ = true;  ///< after the first step
    double last_loss_ = 0;
    std::int64_t unprinted_steps_ = 0;  ///< since the last printed line
    double unprinted_seconds_ = 0;
};

}  // namespace gpt
