#pragma once
#include <autolaunch/cxx20.hpp>

#include <torch/nn/module.h>
#include <autolaunch/borrowed.hpp>
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/module_units.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>
#include <autolaunch/torch/parameter_memory.hpp>
#include <autolaunch/torch/torch_engine.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::fsdp {

struct TorchModelOptions {
    ShardedModelOptions sharding = {};
    /// Which submodules are units: paths, "*" stands for one name: {"blocks.*"}. Empty: what is in
    /// the outermost ModuleLists and Sequentials, so one unit a layer. Other parameters go with the
    /// root's child that they are in.
    std::vector<std::string> units = {};
    /// Everybody starts with rank 0's values. false: each rank's own, which the trainer made equal.
    bool broadcast = true;
};

/// A torch::nn::Module whose parameters, gradients and optimizer state are cut over ranks. The
/// module stays as it is and is called as ever:
///
///     fsdp::TorchModel model(world, module, {.sharding = {.strategy =
///     fsdp::ShardingStrategy::full_shard}}); fsdp::AdamW optimizer(model.sharded(), {.lr = 3e-4});
///     ...
///     loss_of(module->forward(x), y).backward();
///     optimizer.step({.max_grad_norm = 1.0});
///
/// A unit is gathered when the first operator uses one of its parameters, into memory that these
/// then point to, and resharded when an operator uses another unit's, or its last gradient came.
/// Gradients are added in the unit's whole gradient, which param.grad() is a view of; when all of a
/// unit's are there their reduction starts beside the rest of backward, and param.grad() is
/// undefined again. In what a graph has no path to, gradients are zeros.
///
/// What torch and this differ in:
/// - Parameters have values only inside operators and whole(): no data_ptr(), no accessor(), no
/// torch::save elsewhere.
/// - module->to(), new parameters and requires_grad_() come before, not after.
/// - Every rank runs the same units in the same order, each step as in the first; other passes go
/// inside evaluation().
///   A pass forward that no backward follows is one.
/// - A tied parameter is one that is the same tensor in several modules; one unit has it. Buffers
/// are whole on each rank.
/// - The optimizer is this library's. No double backward, no torch::autograd::grad() of parameters.
///
/// Owner: the trainer. Threads: one, and those that autograd runs backward in. Blocks: where
/// operators and backward need a unit, in collectives, at most the communicator's timeout; what
/// these throw is thrown there. CPU memory only: throws Error{unsupported} for a communicator of
/// GPUs and for parameters elsewhere, and for types but f32, bf16 and f16.
class TorchModel {
public:
    using NoSync = detail::TorchEngine::NoSync;
    using Evaluation = detail::TorchEngine::Evaluation;

    /// Collective. Takes the values from the module, whose memory is then the sharded model's.
    /// Precision::param becomes the parameters' type, so inputs must be of it.
    TorchModel(Communicator world, std::shared_ptr<::torch::nn::Module> module,
               const TorchModelOptions& options = {})
        : engine_(std::make_shared<detail::TorchEngine>(std::move(world), std::move(module),
                                                        options.sharding, options.units,
                                                        options.broadcast)) {
        engine_->watch_gradients();
    }
    TorchModel(TorchModel&&) noexcept = default;
    TorchModel& operator=(TorchModel&&) noexcept = default;

    /// What optimizers want.
    ShardedModel& sharded() & noexcept { return engine_->sharded(); }
    ShardedModel& sharded() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    ::torch::nn::Module& module() & noexcept { return engine_->module(); }
    ::torch::nn::Module& module() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;

    /// While it lives, backward adds up gradients and nothing is reduced: for all micro-batches of
    /// a step but the last. Costs the whole gradients' memory. Without it each micro-batch is
    /// reduced, and costs none.
    [[nodiscard]] NoSync no_sync() { return NoSync(engine_); }
    /// For passes without backward: while it lives, units are gathered in any order.
    [[nodiscard]] Evaluation evaluation() { return Evaluation(engine_); }
    /// The same, and all parameters are whole: for torch::save, or a look at values. Collective.
    [[nodiscard]] Evaluation whole() { return Evaluation(engine_).with_all(); }
    /// Gives back what a pass without backward left whole.
    void reshard() { engine_->close_unheld(); }
    /// Gives up the step under way, as ShardedModel::discard_step() does. Collective.
    void discard_step() { engine_->discard_step(); }

    /// For a Checkpointer, which takes this as it takes a ShardedModel: parameters by the module's
    /// names for them, the root's own as "root.<name>", and buffers, as copies of this moment. A
    /// buffer that ranks have made different is saved as one of them has it.
    State state() & { return engine_->state(); }
    State state() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    Arrangement arrangement() const { return engine_->sharded().arrangement(); }
    /// After somebody wrote to the last state()'s memory, as a Checkpointer does, which calls this
    /// by itself.
    void refresh_parameters() { engine_->refresh_parameters(); }

private:
    std::shared_ptr<detail::TorchEngine> engine_;
};

}  // namespace autolaunch::fsdp
