#include "trainer_config.hpp"

#include "presets.hpp"

#include <autolaunch/fsdp/learning_rate.hpp>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpt {
namespace {

using autolaunch::fsdp::ShardingStrategy;
using nlohmann::json;

[[noreturn]] void refuse(const std::string& key, const std::string& why) {
    throw std::invalid_argument("configuration: " + key + " " + why);
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const auto& name : names)
        text += (text.empty() ? "" : ", ") + name;
    return text;
}

/// One section of the JSON: take() its keys, then finish() to refuse the rest.
class Section {
public:
    Section(const json& parent, const std::string& key, std::string path) : path_(std::move(path)) {
        const auto found = parent.find(key);
        if (found == parent.end() || found->is_null())
            return;
        if (!found->is_object())
            refuse(path_, "must be a mapping");
        object_ = *found;
    }

    const json& object() const { return object_; }
    std::string path_of(const std::string& key) const { return path_ + "." + key; }

    template <class T>
    void take(const std::string& key, T& value) {
        know(key);
        const auto found = object_.find(key);
        if (found == object_.end() || found->is_null())
            return;
        check_kind<T>(key, *found);
        value = found->template get<T>();
    }
    template <class T>
    void take(const std::string& key, T& value, T least) {
        take(key, value);
        if (!(value >= least))
            refuse(path_of(key), "must be at least " + json(least).dump());
    }
    /// For a key that is read in another way.
    void know(const std::string& key) { known_.push_back(key); }
    void finish() const {
        for (const auto& [key, value] : object_.items()) {
            if (std::find(known_.begin(), known_.end(), key) != known_.end())
                continue;
            refuse(path_of(key), "is not known; " + path_ + " may have " + joined(known_));
        }
    }

private:
    template <class T>
    void check_kind(const std::string& key, const json& value) const {
        if constexpr (std::is_same_v<T, bool>) {
            if (!value.is_boolean())
                refuse(path_of(key), "must be true or false");
        } else if constexpr (std::is_integral_v<T>) {
            if (!value.is_number_integer())
                refuse(path_of(key), "must be a whole number");
        } else if constexpr (std::is_floating_point_v<T>) {
            if (!value.is_number())
                refuse(path_of(key), "must be a number");
        } else {
            if (!value.is_string())
                refuse(path_of(key), "must be a text");
        }
    }

    std::string path_;
    json object_ = json::object();
    std::vector<std::string> known_;
};

ShardingStrategy strategy_of(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    const auto strategy = autolaunch::fsdp::sharding_strategy_from(name);
    if (!strategy) {
        refuse(
            "distributed.sharding_strategy",
            "must be full_shard, shard_grad_op, shard_optimizer, no_shard or hybrid_shard, not " +
                name);
    }
    return *strategy;
}

// The parameters and what is sent; sums and masters stay in 32 bits.
autolaunch::fsdp::Precision precision_of(const json& value) {
    if (value == "no" || value == false || value == "f32" || value == "fp32")
        return {};
    if (value == "bf16")
        return {.param = autolaunch::bf16, .reduce = autolaunch::bf16};
    if (value == "f16" || value == "fp16")
        return {.param = autolaunch::f16, .reduce = autolaunch::f16};
    refuse("distributed.mixed_precision", "must be no, bf16 or f16, not " + value.dump());
}

autolaunch::DataType type_of(const std::string& key, const std::string& name) {
    for (const auto type : {autolaunch::f32, autolaunch::bf16, autolaunch::f16}) {
        if (autolaunch::name_of(type) == name)
            return type;
    }
    refuse(key, "must be f32, bf16 or f16, not " + name);
}

ComputeDevice device_of(const std::string& name) {
    if (name == "auto")
        return ComputeDevice::automatic;
    if (name == "cpu")
        return ComputeDevice::cpu;
    if (name == "cuda")
        return ComputeDevice::cuda;
    refuse("trainer.config.device", "must be auto, cpu or cuda, not " + name);
}

int signal_of(const json& value) {
    static const std::map<std::string, int> signals = {{"SIGSEGV", SIGSEGV}, {"SIGABRT", SIGABRT},
                                                       {"SIGKILL", SIGKILL}, {"SIGTERM", SIGTERM},
                                                       {"SIGBUS", SIGBUS},   {"SIGFPE", SIGFPE}};
    if (value.is_number_integer() && value.get<int>() > 0 && value.get<int>() < NSIG)
        return value.get<int>();
    const auto found = value.is_string() ? signals.find(value.get<std::string>()) : signals.end();
    if (found == signals.end())
        refuse("trainer.config.fail.signal", "must be a signal's number or name, such as SIGSEGV");
    return found->second;
}

void take_preset(const std::string& name, TrainerConfig& config) {
    const Preset* preset = find_preset(name);
    if (!preset) {
        std::vector<std::string> names;
        for (const auto& known : presets())
            names.emplace_back(known.name);
        refuse("model.preset", "must be one of " + joined(names) + ", not " + name);
    }
    config.model = preset->model;
    config.dataloader.global_batch = preset->global_batch;
    config.optimizer.lr = preset->lr;
    config.optimizer.beta2 = preset->beta2;
}

void read_model(const json& root, const std::string& preset, TrainerConfig& config) {
    Section section(root, "model", "model");
    std::string name = preset;
    section.take("preset", name);
    if (!preset.empty())
        name = preset;
    if (!name.empty())
        take_preset(name, config);
    section.take<std::int64_t>("layers", config.model.layers, 1);
    section.take<std::int64_t>("heads", config.model.heads, 1);
    section.take<std::int64_t>("width", config.model.width, 1);
    section.take<std::int64_t>("context", config.model.context, 1);
    section.take<std::int64_t>("vocabulary", config.model.vocabulary, kBytes);
    section.take("tied_head", config.model.tied_head);
    section.finish();
    if (config.model.width % config.model.heads != 0)
        refuse("model.width", "must be a multiple of model.heads");
}

void read_dataloader(const json& root, TrainerConfig& config) {
    Section section(root, "dataloader", "dataloader");
    std::string path = config.dataloader.path;
    section.take("path", path);
    config.dataloader.path = path;
    section.take<std::int64_t>("global_batch", config.dataloader.global_batch, 1);
    section.take<std::int64_t>("micro_batch", config.dataloader.micro_batch, 0);
    section.finish();
}

void read_optimizer(const json& root, TrainerConfig& config) {
    Section section(root, "optimizer", "optimizer");
    auto& optimizer = config.optimizer;
    section.take("lr", optimizer.lr, 0.0);
    optimizer.min_lr = optimizer.lr / 10;
    section.take("min_lr", optimizer.min_lr, 0.0);
    section.take("beta1", optimizer.beta1, 0.0);
    section.take("beta2", optimizer.beta2, 0.0);
    section.take("weight_decay", optimizer.weight_decay, 0.0);
    section.take("max_grad_norm", optimizer.max_grad_norm, 0.0);
    section.finish();
}

void read_step_scheduler(const json& root, TrainerConfig& config) {
    Section section(root, "step_scheduler", "step_scheduler");
    auto& scheduler = config.step_scheduler;
    section.take<std::int64_t>("max_steps", scheduler.max_steps, 1);
    scheduler.warmup_steps = std::min(scheduler.warmup_steps, scheduler.max_steps / 10);
    section.take<std::int64_t>("warmup_steps", scheduler.warmup_steps, 0);
    section.take<std::int64_t>("checkpoint_every", scheduler.checkpoint_every, 1);
    section.take<std::int64_t>("copy_every", scheduler.copy_every, 0);
    section.take<std::int64_t>("log_every", scheduler.log_every, 1);
    section.take<std::int64_t>("evaluate_every", scheduler.evaluate_every, 0);
    section.finish();
}

void read_checkpoint(const json& root, TrainerConfig& config) {
    Section section(root, "checkpoint", "checkpoint");
    std::string directory;
    section.take("checkpoint_dir", directory);
    config.checkpoint.directory = directory;
    config.checkpoint.enabled = !section.object().empty();
    section.take("enabled", config.checkpoint.enabled);
    section.take<std::int64_t>("every_steps", config.step_scheduler.checkpoint_every, 1);
    section.take("keep", config.checkpoint.keep, 1);
    section.take("pass_over_unusable", config.checkpoint.pass_over_unusable);
}

void read_distributed(const json& root, TrainerConfig& config) {
    Section section(root, "distributed", "distributed");
    std::string strategy = "full_shard";
    section.take("sharding_strategy", strategy);
    config.sharding_strategy = strategy_of(strategy);
    section.take("shard_group", config.shard_group, 0);
    config.precision = precision_of(section.object().value("mixed_precision", json("no")));
}

void read_fail(const json& parent, FailConfig& fail) {
    Section section(parent, "fail", "trainer.config.fail");
    section.take("rank", fail.rank, 0);
    section.take<std::int64_t>("step", fail.step, 1);
    section.know("signal");
    section.finish();
    fail.signal = signal_of(section.object().value("signal", json("SIGSEGV")));
}

void read_precision(const json& parent, autolaunch::fsdp::Precision& precision) {
    Section section(parent, "precision", "trainer.config.precision");
    for (const auto& [key, type] : {std::pair{"param", &precision.param},
                                    {"reduce", &precision.reduce},
                                    {"accumulate", &precision.accumulate},
                                    {"master", &precision.master}}) {
        std::string name(autolaunch::name_of(*type));
        section.take(key, name);
        *type = type_of(section.path_of(key), name);
    }
    section.finish();
}

void read_trainer(const json& root, TrainerConfig& config) {
    const Section trainer(root, "trainer", "trainer");  // its other keys are the launcher's
    Section section(trainer.object(), "config", "trainer.config");
    section.take("seed", config.seed);
    section.take<std::int64_t>("sample_bytes", config.sample_bytes, 0);
    section.take("temperature", config.temperature, 0.0);
    section.take("in_place", config.in_place);
    section.take("recompute", config.recompute, 0);
    if (config.recompute > config.model.layers)
        refuse("trainer.config.recompute",
               "must be at most model.layers, " + std::to_string(config.model.layers));
    section.take("offload_optimizer", config.offload_optimizer);
    std::string device = "auto";
    section.take("device", device);
    config.device = device_of(device);
    section.know("precision");
    section.know("fail");
    section.finish();
    if (section.object().contains("precision"))
        read_precision(section.object(), config.precision);
    if (section.object().contains("fail"))
        read_fail(section.object(), config.fail.emplace());
}

void refuse_unknown_sections(const json& root) {
    const std::set<std::string> sections = {"model",          "dataloader",  "optimizer",
                                            "step_scheduler", "distributed", "checkpoint",
                                            "trainer"};
    for (const auto& [key, value] : root.items()) {
        if (!sections.contains(key)) {
            refuse(key, "is no section of this trainer's; it reads " +
                            joined({sections.begin(), sections.end()}));
        }
    }
}

}  // namespace

TrainerConfig parse_trainer_config(const std::string& json_text, const std::string& preset) {
    constexpr int kDeepest = 64;  // what is deeper is copied by as deep a recursion
    json root;
    try {
        root = json::parse(json_text, [](int depth, json::parse_event_t, json&) {
            if (depth > kDeepest)
                throw std::invalid_argument("configuration: nested too deeply");
            return true;
        });
    } catch (const json::parse_error& error) {
        throw std::invalid_argument(std::string("configuration: not JSON: ") + error.what());
    }
    if (!root.is_object())
        throw std::invalid_argument("configuration: must be a JSON object");
    TrainerConfig config;
    refuse_unknown_sections(root);
    read_model(root, preset, config);
    read_dataloader(root, config);
    read_optimizer(root, config);
    read_step_scheduler(root, config);
    read_checkpoint(root, config);
    read_distributed(root, config);
    read_trainer(root, config);
    return config;
}

double learning_rate(const TrainerConfig& config, std::int64_t step) {
    namespace schedule = autolaunch::fsdp::schedule;
    const std::int64_t warmup = config.step_scheduler.warmup_steps;
    const std::int64_t rest = std::max<std::int64_t>(1, config.step_scheduler.max_steps - warmup);
    return schedule::warm_up(
        warmup, schedule::cosine(config.optimizer.lr, config.optimizer.min_lr, rest))(step);
}

}  // namespace gpt
