#pragma once
// Models cut over real processes: forked ranks on the shared-memory communicator, and a tiny model
// for them.
#include "../conformance/forked_ranks.hpp"
#include "base/hash.hpp"
#include "comm/self/self_backend.hpp"
#include "comm/shm/shm_backend.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace autolaunch::fsdp::testing {

inline void expect(bool holds, const std::string& what) {
    if (!holds)
        throw std::runtime_error("expected: " + what);
}

/// Runs `action`, which must throw an Error with this code whose text has these words.
inline void expect_error(ErrorCode code, const std::string& words,
                         const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        const std::string text = std::string(error.what()) + " | " + error.hint();
        expect(error.code() == code && text.find(words) != std::string::npos,
               words + ", got: " + text);
        return;
    }
    throw std::runtime_error("expected an error: " + words);
}

/// Forks `size` ranks that run body with a communicator. How each ended, as run_forked_ranks() has
/// it.
inline std::vector<int> statuses_of_ranks(
    int size, const std::function<void(Communicator&)>& body,
    std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    conformance::Broadcast address(size - 1);
    return conformance::run_forked_ranks(size, [&](int rank) {
        if (size == 1) {
            Communicator world(std::make_shared<SelfBackend>());
            return body(world);
        }
        const ShmRendezvous rendezvous{
            [&](const std::string& text) { address.publish(text); },
            [&](std::chrono::milliseconds limit) { return address.fetch(limit); }};
        Communicator world(ShmBackend::create(rendezvous, rank, size, timeout));
        body(world);
    });
}

/// The same, and every one must succeed.
inline void on_ranks(int size, const std::function<void(Communicator&)>& body,
                     std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    for (const int status : statuses_of_ranks(size, body, timeout))
        CHECK(status == 0);
}

/// A folder for checkpoints, removed at the end.
class TemporaryDirectory {
public:
    TemporaryDirectory()
        : path_(std::filesystem::temp_directory_path() /
                ("autolaunch-checkpoint-" + random_hex(8))) {
        std::filesystem::create_directory(path_);
    }
    ~TemporaryDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

/// Memory that the test shares with its ranks.
template <class T>
class Shared {
public:
    explicit Shared(std::size_t count) : count_(count) {
        void* memory = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(memory != MAP_FAILED);
        data_ = static_cast<T*>(memory);
    }
    ~Shared() { ::munmap(data_, count_ * sizeof(T)); }
    Shared(const Shared&) = delete;
    T* data() const { return data_; }
    T& operator[](std::size_t index) const { return data_[index]; }
    std::vector<T> copy() const { return {data_, data_ + count_}; }

private:
    std::size_t count_;
    T* data_;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// A model's state and its optimizer's, as one.
inline State joined(State first, State second) {
    for (auto& tensor : second)
        first.push_back(std::move(tensor));
    return first;
}

/// The model as it is, without buckets of several units, and all of them in slots.
inline ShardedModelOptions unmerged(ShardingStrategy strategy = ShardingStrategy::full_shard) {
    ShardedModelOptions options;
    options.strategy = strategy;
    options.merge_below = 0;
    options.keep_largest = false;
    return options;
}

/// Where a model's computation runs: at once, or on a GPU's stream.
struct Computation {
    Stream stream = {};
    std::function<void(std::function<void()>)> run = [](const std::function<void()>& work) {
        work();
    };
    std::function<void()> synchronize = [] {};
};

/// Three layers and a parameter smaller than a shard's quantum: cuts fall inside tensors and ranks
/// hold nothing of some.
struct TinyModel {
    TinyModel(Communicator world, const ShardedModelOptions& options, Computation where = {})
        : computation(std::move(where)),
          model(std::move(world), options),
          first(model.add_unit("first", {{"w", {40, 33}}, {"b", {40}}})),
          second(model.add_unit("second", {{"w", {7, 40}}, {"scale"}})),
          third(model.add_unit("third", {{"w", {9, 50}}})) {
        model.finalize();
        model.initialize([](const std::string& name, std::span<const std::int64_t>, std::int64_t at,
                            std::span<float> values) {
            for (float& value : values)
                value = std::sin(0.37f * static_cast<float>(at++ + std::ssize(name) * 11));
        });
    }

    /// A gradient that is a small whole number times 1/64, so that sums over ranks are exact in any
    /// order.
    static float gradient(std::size_t sample, std::size_t index, float parameter) {
        const float noise = static_cast<float>((sample * 7919 + index * 104729) % 127) - 63;
        return (noise + std::floor(parameter * 8)) / 64;
    }

    template <class Param, class Grad>
    void add_gradients(Unit& unit, std::size_t step, std::size_t samples) {
        const auto rank = static_cast<std::size_t>(model.world().rank());
        const auto ranks = static_cast<std::size_t>(model.world().size());
        const auto parameters = unit.unshard(computation.stream);
        for (const ParameterSpec& parameter : unit.parameters()) {
            const auto values = parameters[parameter.name].as<const Param>();
            const auto into = unit.grad(parameter.name).as<Grad>();
            computation.run([=] {
                for (std::size_t sample = rank; sample < samples; sample += ranks) {
                    for (std::size_t i = 0; i < values.size(); ++i)
                        into[i] = Grad(
                            static_cast<float>(into[i]) +
                            gradient(step * samples + sample, i, static_cast<float>(values[i])));
                }
            });
        }
    }

    /// One micro-batch of `samples` samples, spread over the ranks.
    template <class Param = float, class Grad = float>
    void backward(std::size_t step, std::size_t samples, bool reduce = true) {
        for (Unit* unit : {&first, &second, &third})
            (void)unit->unshard(computation.stream);  // the forward pass
        for (Unit* unit : {&third, &second, &first}) {
            add_gradients<Param, Grad>(*unit, step, samples);
            if (reduce)
                unit->reduce_grads(computation.stream);
        }
    }

    template <class Param = float>
    void copy_parameters(float* to) {
        const auto scope = model.evaluation();
        for (Unit* unit : {&first, &second, &third}) {
            const auto parameters = unit->unshard(computation.stream);
            for (const ParameterSpec& parameter : unit->parameters()) {
                const auto values = parameters[parameter.name].as<const Param>();
                computation.run([=] {
                    std::transform(values.begin(), values.end(), to,
                                   [](Param value) { return static_cast<float>(value); });
                });
                to += values.size();
            }
        }
        computation.synchronize();
    }

    static constexpr std::size_t kFirst = 40 * 33 + 40, kSecond = 7 * 40 + 1;
    static constexpr std::size_t kParameters = kFirst + kSecond + 9 * 50;
    Computation computation;
    ShardedModel model;
    Unit& first;
    Unit& second;
    Unit& third;
};

}  // namespace autolaunch::fsdp::testing
