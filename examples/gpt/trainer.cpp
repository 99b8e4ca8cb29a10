#include "trainer.hpp"

#include "memory_table.hpp"
#include "sampling.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace gpt {
namespace {

namespace al = autolaunch;
namespace fs = std::filesystem;
using nlohmann::json;

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

al::fsdp::AdamWOptions optimizer_options(const TrainerConfig& config) {
    al::fsdp::AdamWOptions options;
    options.lr = config.optimizer.lr;
    options.beta1 = config.optimizer.beta1;
    options.beta2 = config.optimizer.beta2;
    options.weight_decay = config.optimizer.weight_decay;
    return options;
}

al::fsdp::ShardedModel sharded_model(const al::Communicator& world, const TrainerConfig& config) {
    al::fsdp::ShardedModelOptions options;
    options.strategy = config.sharding_strategy;
    options.shard_group = config.shard_group;
    options.precision = config.precision;
    options.offload_optimizer = config.offload_optimizer;
    al::fsdp::ShardedModel model(world, options);
    add_units(model, unit_shapes(config.model));
    return model;
}

// Left to itself the communicator takes GPUs where every rank has one, on all ranks alike.
std::string backend_for(ComputeDevice device) {
    if (device == ComputeDevice::automatic && has_cuda_module())
        return "auto";
    return device == ComputeDevice::cuda ? "nccl" : "cpu";
}

fs::path checkpoint_directory(const TrainerConfig& config, const al::Session& session) {
    return config.checkpoint.directory.empty() ? session.run_dir() / "checkpoints"
                                               : config.checkpoint.directory;
}

}  // namespace

Trainer::Trainer(al::Session& session, const TrainerConfig& config)
    : session_(&session),
      config_(config),
      text_(load_text(config.dataloader.path, config.model.context)),
      world_(al::Communicator::world(session, {.backend = backend_for(config.device)})),
      compute_(world_.backend() == "nccl", config.precision, session.info().local_rank,
               session.info().local_world_size),
      sharded_(sharded_model(world_, config)),
      optimizer_(sharded_, optimizer_options(config)) {
    if (config.dataloader.global_batch < world_.size()) {
        throw std::invalid_argument(
            "dataloader.global_batch " + std::to_string(config.dataloader.global_batch) +
            " leaves some of " + std::to_string(world_.size()) + " ranks without work");
    }
    network_ = compute_.make_network(config.model, sharded_, config.recompute);
    if (config.precision.reduce == al::f16)
        scaler_.emplace();
    if (config.checkpoint.enabled) {
        al::CheckpointOptions options;
        options.directory = checkpoint_directory(config, session);
        options.keep = config.checkpoint.keep;
        options.pass_over_unusable = config.checkpoint.pass_over_unusable;
        options.schedule.every_steps = config.step_scheduler.checkpoint_every;
        checkpointer_.emplace(session, world_, options);
    }
    plan_ = sharded_.memory_plan();
}

void Trainer::run() {
    const std::string resumed = resume();
    if (peak_.per_second == 0)
        peak_ = compute_.peak(world_);
    if (prints())
        introduce(resumed);
    train();
    if (steps_done_ == config_.step_scheduler.max_steps)
        show_result();
}

void Trainer::introduce(const std::string& resumed) const {
    const double entropy = unigram_entropy(text_.train);
    std::printf(
        "model %lld parameters: %lld layers, %lld heads, width %lld, context %lld\n",
        static_cast<long long>(sharded_.parameter_count()),
        static_cast<long long>(config_.model.layers), static_cast<long long>(config_.model.heads),
        static_cast<long long>(config_.model.width), static_cast<long long>(config_.model.context));
    std::printf(
        "text %s: %d files, %zu bytes to train on, %zu held out, unigram entropy %.3f nats\n",
        config_.dataloader.path.c_str(), text_.file_count, text_.train.size(),
        text_.validation.size(), entropy);
    std::printf("world size %d over %s, %s, %s\n", world_.size(),
                std::string(world_.backend()).c_str(), name_of(config_.sharding_strategy).data(),
                compute_.name().c_str());
    if (config_.device == ComputeDevice::automatic)
        std::printf("%s\n", why_this_device().c_str());
    if (config_.offload_optimizer && world_.backend() != "nccl")
        std::printf("offload_optimizer changes nothing: ranks are in the CPU's memory\n");
    // The world may be another one than before: the batch is not, for each sample counts alike.
    const auto& loader = config_.dataloader;
    const al::BatchShare share =
        al::share_batch(loader.global_batch, loader.micro_batch, world_.rank(), world_.size());
    std::printf("a step takes %lld sequences in %lld pass%s a rank%s%s\n",
                static_cast<long long>(loader.global_batch), static_cast<long long>(share.passes),
                share.passes == 1 ? "" : "es", share.is_even() ? "" : "; ", share.notice.c_str());
    std::printf("a token takes %.3g Mflop, peak %.4g Gflop/s (%s), memory planned %s a rank\n",
                flops_per_token(config_.model) / 1e6, peak_.per_second / 1e9, peak_.source.c_str(),
                in_bytes(static_cast<std::size_t>(plan_.total())).c_str());
    std::fputs(resumed.c_str(), stdout);
    std::fflush(stdout);
}

std::string Trainer::why_this_device() const {
    if (world_.backend() == "nccl")
        return "trainer.config.device is auto: each rank has a GPU";
    return std::string("trainer.config.device is auto: the CPU, for ") +
           (has_cuda_module() ? "not every rank has a GPU" : "this build has no CUDA");
}

std::string Trainer::memory_now() const {
    const al::BatchShare share =
        al::share_batch(config_.dataloader.global_batch, config_.dataloader.micro_batch,
                        world_.rank(), world_.size());
    const BatchShape batch{std::max<std::int64_t>(share.at_once, 1), config_.model.context};
    return memory_table(plan_, sharded_.memory(),
                        {network_->planned_bytes(batch), compute_.allocated()},
                        config_.sharding_strategy);
}

std::string Trainer::resume() {
    const auto checkpoint =
        checkpointer_ ? checkpointer_->load_latest(sharded_, optimizer_) : std::nullopt;
    if (!checkpoint) {
        // What was passed over may have been read in part.
        if (config_.checkpoint.pass_over_unusable)
            optimizer_ = al::fsdp::AdamW(sharded_, optimizer_options(config_));
        sharded_.initialize([this](const std::string& name, std::span<const std::int64_t>,
                                   std::int64_t first, std::span<float> values) {
            initial_values(config_.model, config_.seed, name, first, values);
        });
        return {};
    }
    steps_done_ = checkpoint->step;
    const auto extra = json::parse(checkpoint->extra);
    if (scaler_ && extra.contains("loss_scale")) {
        scaler_->load({extra["loss_scale"], extra["growth_tracker"], extra["skipped_steps"]});
        optimizer_.set_step_count(steps_done_ - scaler_->state().skipped_steps);
    }
    const bool same_data = extra.value("seed", config_.seed) == config_.seed &&
                           extra.value("global_batch", config_.dataloader.global_batch) ==
                               config_.dataloader.global_batch;
    // It was measured by these ranks a moment ago, which takes longer than all the rest of this.
    if (checkpoint->in_memory && extra.contains("peak"))
        peak_ = {extra["peak"], extra["peak_source"]};
    std::string notes;
    for (const std::string& reason : checkpoint->skipped)
        notes += "note: passed over " + reason + "\n";
    notes += "resumed from step " + std::to_string(steps_done_) + ", " + checkpoint->path.string() +
             "\n";
    if (!same_data)
        notes += "note: seed or global_batch differ from the checkpoint's, so other data follows\n";
    return notes;
}

void Trainer::train() {
    while (steps_done_ < config_.step_scheduler.max_steps) {
        const std::int64_t step = steps_done_ + 1;
        fail_if_asked(step);
        const StepOutcome outcome = train_step(step);
        steps_done_ = step;
        report(step, outcome);
        if (prints() && std::exchange(tells_memory_, false))
            std::printf("%s", memory_now().c_str());
        const std::int64_t every = config_.step_scheduler.evaluate_every;
        if (every > 0 && step % every == 0 && step != config_.step_scheduler.max_steps) {
            const double loss = validation_loss();
            if (prints())
                std::printf("step %lld: validation loss %.3f nats\n", static_cast<long long>(step),
                            loss);
        }
        const al::SaveReason reason = decide_after(step);
        if (checkpointer_ &&
            (reason != al::SaveReason::none || step == config_.step_scheduler.max_steps))
            save(step);
        else if (const auto often = config_.step_scheduler.copy_every;
                 checkpointer_ && often > 0 && step % often == 0)
            copy(step);
        if (!al::SaveDecision{reason}.stop())
            continue;
        if (prints()) {
            std::printf(
                "stopped at step %lld %s\n", static_cast<long long>(step),
                reason == al::SaveReason::stop ? "as asked" : "before the job's time is over");
        }
        break;
    }
    if (checkpointer_)
        checkpointer_->finish();
}

// Ranks hear of a request at different steps; both ways make it one decision.
al::SaveReason Trainer::decide_after(std::int64_t step) {
    if (checkpointer_)
        return checkpointer_->should_save(step).reason;
    return world_.any_rank(session_->stop_requested()) ? al::SaveReason::stop
                                                       : al::SaveReason::none;
}

Trainer::StepOutcome Trainer::train_step(std::int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    const auto& loader = config_.dataloader;
    const al::BatchShare share =
        al::share_batch(loader.global_batch, loader.micro_batch, world_.rank(), world_.size());
    const auto bytes = static_cast<double>(loader.global_batch * config_.model.context);
    // The optimizer divides the sum over ranks by their number; with this scale the result is the
    // gradient of the average over the global batch, even when ranks have unequal parts of it.
    const double scale = world_.size() / bytes * (scaler_ ? scaler_->scale() : 1);
    double loss = 0;
    for (std::int64_t pass = 0; pass < share.passes; ++pass) {
        // Gradients are summed by all ranks together: one that has no sample left goes along with
        // one that counts 0.
        const std::int64_t done = pass * share.at_once;
        const std::int64_t count = std::clamp<std::int64_t>(share.count - done, 0, share.at_once);
        const SampleRange part{count > 0 ? share.first + done : 0,
                               std::max<std::int64_t>(count, 1)};
        const auto batch =
            training_batch(text_.train, config_.seed, step, part, config_.model.context);
        const double sum = network_->loss_and_gradients(batch, count > 0 ? scale : 0);
        if (count > 0)
            loss += sum;
    }
    if (checkpointer_)
        checkpointer_->wait_copied();  // the state is about to change
    const auto result = step_optimizer(step);
    const double average = world_.all_reduce_value(loss) / bytes;
    return {average, result.grad_norm, seconds_since(start)};
}

al::fsdp::StepResult Trainer::step_optimizer(std::int64_t step) {
    al::fsdp::StepOptions options;
    options.lr = learning_rate(config_, step);
    options.max_grad_norm = config_.optimizer.max_grad_norm;
    return scaler_ ? scaler_->step(optimizer_, options, compute_.stream())
                   : optimizer_.step(options, compute_.stream());
}

void Trainer::report(std::int64_t step, const StepOutcome& outcome) {
    last_loss_ = outcome.loss;
    const std::int64_t tokens = config_.dataloader.global_batch * config_.model.context;
    session_->report_step({.step = step,
                           .total_steps = config_.step_scheduler.max_steps,
                           .loss = outcome.loss,
                           .tokens = tokens,
                           .seconds = outcome.seconds});
    ++unprinted_steps_;
    unprinted_seconds_ += outcome.seconds;
    if (prints() && step % config_.step_scheduler.log_every == 0)
        print_step(step, outcome);
}

void Trainer::print_step(std::int64_t step, const StepOutcome& outcome) {
    const std::int64_t tokens =
        config_.dataloader.global_batch * config_.model.context * unprinted_steps_;
    const double rate = static_cast<double>(tokens) / unprinted_seconds_;
    std::printf(
        "step %lld/%lld  loss %.6f  grad norm %.3f  %.0f tokens/s  MFU %.1f%%  memory %s + %s "
        "activations\n",
        static_cast<long long>(step), static_cast<long long>(config_.step_scheduler.max_steps),
        outcome.loss, outcome.grad_norm, rate,
        100 * rate * flops_per_token(config_.model) / peak_.per_second,
        in_bytes(sharded_.memory().total()).c_str(), in_bytes(compute_.allocated()).c_str());
    std::fflush(stdout);
    unprinted_steps_ = 0;
    unprinted_seconds_ = 0;
}

std::string Trainer::extra_state(bool of_a_copy) const {
    json extra = {{"seed", config_.seed}, {"global_batch", config_.dataloader.global_batch}};
    if (scaler_) {
        extra["loss_scale"] = scaler_->state().scale;
        extra["growth_tracker"] = scaler_->state().growth_tracker;
        extra["skipped_steps"] = scaler_->state().skipped_steps;
    }
    // A file says the same wherever it was written; a copy is for the next moment of these
    // processes.
    if (of_a_copy) {
        extra["peak"] = peak_.per_second;
        extra["peak_source"] = peak_.source;
    }
    return extra.dump();
}

void Trainer::save(std::int64_t step) {
    checkpointer_->save_async(step, sharded_, optimizer_, {.extra = extra_state(false)});
}

void Trainer::copy(std::int64_t step) {
    checkpointer_->save_to_memory(step, sharded_, optimizer_, {.extra = extra_state(true)});
}

void Trainer::fail_if_asked(std::int64_t step) const {
    const auto& info = session_->info();
    if (!config_.fail || info.generation != 0 || info.rank != config_.fail->rank ||
        step != config_.fail->step)
        return;
    std::fprintf(stderr, "raising signal %d at step %lld, as trainer.config.fail asks\n",
                 config_.fail->signal, static_cast<long long>(step));
    std::raise(config_.fail->signal);
}

double Trainer::validation_loss() {
    const auto evaluation = sharded_.evaluation();
    const std::int64_t length = config_.model.context;
    const std::int64_t windows = window_count(text_.validation, length);
    const auto share = samples_of_rank(windows, world_.rank(), world_.size());
    // Parameters are gathered by all ranks together, so one with a window less goes along with one
    // that is not counted.
    const auto largest = samples_of_rank(windows, 0, world_.size());
    double loss = 0;
    constexpr std::int64_t kWindowsAtOnce = 8;
    for (std::int64_t done = 0; done < largest.count; done += kWindowsAtOnce) {
        const std::int64_t count = std::clamp<std::int64_t>(share.count - done, 0, kWindowsAtOnce);
        const std::int64_t first = count > 0 ? share.first + done : 0;
        const auto batch =
            window_batch(text_.validation, first, std::max<std::int64_t>(count, 1), length);
        const double sum = network_->loss(batch);
        if (count > 0)
            loss += sum;
    }
    return world_.all_reduce_value(loss) / static_cast<double>(windows * length);
}

void Trainer::show_result() {
    const double validation = validation_loss();
    const double entropy = unigram_entropy(text_.train);
    if (prints() && last_loss_ > 0)
        std::printf("training loss of the last step %.3f nats per byte\n", last_loss_);
    if (prints()) {
        std::printf(
            "validation loss %.3f nats, %.3f bits per byte (single bytes alone: %.3f nats, %.3f "
            "bits)\n",
            validation, validation / std::numbers::ln2, entropy, entropy / std::numbers::ln2);
    }
    const auto sample = sample_text();
    if (prints() && !sample.empty())
        std::printf("a sample:\n%s\n", printable(sample).c_str());
    std::fflush(stdout);
}

std::vector<std::uint8_t> Trainer::sample_text() {
    const auto evaluation = sharded_.evaluation();
    const std::vector<std::uint8_t> prompt = {'T', 'h', 'e', ' '};
    // Every rank draws the same bytes: it has the same seed, and the parameters are gathered by all
    // together.
    return continue_text(
        [this](std::span<const std::uint8_t> text) { return network_->next_logits(text); },
        config_.model.context, prompt, config_.sample_bytes, config_.temperature, config_.seed);
}

}  // namespace gpt
