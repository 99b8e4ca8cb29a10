#include "step_contestant.hpp"

#include "seconds_since.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

namespace autolaunch::bench {

namespace {

constexpr std::size_t kGatherSlots = 2;  // of ShardedModelOptions, by default

using Clock = std::chrono::steady_clock;

fsdp::AdamWOptions optimizer_options(const StepWork& work) {
    fsdp::AdamWOptions options;
    options.lr = work.lr;
    options.beta1 = 0.9;
    options.beta2 = 0.95;
    options.weight_decay = 0.1;
    options.threads = work.threads;
    return options;
}

fsdp::ShardedModel& with_units(fsdp::ShardedModel& model, const StepWork& work) {
    gpt::add_units(model, gpt::unit_shapes(work.model));
    return model;
}

}  // namespace

/// Notes how long a unit is used for.
class StepContestant::Timed : public gpt::ParameterSource<float> {
public:
    Timed(gpt::ShardedParameters<float>& inner, std::vector<UnitTimes>& times)
        : inner_(inner), times_(times) {}
    void forward(std::size_t unit, const Forward& use) override {
        inner_.forward(unit, [&](const auto& parameters) {
            const auto begin = Clock::now();
            use(parameters);
            keep_least(times_[unit].forward, seconds_since(begin));
        });
    }
    void backward(std::size_t unit, const Backward& use) override {
        inner_.backward(unit, [&](const auto& parameters, const auto& gradients) {
            const auto begin = Clock::now();
            use(parameters, gradients);
            keep_least(times_[unit].backward, seconds_since(begin));
        });
    }
    void backward_part(std::size_t unit, const Backward& use) override {
        inner_.backward_part(unit, use);
    }

private:
    static void keep_least(double& least, double seconds) {
        least = least > 0 ? std::min(least, seconds) : seconds;
    }
    gpt::ShardedParameters<float>& inner_;
    std::vector<UnitTimes>& times_;
};

StepContestant::StepContestant(Communicator& world, const fsdp::ShardedModelOptions& options,
                               const StepWork& work, gpt::ThreadPool& pool)
    : work_(work),
      world_(world),
      metered_(metered(world, meter_)),
      model_(metered_, options),
      math_(pool),
      parameters_(model_, gpt::unit_shapes(work.model), math_),
      trained_(work.model, math_),
      optimizer_(with_units(model_, work), optimizer_options(work)),
      overlaps_(options.overlap.value_or(true)),
      times_(gpt::unit_shapes(work.model).size()) {
    model_.initialize([&](const std::string& name, std::span<const std::int64_t>,
                          std::int64_t first, std::span<float> values) {
        gpt::initial_values(work.model, work.seed, name, first, values);
    });
}

gpt::Batch StepContestant::next_batch() {
    const std::int64_t length = work_.model.context;
    const auto windows = static_cast<std::int64_t>(work_.tokens.size()) / (length + 1);
    gpt::Batch batch;
    batch.shape = {work_.sequences, length};
    for (std::int64_t i = 0; i < work_.sequences; ++i) {
        const std::int64_t sequence =
            (steps_ * world_.size() + world_.rank()) * work_.sequences + i;
        const std::uint8_t* window = work_.tokens.data() + sequence % windows * (length + 1);
        batch.tokens.insert(batch.tokens.end(), window, window + length);
        batch.targets.insert(batch.targets.end(), window + 1, window + 1 + length);
    }
    ++steps_;
    return batch;
}

double StepContestant::compute() {
    const auto batch = next_batch();
    const auto rows = static_cast<double>(batch.shape.rows());
    Timed timed_parameters(parameters_, times_);
    const double loss = trained_.loss_and_gradients(timed_parameters, batch.shape, batch.tokens,
                                                    batch.targets, static_cast<float>(1 / rows));
    return loss / rows;
}

void StepContestant::update() {
    fsdp::StepOptions options;
    if (work_.max_grad_norm > 0)
        options.max_grad_norm = work_.max_grad_norm;
    optimizer_.step(options);
}

template <class Body>
double StepContestant::timed(Body body) {
    const auto begin = Clock::now();
    body();
    return world_.all_reduce_value(seconds_since(begin), ReduceOp::max);
}

double StepContestant::train() {
    const double loss = compute();
    update();
    return metered_.all_reduce_value(loss) / world_.size();
}

void StepContestant::settle() {
    model_.refresh_parameters();
    world_.barrier();
}

void StepContestant::silence(bool silent) {
    settle();
    meter_->silence(silent);
}

StepContestant::Times StepContestant::measure() {
    Times times;
    settle();
    meter_->record(true);
    train();
    times.step = timed([&] { train(); });
    settle();
    meter_->record(false);
    times.alone = meter_->replay(world_, overlaps_ ? kGatherSlots : 0);
    silence(true);
    times.silent = timed([&] { train(); });
    silence(false);
    return times;
}

/// An accelerator's queue: what was put on it goes on by itself, whenever the CPU comes to look. A
/// unit's computation begins when the one before is over and what it needs is there.
class StepContestant::Queue {
public:
    /// The CPU asks for what the next computation needs.
    void ask() { blocked_ = times_blocked(); }
    /// The CPU has it. Returns when the computation is over.
    void compute(double seconds) {
        if (times_blocked() != blocked_)
            over_ = std::max(over_, Clock::now());  // it had to be waited for
        over_ +=
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
        std::this_thread::sleep_until(over_);
    }

private:
    // Of this thread. It does not count when others took the CPU away, as the lanes do where a rank
    // has one.
    static long times_blocked() {
        rusage usage{};
        ::getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_nvcsw;
    }
    Clock::time_point over_ = Clock::now();
    long blocked_ = 0;
};

void StepContestant::idle() {
    Queue queue;
    const std::size_t units = times_.size();
    for (std::size_t unit = 0; unit + 1 < units; ++unit) {
        queue.ask();
        parameters_.forward(unit, [&](const auto&) { queue.compute(times_[unit].forward); });
    }
    for (std::size_t unit = units; unit-- > 0;) {
        queue.ask();
        parameters_.backward(
            unit, [&](const auto&, const auto&) { queue.compute(times_[unit].backward); });
    }
    // Ranks update side by side, with communication or without, and share the memory's bandwidth.
    world_.barrier();
    update();
    metered_.all_reduce_value(0.0);
}

StepContestant::IdleTimes StepContestant::measure_idle() {
    IdleTimes times;
    settle();
    idle();
    times.step = timed([&] { idle(); });
    silence(true);
    times.silent = timed([&] { idle(); });
    silence(false);
    return times;
}

}  // namespace autolaunch::bench
