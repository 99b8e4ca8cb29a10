// llm.c's GPT-2 with its arrays of parameters, gradients and moments in a ShardedModel. Included by
// a patched train_gpt2.c (sharded.sed), behind its own types; what computes stays llm.c's.
#include <autolaunch/autolaunch.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// A number from the environment.
inline int setting(const char* name) {
    const char* text = std::getenv(name);
    if (text == nullptr)
        throw std::invalid_argument(std::string(name) + " is not set");
    return std::atoi(text);
}

namespace al = autolaunch;

/// A unit for each layer, and one for what its first and last steps use: the token table is both
/// the embedding and the head.
class ShardedGpt2 {
public:
    explicit ShardedGpt2(GPT2* model)
        : session_(al::Session::from_environment()),
          world_(al::Communicator::world(session_, {.backend = "cpu"})),
          sharded_(world_, options()),
          layer_count_(model->config.num_layers) {
        const GPT2Config& config = model->config;
        ends_ = &sharded_.add_unit("ends", {{"wte", {config.padded_vocab_size, config.channels}},
                                            {"wpe", {config.max_seq_len, config.channels}},
                                            {"lnfw", {config.channels}},
                                            {"lnfb", {config.channels}}});
        for (int layer = 0; layer < layer_count_; ++layer) {
            std::vector<al::fsdp::ParameterSpec> tensors;
            for (std::size_t i = 2; i < 14; ++i)
                tensors.push_back({kNames[i], {elements_of(model, i)}});
            layers_.push_back(&sharded_.add_unit("h." + std::to_string(layer), std::move(tensors)));
        }
        const auto plan = sharded_.finalize();
        std::printf("memory of a rank: %s\n",
                    al::fsdp::what_dominates(plan, sharded_.options().strategy).c_str());
        sharded_.initialize([&](const std::string& name, std::span<const std::int64_t>,
                                std::int64_t first, std::span<float> values) {
            std::memcpy(values.data(), source(model, name) + first, values.size_bytes());
        });
        std::free(model->params_memory);
        model->params_memory = static_cast<float*>(std::malloc(1));  // "initialized"
    }

    int size() const { return world_.size(); }
    /// This rank's sequences of a global batch.
    int part_of(int batch) const {
        if (batch % size() != 0)
            throw std::invalid_argument("the batch is no multiple of the ranks");
        return batch / size();
    }
    /// The loader goes through the global batches in the order of one process, and gives this rank
    /// its part of each.
    void take_part(DataLoader* loader) const {
        loader->process_rank = world_.rank();
        loader->local_batch_offset_bytes =
            static_cast<std::size_t>(world_.rank()) * loader->B * loader->T * sizeof(std::uint16_t);
    }
    float mean(float loss) {
        return static_cast<float>(world_.all_reduce_value<double>(loss) / size());
    }
    al::fsdp::EvaluationScope evaluation() { return sharded_.evaluation(); }

    /// First in forward and backward: the ends' parameters are whole until either ends.
    ParameterTensors whole(ParameterTensors tensors) {
        open_ends_.emplace(ends_->unshard());
        tensors.wte = (*open_ends_)["wte"].as<float>().data();
        tensors.wpe = (*open_ends_)["wpe"].as<float>().data();
        tensors.lnfw = (*open_ends_)["lnfw"].as<float>().data();
        tensors.lnfb = (*open_ends_)["lnfb"].as<float>().data();
        return tensors;
    }
    ParameterTensors gradients(ParameterTensors tensors) {
        in_backward_ = true;
        tensors.wte = ends_->grad("wte").as<float>().data();
        tensors.wpe = ends_->grad("wpe").as<float>().data();
        tensors.lnfw = ends_->grad("lnfw").as<float>().data();
        tensors.lnfb = ends_->grad("lnfb").as<float>().data();
        return tensors;
    }
    /// The first weight of a layer that is asked for ends the layer before.
    float* weight(int layer, const char* name) {
        if (open_layer_ != layer) {
            end_layer();
            open_parameters_.emplace(layers_[static_cast<std::size_t>(layer)]->unshard());
            open_layer_ = layer;
        }
        return (*open_parameters_)[name].as<float>().data();
    }
    float* gradient(int layer, const char* name) {
        return layers_[static_cast<std::size_t>(layer)]->grad(name).as<float>().data();
    }
    void end_forward() {
        end_layer();
        open_ends_.reset();
    }
    void end_backward() {
        end_layer();
        open_ends_.reset();
        ends_->reduce_grads();
        in_backward_ = false;
    }
    void update(float lr, float beta1, float beta2, float eps, float weight_decay) {
        if (!optimizer_)
            optimizer_.emplace(sharded_, al::fsdp::AdamWOptions{.lr = lr,
                                                                .beta1 = beta1,
                                                                .beta2 = beta2,
                                                                .eps = eps,
                                                                .weight_decay = weight_decay});
        // As it comes: with the gradient's norm, and an error that names what is not finite.
        const auto result = optimizer_->step();
        std::printf("grad norm %f\n", result.grad_norm);
    }

private:
    static constexpr const char* kNames[NUM_PARAMETER_TENSORS] = {
        "wte",  "wpe",  "ln1w", "ln1b", "qkvw",    "qkvb",    "attprojw", "attprojb",
        "ln2w", "ln2b", "fcw",  "fcb",  "fcprojw", "fcprojb", "lnfw",     "lnfb"};

    static al::fsdp::ShardedModelOptions options() {
        al::fsdp::ShardedModelOptions options;
        if (const char* name = std::getenv("LLMC_STRATEGY"))
            options.strategy = al::fsdp::sharding_strategy_from(name).value();
        return options;
    }
    // Of a tensor in one layer.
    static std::int64_t elements_of(const GPT2* model, std::size_t tensor) {
        const bool in_layers = tensor >= 2 && tensor < 14;
        return static_cast<std::int64_t>(model->param_sizes[tensor]) /
               (in_layers ? model->config.num_layers : 1);
    }
    // Where "h.3.qkvw" is in the array that the checkpoint was read to.
    static const float* source(const GPT2* model, const std::string& name) {
        const std::size_t dot = name.rfind('.');
        const int layer = name[0] == 'h' ? std::stoi(name.substr(2)) : 0;
        const float* tensor = model->params_memory;
        for (std::size_t i = 0; i < NUM_PARAMETER_TENSORS; ++i) {
            if (name.substr(dot + 1) == kNames[i])
                return tensor + layer * elements_of(model, i);
            tensor += model->param_sizes[i];
        }
        throw std::logic_error("no tensor " + name);
    }
    void end_layer() {
        open_parameters_.reset();
        if (in_backward_ && open_layer_ >= 0)
            layers_[static_cast<std::size_t>(open_layer_)]->reduce_grads();
        open_layer_ = -1;
    }

    al::Session session_;
    al::Communicator world_;
    al::fsdp::ShardedModel sharded_;
    int layer_count_;
    al::fsdp::Unit* ends_ = nullptr;
    std::vector<al::fsdp::Unit*> layers_;
    std::optional<al::fsdp::AdamW> optimizer_;
    std::optional<al::fsdp::UnshardedParameters> open_ends_, open_parameters_;
    int open_layer_ = -1;
    bool in_backward_ = false;
};

static ShardedGpt2* sharded = nullptr;
