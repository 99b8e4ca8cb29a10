#include "fsdp/adamw_kernel.hpp"
#include "fsdp/engine.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/adamw.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace autolaunch::fsdp {

namespace {

// A run of elements that share one decay factor.
struct Run {
    std::int64_t shard_offset = 0;
    std::int64_t count = 0;
    bool decays = false;
};

// One unit's optimizer state, laid out as its shard.
struct Moments {
    OptimizerShard* shard = nullptr;
    AlignedBuffer exp_avg;
    AlignedBuffer exp_avg_sq;
    std::vector<Run> runs;
};

AlignedBuffer zeroed(std::size_t elements) {
    AlignedBuffer buffer(elements * sizeof(float));
    std::memset(buffer.data(), 0, buffer.bytes());
    return buffer;
}

void require_valid(const AdamWOptions& options) {
    const auto reject = [](const std::string& what) { throw Error(ErrorCode::invalid_argument, "AdamW: " + what); };
    if (!(options.lr >= 0)) reject("lr is negative");
    if (!(options.beta1 >= 0 && options.beta1 < 1)) reject("beta1 is not in [0, 1)");
    if (!(options.beta2 >= 0 && options.beta2 < 1)) reject("beta2 is not in [0, 1)");
    if (!(options.eps >= 0)) reject("eps is negative");
    if (!(options.weight_decay >= 0)) reject("weight_decay is negative");
}

}  // namespace

class AdamW::Impl {
public:
    Impl(ShardedModel& model, const AdamWOptions& given) : options(given) {
        require_valid(options);
        if (!options.decays)
            options.decays = [](const ParameterSpec& parameter) { return parameter.shape.size() >= 2; };
        engine = &model.units().front()->impl().engine();
        engine->require_finalized("AdamW");
        for (OptimizerShard* shard : engine->optimizer_shards()) add(*shard);
    }

    void add(OptimizerShard& shard) {
        Moments moments{&shard, zeroed(shard.elements), zeroed(shard.elements), {}};
        for (const auto& run : shard.runs)
            moments.runs.push_back({run.shard_offset, run.count, options.decays(*run.parameter)});
        all_moments.push_back(std::move(moments));
    }

    /// Of the summed gradients of the whole model. Padding is zero.
    double gradient_norm() {
        double sum = 0;
        for (const Moments& moments : all_moments) {
            const OptimizerShard& shard = *moments.shard;
            if (shard.has_gradient) sum += sum_of_squares(static_cast<const float*>(shard.gradient), shard.elements);
        }
        return std::sqrt(engine->sum_over_shards(sum, "gradient norm"));
    }

    static void update(const Moments& moments, const AdamWFactors& decaying, const AdamWFactors& plain) {
        const auto* gradient = static_cast<const float*>(moments.shard->gradient);
        auto* master = static_cast<float*>(moments.shard->master);
        for (const Run& run : moments.runs) {
            const std::int64_t at = run.shard_offset;
            adamw_update(run.decays ? decaying : plain, gradient + at, master + at, moments.exp_avg.floats() + at,
                         moments.exp_avg_sq.floats() + at, static_cast<std::size_t>(run.count));
        }
    }

    StepResult step(const StepOptions& step_options);

    AdamWOptions options;
    Engine* engine = nullptr;
    std::vector<Moments> all_moments;
    std::int64_t steps = 0;
};

StepResult AdamW::Impl::step(const StepOptions& step_options) {
    if (step_options.micro_batches < 1) throw Error(ErrorCode::invalid_argument, "micro_batches is not positive");
    engine->begin_step();
    const double average = 1.0 / (static_cast<double>(engine->world.size()) * step_options.micro_batches);
    StepResult result;
    result.grad_norm = gradient_norm() * average;
    double clip = 1.0;
    if (step_options.max_grad_norm) clip = std::min(1.0, *step_options.max_grad_norm / (result.grad_norm + 1e-6));
    if (std::isnan(result.grad_norm) && step_options.max_grad_norm) clip = result.grad_norm;  // as torch: not hidden
    ++steps;
    const auto factors = [&](double weight_decay) {
        return adamw_factors(step_options.lr.value_or(options.lr), options.beta1, options.beta2, options.eps,
                             weight_decay, steps, average * clip);
    };
    const AdamWFactors decaying = factors(options.weight_decay);
    const AdamWFactors plain = factors(0);
    for (const Moments& moments : all_moments) {
        if (moments.shard->has_gradient) update(moments, decaying, plain);
    }
    engine->end_step();
    return result;
}

AdamW::AdamW(ShardedModel& model, const AdamWOptions& options) {
    if (model.units().empty()) throw Error(ErrorCode::invalid_argument, "AdamW needs a model with units");
    impl_ = std::make_unique<Impl>(model, options);
}

AdamW::AdamW(AdamW&&) noexcept = default;
AdamW::~AdamW() = default;

StepResult AdamW::step(const StepOptions& options, Stream stream) {
    require_cpu(stream);
    return impl_->step(options);
}

std::int64_t AdamW::step_count() const noexcept { return impl_->steps; }
void AdamW::set_step_count(std::int64_t steps) noexcept { impl_->steps = steps; }

State AdamW::state() {
    State state;
    for (const Moments& moments : impl_->all_moments) {
        moments.shard->append_state(state, moments.exp_avg.data(), DataType::f32, ".exp_avg");
        moments.shard->append_state(state, moments.exp_avg_sq.data(), DataType::f32, ".exp_avg_sq");
    }
    return state;
}

}  // namespace autolaunch::fsdp
