#pragma once
#include <autolaunch/cxx20.hpp>

// Drives a ShardedModel by what operators and autograd do; autolaunch/torch.hpp says what that is
// for a trainer.
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/module_units.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>
#include <autolaunch/torch/module_tree.hpp>
#include <autolaunch/torch/parameter_memory.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::fsdp::detail {

/// The engine behind TorchModel. Each unit, which operators that run now hold:
///
///     state     operator on it   on another unit    last gradient     backward ends
///     away      whole            -                  reduced           reduced
///     whole     -                away unless held   away, reduced     away, reduced
class TorchEngine final : public MemoryOwner, public std::enable_shared_from_this<TorchEngine> {
public:
    TorchEngine(Communicator world, std::shared_ptr<::torch::nn::Module> module,
                const ShardedModelOptions& options, const std::vector<std::string>& patterns,
                bool broadcast)
        : module_(std::move(module)), sharded_(of_cpus(std::move(world)), options) {
        const ModuleTree tree = tree_of(*module_);
        const std::vector<ModuleUnit> units = units_of(tree, choose_units(tree, patterns));
        for (const ModuleUnit& unit : units)
            units_.emplace_back().unit = &sharded_.add_unit(unit.name, unit.parameters);
        sharded_.finalize();
        const auto parameters = module_->named_parameters();
        make_contiguous(parameters);
        if (broadcast)
            broadcast_from_rank_0();
        initialize(units, parameters);
        for (std::size_t i = 0; i < units.size(); ++i) {
            for (std::size_t j = 0; j < units[i].sources.size(); ++j) {
                Parameter& parameter = units_[i].parameters.emplace_back(
                    *this, i, units[i].parameters[j].name, parameters[units[i].sources[j]].value(),
                    scalar_type_of(options.precision.param));
                if (parameter.memory.parameter().requires_grad())
                    ++units_[i].trainable;
            }
        }
    }

    /// After construction: hooks refer to this weakly, for autograd may keep them longer.
    void watch_gradients() {
        for (TorchUnit& unit : units_)
            for (Parameter& parameter : unit.parameters)
                if (parameter.memory.parameter().requires_grad())
                    watch_gradient(unit, parameter);
    }

    ShardedModel& sharded() noexcept { return sharded_; }
    ::torch::nn::Module& module() noexcept { return *module_; }

    void begin_operator(const std::vector<ParameterMemory*>& used) override {
        // A pass forward: the backward before it ended, or failed and never said so.
        if (in_backward_ && at::GradMode::is_enabled())
            forget_backward();
        for (const ParameterMemory* memory : used)
            ++units_[memory->unit()].holders;
        try {
            close_unheld();
            for (const ParameterMemory* memory : used)
                open(units_[memory->unit()]);
        } catch (...) {
            end_operator(used);
            throw;
        }
    }
    void end_operator(const std::vector<ParameterMemory*>& used) noexcept override {
        for (const ParameterMemory* memory : used)
            --units_[memory->unit()].holders;
    }

    void close_unheld() {
        for (std::size_t i = open_.size(); i-- > 0;)
            if (open_[i]->holders == 0)
                close(*open_[i]);
    }

    void discard_step() {
        forget_backward();
        for (TorchUnit& unit : units_)
            forget_gradient(unit);
        close_unheld();
        sharded_.discard_step();
    }

    // Buffers as copies: the next pass forward changes them, while an asynchronous save reads what
    // it was given.
    State state() {
        State state = sharded_.state();
        for (const auto& item : module_->named_buffers()) {
            const at::Tensor& buffer = item.value();
            if (!buffer.defined() || buffer.numel() == 0)
                continue;
            const auto type = data_type_from(buffer.scalar_type());
            if (!type)
                continue;
            at::Tensor& copy = copy_of(item.key(), buffer);
            StateTensor tensor;
            tensor.name = item.key();
            tensor.type = *type;
            tensor.shape = buffer.sizes().vec();
            tensor.pieces.push_back({0, copy.numel(), static_cast<std::byte*>(copy.data_ptr())});
            tensor.replicated = true;
            state.push_back(std::move(tensor));
        }
        return state;
    }
    void refresh_parameters() {
        sharded_.refresh_parameters();
        const at::NoGradGuard no_grad;
        for (const auto& item : module_->named_buffers()) {
            const auto copy = buffer_copies_.find(item.key());
            if (copy != buffer_copies_.end())
                at::Tensor(item.value()).copy_(copy->second);
        }
    }

private:
    struct Parameter {
        Parameter(MemoryOwner& owner, std::size_t unit, std::string name, at::Tensor tensor,
                  at::ScalarType type)
            : memory(owner, unit, std::move(name), std::move(tensor), type) {}
        ParameterMemory memory;
        at::Tensor gradient;  // a view of the unit's whole gradient, where it was last
        bool added = false;   // to it since it was reduced
        // A shared_ptr, or what later versions of libtorch have instead.
        decltype(::torch::autograd::impl::grad_accumulator(
            std::declval<const at::Tensor&>())) accumulator;
    };
    struct TorchUnit {
        Unit* unit = nullptr;
        std::optional<UnshardedParameters> whole;
        std::deque<Parameter> parameters;
        int holders = 0;
        int trainable = 0;          // parameters
        int arrived = 0;            // of their gradients, in this backward
        bool has_gradient = false;  // not yet reduced
    };
    using Parameters = ::torch::OrderedDict<std::string, at::Tensor>;

public:
    /// TorchModel::evaluation().
    class Evaluation {
    public:
        // What training left whole stays so, for backward goes on with it and asks for it as in
        // other steps.
        explicit Evaluation(std::shared_ptr<TorchEngine> engine)
            : engine_(std::move(engine)), scope_(engine_->sharded_.evaluation()) {
            for (TorchUnit* unit : engine_->open_)
                hold(before_, *unit);
        }
        Evaluation(Evaluation&&) noexcept = default;
        ~Evaluation() {
            if (!engine_)
                return;
            let_go(whole_);
            engine_->close_unheld();
            let_go(before_);
        }
        /// TorchModel::whole().
        Evaluation&& with_all() && {
            for (TorchUnit& unit : engine_->units_) {
                engine_->open(unit);
                hold(whole_, unit);
            }
            return std::move(*this);
        }

    private:
        static void hold(std::vector<TorchUnit*>& units, TorchUnit& unit) {
            units.push_back(&unit);
            ++unit.holders;
        }
        static void let_go(const std::vector<TorchUnit*>& units) noexcept {
            for (TorchUnit* unit : units)
                --unit->holders;
        }
        std::shared_ptr<TorchEngine> engine_;
        EvaluationScope scope_;
        std::vector<TorchUnit*> before_, whole_;
    };

    /// TorchModel::no_sync().
    class NoSync {
    public:
        explicit NoSync(std::shared_ptr<TorchEngine> engine) : engine_(std::move(engine)) {
            ++engine_->no_sync_;
        }
        NoSync(NoSync&&) noexcept = default;
        ~NoSync() {
            if (engine_)
                --engine_->no_sync_;
        }

    private:
        std::shared_ptr<TorchEngine> engine_;
    };

private:
    // A GPU's would be handed addresses of the CPU's memory.
    static Communicator of_cpus(Communicator world) {
        if (world.backend() != "nccl")
            return world;
        throw Error(ErrorCode::unsupported,
                    "TorchModel shards modules in CPU memory, and the communicator is of GPUs",
                    "make it with Communicator::world(session, {.backend = \"cpu\"}); to train on "
                    "GPUs write the units' "
                    "calls yourself, with ShardedModel");
    }

    static void make_contiguous(const Parameters& parameters) {
        const at::NoGradGuard no_grad;
        for (const auto& item : parameters) {
            at::Tensor parameter = item.value();
            if (!parameter.is_contiguous())
                parameter.set_data(parameter.contiguous());
        }
    }

    void broadcast_from_rank_0() {
        const auto send = [&](const std::string& name, const at::Tensor& tensor) {
            if (!tensor.defined() || tensor.numel() == 0)
                return;
            const auto type = data_type_from(tensor.scalar_type());
            if (!type || !tensor.is_contiguous())
                throw Error(
                    ErrorCode::unsupported,
                    name + " cannot be broadcast: it is not contiguous, or of a rare type",
                    "set TorchModelOptions::broadcast to false, and make it equal on all ranks");
            sharded_.world()
                .broadcast(tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), *type, 0)
                .wait();
        };
        if (sharded_.world().size() == 1)
            return;
        for (const auto& item : module_->named_parameters())
            send(item.key(), item.value());
        for (const auto& item : module_->named_buffers())
            send(item.key(), item.value());
    }

    at::Tensor& copy_of(const std::string& name, const at::Tensor& buffer) {
        const at::NoGradGuard no_grad;
        at::Tensor& copy = buffer_copies_[name];
        if (!copy.defined() || !copy.sizes().equals(buffer.sizes()))
            copy = at::empty(buffer.sizes(), buffer.options().requires_grad(false));
        copy.copy_(buffer);
        return copy;
    }

    void initialize(const std::vector<ModuleUnit>& units, const Parameters& parameters) {
        const at::NoGradGuard no_grad;
        std::map<std::string, at::Tensor> values;  // by full name
        for (const ModuleUnit& unit : units)
            for (std::size_t i = 0; i < unit.sources.size(); ++i)
                values[unit.name + "." + unit.parameters[i].name] =
                    parameters[unit.sources[i]].value().view({-1});
        sharded_.initialize([&](const std::string& name, std::span<const std::int64_t>,
                                std::int64_t first, std::span<float> run) {
            const auto count = static_cast<std::int64_t>(run.size());
            const at::Tensor part = values.at(name).narrow(0, first, count).to(at::kFloat);
            std::memcpy(run.data(), part.data_ptr(), run.size_bytes());
        });
    }

    void watch_gradient(TorchUnit& unit, Parameter& parameter) {
        using ::torch::autograd::variable_list;
        const std::weak_ptr<TorchEngine> self = weak_from_this();
        const at::Tensor& tensor = parameter.memory.parameter();
        tensor.register_hook([self, &unit, &parameter](const at::TensorBase&) {
            if (const auto engine = self.lock())
                engine->before_gradient(unit, parameter);
        });
        parameter.accumulator = ::torch::autograd::impl::grad_accumulator(tensor);
        parameter.accumulator->add_post_hook(
            std::make_unique<::torch::autograd::utils::LambdaPostHook>(
                [self, &unit](const variable_list& outputs, const variable_list&) {
                    if (const auto engine = self.lock())
                        engine->after_gradient(unit);
                    return outputs;
                }));
    }

    // Autograd adds to param.grad() in place where there is one, in the type that there is.
    void before_gradient(TorchUnit& unit, Parameter& parameter) {
        if (at::GradMode::is_enabled())
            throw Error(ErrorCode::unsupported,
                        "backward was asked for a graph of its own (create_graph)",
                        "sharded modules have first derivatives only");
        begin_backward();
        const TensorView whole = unit.unit->grad(parameter.memory.name());
        unit.has_gradient = true;
        // Whoever undefined it, as zero_grad() does, wants what came before it gone.
        if (std::exchange(parameter.added, true) && !parameter.memory.parameter().grad().defined())
            std::memset(whole.bytes, 0,
                        static_cast<std::size_t>(whole.count) * size_of(whole.type));
        if (!parameter.gradient.defined() || parameter.gradient.data_ptr() != whole.bytes)
            parameter.gradient =
                at::from_blob(whole.bytes, parameter.memory.parameter().sizes(),
                              at::TensorOptions().dtype(scalar_type_of(whole.type)));
        parameter.memory.parameter().mutable_grad() = parameter.gradient;
    }

    void after_gradient(TorchUnit& unit) {
        begin_backward();
        if (++unit.arrived == unit.trainable)
            finish(unit);
    }

    void begin_backward() {
        if (std::exchange(in_backward_, true))
            return;
        ::torch::autograd::Engine::get_default_engine().queue_callback([self = weak_from_this()] {
            if (const auto engine = self.lock())
                engine->end_backward();
        });
    }

    void end_backward() {
        for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit)
            finish(*unit);
        close_unheld();
        forget_backward();
    }

    void forget_backward() noexcept {
        in_backward_ = false;
        for (TorchUnit& unit : units_)
            unit.arrived = 0;
    }

    void finish(TorchUnit& unit) {
        if (unit.holders == 0)
            close(unit);
        if (no_sync_ > 0 || !unit.has_gradient)
            return;
        forget_gradient(unit);
        unit.unit->reduce_grads();
    }

    static void forget_gradient(TorchUnit& unit) {
        for (Parameter& parameter : unit.parameters) {
            parameter.memory.parameter().mutable_grad().reset();
            parameter.added = false;
        }
        unit.has_gradient = false;
    }

    void open(TorchUnit& unit) {
        if (unit.whole)
            return;
        for (const Parameter& parameter : unit.parameters) {
            if (parameter.memory.is_of_parameter())
                continue;
            throw Error(ErrorCode::invalid_argument,
                        "parameter " + unit.unit->name() + "." + parameter.memory.name() +
                            " was given other data",
                        "call module->to() and set_data() before the module is sharded");
        }
        unit.whole.emplace(unit.unit->unshard());
        open_.push_back(&unit);
        for (Parameter& parameter : unit.parameters)
            parameter.memory.attach((*unit.whole)[parameter.memory.name()].bytes);
    }

    void close(TorchUnit& unit) {
        if (!unit.whole)
            return;
        for (Parameter& parameter : unit.parameters)
            parameter.memory.detach();
        unit.whole.reset();
        open_.erase(std::find(open_.begin(), open_.end(), &unit));
    }

    std::shared_ptr<::torch::nn::Module> module_;
    ShardedModel sharded_;
    std::deque<TorchUnit> units_;
    std::vector<TorchUnit*> open_;
    std::map<std::string, at::Tensor> buffer_copies_;
    bool in_backward_ = false;
    int no_sync_ = 0;
};

}  // namespace autolaunch::fsdp::detail
