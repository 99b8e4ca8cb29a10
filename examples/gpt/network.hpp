#pragma once
#include "model.hpp"
#include "sharded_parameters.hpp"
#include "text_data.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gpt {

/// A model, what it computes with and where its parameters are: all that training needs of it,
/// whatever the type and the device of its numbers. Every call is collective.
class Network {
public:
    virtual ~Network() = default;
    /// Sum of the cross-entropy over this rank's batch, in nats; adds `scale` times its gradient.
    virtual double loss_and_gradients(const Batch& batch, double scale) = 0;
    /// Without gradients; inside ShardedModel::evaluation().
    virtual double loss(const Batch& batch) = 0;
    /// Logits of what follows the text; inside ShardedModel::evaluation().
    virtual std::vector<float> next_logits(std::span<const std::uint8_t> text) = 0;
    /// Bytes of what loss_and_gradients() keeps of such a batch on this rank.
    virtual std::size_t planned_bytes(const BatchShape& shape) const = 0;
};

template <class T>
class NetworkOf final : public Network {
public:
    NetworkOf(const ModelConfig& config, Math<T>& math, autolaunch::fsdp::ShardedModel& sharded,
              int recompute = 0)
        : math_(&math),
          parameters_(sharded, unit_shapes(config), math),
          model_(config, math, recompute) {}

    double loss_and_gradients(const Batch& batch, double scale) override {
        return model_.loss_and_gradients(parameters_, batch.shape, batch.tokens, batch.targets,
                                         static_cast<Statistic<T>>(scale));
    }
    double loss(const Batch& batch) override {
        return model_.loss(parameters_, batch.shape, batch.tokens, batch.targets);
    }
    std::vector<float> next_logits(std::span<const std::uint8_t> text) override {
        const auto logits = model_.forward_last(parameters_, text);
        std::vector<T> raw(logits.size());
        math_->download(logits.data(), raw.data(), logits.size_bytes());
        std::vector<float> values;
        for (const T logit : raw)
            values.push_back(static_cast<float>(logit));
        return values;
    }
    std::size_t planned_bytes(const BatchShape& shape) const override {
        return model_.planned_bytes(shape) + parameters_.planned_bytes();
    }

private:
    Math<T>* math_;
    ShardedParameters<T> parameters_;
    Model<T> model_;
};

}  // namespace gpt
