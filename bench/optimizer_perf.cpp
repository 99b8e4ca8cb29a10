// What an optimizer's pass over a shard takes, beside the memory it must touch:
//   optimizer_perf PARAMETERS [THREADS [ROUNDS]]        THREADS 0: as an optimizer chooses
// In every round each contestant and each limit runs once, so that a busy moment of the machine
// falls on all. Prints a JSON object: medians of the rounds in seconds, and the bytes that a pass
// must touch. bench/adamw reads it.
//
// The limits, in as many threads and the same slices: "copy" is memcpy; "streams" reads four arrays
// and writes three of them in place, as AdamW does, with nothing but additions.
#include "base/text.hpp"
#include "fsdp/optimizer/algorithms.hpp"
#include "fsdp/optimizer/shard_updates.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace autolaunch;
using namespace autolaunch::fsdp;

constexpr std::int64_t kTensors = 16;  // of equal size
constexpr std::size_t kSlice = 64 * 1024;

struct Contestant {
    std::string name;
    double bytes_per_parameter = 0;
    std::function<void()> pass;
    std::vector<double> seconds = {};
};

/// A shard of one unit, with the memory that its types need.
class BenchShard {
public:
    BenchShard(std::int64_t parameters, DataType gradient, DataType master,
               std::optional<DataType> param)
        : spec_{"w", {parameters / kTensors, 1}}, elements_(static_cast<std::size_t>(parameters)) {
        for (StateMemory* memory : {&gradient_, &master_, &param_})
            *memory = StateMemory(elements_);
        shard.name = "u";
        shard.elements = elements_;
        shard.gradient_type = gradient;
        shard.gradient = gradient_.data();
        shard.master_type = master;
        shard.master = master_.data();
        if (param)
            shard.param = param_.data();
        shard.param_type = param.value_or(DataType::f32);
        shard.has_gradient = true;
        for (std::int64_t i = 0; i < kTensors; ++i) {
            const std::string name = "u.w" + std::to_string(i);
            const std::int64_t count = parameters / kTensors;
            shard.tensors.push_back({name, DataType::f32, spec_.shape, {}, false});
            shard.runs.push_back({&spec_, name, 0, i * count, count});
        }
        fill_gradient();
    }
    BenchShard(const BenchShard&) = delete;

    OptimizerShard shard;

private:
    void fill_gradient() {
        for (std::size_t i = 0; i < elements_; ++i) {
            const float value = static_cast<float>(i * 7919 % 1000) * 1e-5f - 5e-3f;
            if (shard.gradient_type == DataType::f32)
                gradient_.floats()[i] = value;
            if (shard.gradient_type == DataType::bf16)
                reinterpret_cast<bfloat16*>(gradient_.data())[i] = bfloat16(value);
        }
    }

    ParameterSpec spec_;
    std::size_t elements_;
    StateMemory gradient_{0}, master_{0}, param_{0};
};

double seconds_of(const std::function<void()>& pass) {
    const auto begin = std::chrono::steady_clock::now();
    pass();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
    return values[values.size() / 2];
}

[[gnu::noinline]] void add_to_three(const float* __restrict g, float* __restrict p,
                                    float* __restrict m, float* __restrict v, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        p[i] += g[i];
        m[i] += g[i];
        v[i] += g[i];
    }
}

class Bench {
public:
    Bench(std::int64_t parameters, int threads)
        : parameters_(parameters),
          count_(static_cast<std::size_t>(parameters)),
          pool_(optimizer_threads(threads)),
          limit_{StateMemory(count_), StateMemory(count_), StateMemory(count_),
                 StateMemory(count_)} {}

    void add_limits() {
        add("limit: copy", 16, [this](std::size_t at, std::size_t count) {
            std::memcpy(limit_[1].floats() + at, limit_[0].floats() + at, count * sizeof(float));
            std::memcpy(limit_[3].floats() + at, limit_[2].floats() + at, count * sizeof(float));
        });
        add("limit: streams", 28, [this](std::size_t at, std::size_t count) {
            add_to_three(limit_[0].floats() + at, limit_[1].floats() + at, limit_[2].floats() + at,
                         limit_[3].floats() + at, count);
        });
    }

    void add_optimizer(const std::string& name, double bytes, std::unique_ptr<Algorithm> algorithm,
                       DataType gradient, DataType master, std::optional<DataType> param) {
        auto shard = std::make_shared<BenchShard>(parameters_, gradient, master, param);
        const ParameterSettings settings{
            .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .momentum = 0.9};
        auto updates =
            std::make_shared<ShardUpdates>(std::vector{&shard->shard}, std::move(algorithm),
                                           UpdateOptions{settings, {}, {}, pool_.size(), 0});
        contestants_.push_back({name, bytes, [shard, updates, step = std::int64_t{0}]() mutable {
                                    updates->update({++step, 1e-4, 1.0});
                                }});
    }
    void add_norm() {
        auto shard =
            std::make_shared<BenchShard>(parameters_, DataType::f32, DataType::f32, std::nullopt);
        auto updates = std::make_shared<ShardUpdates>(std::vector{&shard->shard}, lion_algorithm(),
                                                      UpdateOptions{{}, {}, {}, pool_.size(), 0});
        contestants_.push_back({"norm", 4, [shard, updates] {
                                    if (!updates->sum_of_squares().finite())
                                        throw std::runtime_error("wrong norm");
                                }});
    }

    void run(int rounds) {
        for (Contestant& contestant : contestants_)
            contestant.pass();  // first touch
        for (int round = 0; round < rounds; ++round) {
            for (Contestant& contestant : contestants_)
                contestant.seconds.push_back(seconds_of(contestant.pass));
        }
    }

    nlohmann::json report() const {
        nlohmann::json rows = nlohmann::json::array();
        for (const Contestant& contestant : contestants_) {
            rows.push_back(
                {{"name", contestant.name},
                 {"seconds", median(contestant.seconds)},
                 {"bytes", contestant.bytes_per_parameter * static_cast<double>(parameters_)}});
        }
        return {{"parameters", parameters_},
                {"threads", pool_.size()},
                {"instructions", optimizer_kernels().name},
                {"rows", rows}};
    }

private:
    void add(const std::string& name, double bytes,
             std::function<void(std::size_t, std::size_t)> slice) {
        contestants_.push_back(
            {name, bytes, [this, slice = std::move(slice)] {
                 pool_.run((count_ + kSlice - 1) / kSlice, [&](std::size_t, std::size_t item) {
                     slice(item * kSlice, std::min(kSlice, count_ - item * kSlice));
                 });
             }});
    }

    std::int64_t parameters_;
    std::size_t count_;
    WorkerPool pool_;
    StateMemory limit_[4];
    std::vector<Contestant> contestants_;
};

long long number(const char* text, long long least) {
    long long value = 0;
    if (!parse_integer(text, value) || value < least)
        throw std::invalid_argument(std::string(text) + " is not a number from " +
                                    std::to_string(least) + " on");
    return value;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc < 2)
            throw std::invalid_argument("usage: optimizer_perf PARAMETERS [THREADS [ROUNDS]]");
        const std::int64_t parameters =
            number(argv[1], 16 * 64) / (kTensors * 64) * (kTensors * 64);
        Bench bench(parameters, static_cast<int>(argc > 2 ? number(argv[2], 0) : 0));
        bench.add_limits();
        bench.add_optimizer("AdamW f32", 28, adamw_algorithm(), f32, f32, {});
        bench.add_optimizer("AdamW f32, bf16 gathered", 30, adamw_algorithm(), f32, f32, bf16);
        bench.add_optimizer("AdamW bf16 gradient, bf16 gathered", 28, adamw_algorithm(), bf16, f32,
                            bf16);
        bench.add_optimizer("AdamW bf16 master", 22, adamw_algorithm(), bf16, bf16, {});
        bench.add_optimizer("SGD momentum f32", 20, sgd_algorithm({.momentum = 0.9}), f32, f32, {});
        bench.add_optimizer("Lion f32", 20, lion_algorithm(), f32, f32, {});
        bench.add_norm();
        bench.run(static_cast<int>(argc > 3 ? number(argv[3], 1) : 7));
        std::printf("%s\n", bench.report().dump().c_str());
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "optimizer_perf: %s\n", error.what());
        return 2;
    }
}
