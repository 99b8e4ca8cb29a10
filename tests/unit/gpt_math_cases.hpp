#pragma once
// What every gpt::Math must do as the CPU's layers in double do it: each operation alone, with
// extents around those that implementations cut work at, and a whole model. Shared by
// unit.gpt_cuda_math and tests/gpu.
#include "gpt/cpu_math.hpp"
#include "gpt/model.hpp"
#include "gpt/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <list>
#include <string>
#include <vector>

namespace gpt::cases {

using Vector = std::vector<double>;
using Results = std::vector<Vector>;

/// Random values that bf16 holds exactly, so that every type computes with the same ones.
inline Vector random_vector(std::int64_t count, std::uint64_t seed, double mean = 0,
                            double deviation = 1) {
    Vector values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto value = static_cast<float>(mean + deviation * normal(random_bits({seed, i})));
        values[i] = static_cast<double>(static_cast<float>(autolaunch::bfloat16(value)));
    }
    return values;
}

inline std::vector<std::uint8_t> random_bytes(std::int64_t count, std::uint64_t seed,
                                              int most = 255) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] =
            static_cast<std::uint8_t>(random_bits({seed, i}) % static_cast<unsigned>(most + 1));
    return bytes;
}

template <class T>
std::vector<T> as(const Vector& values) {
    std::vector<T> converted;
    for (const double value : values)
        converted.push_back(static_cast<T>(static_cast<float>(value)));
    return converted;
}
template <>
inline std::vector<double> as<double>(const Vector& values) {
    return values;
}

/// A case's arrays, in the memory of its Math.
template <class M>
class Arrays {
public:
    explicit Arrays(Math<M>& math) : math_(&math) {}

    template <class E = M>
    std::span<E> put(const std::vector<E>& values) {
        auto& array = list<E>().emplace_back(*math_);
        const std::span<E> memory = array.resize(values.size());
        if (!values.empty())
            math_->upload(values.data(), memory.data(), memory.size_bytes());
        return memory;
    }
    std::span<M> random(std::int64_t count, std::uint64_t seed, double mean = 0,
                        double deviation = 1) {
        return put(as<M>(random_vector(count, seed, mean, deviation)));
    }
    /// For results: not-a-number, so that an element that is not written shows.
    template <class E = M>
    std::span<E> nothing(std::int64_t count) {
        return put(as<E>(
            Vector(static_cast<std::size_t>(count), std::numeric_limits<double>::quiet_NaN())));
    }
    template <class E>
    Vector get(std::span<E> memory) {
        std::vector<std::remove_const_t<E>> values(memory.size());
        if (!values.empty())
            math_->download(memory.data(), values.data(), memory.size_bytes());
        Vector converted;
        for (const auto value : values) {
            if constexpr (std::is_same_v<E, double>) {
                converted.push_back(value);
            } else {
                converted.push_back(static_cast<double>(static_cast<float>(value)));
            }
        }
        return converted;
    }

private:
    template <class E>
    std::list<DeviceArray<E>>& list() {
        if constexpr (std::is_same_v<E, M>) {
            return own_;
        } else if constexpr (std::is_same_v<E, std::uint8_t>) {
            return bytes_;
        } else {
            return others<E>();
        }
    }
    template <class E>
    auto& others() {
        if constexpr (std::is_same_v<E, float>) {
            return floats_;
        } else if constexpr (std::is_same_v<E, autolaunch::bfloat16>) {
            return bf16s_;
        } else {
            return f16s_;
        }
    }

    Math<M>* math_;
    std::list<DeviceArray<M>> own_;
    std::list<DeviceArray<std::uint8_t>> bytes_;
    std::list<DeviceArray<float>> floats_;
    std::list<DeviceArray<autolaunch::bfloat16>> bf16s_;
    std::list<DeviceArray<autolaunch::float16>> f16s_;
};

/// Largest difference of any element, relative to the largest expected one of its array;
/// not-a-number for one.
inline double worst_error(const Results& got, const Results& expected) {
    double worst = got.size() == expected.size() ? 0 : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
        if (got[i].size() != expected[i].size())
            return std::numeric_limits<double>::infinity();
        double largest = 1e-30;
        for (const double value : expected[i])
            largest = std::max(largest, std::abs(value));
        for (std::size_t j = 0; j < got[i].size(); ++j) {
            const double error = std::abs(got[i][j] - expected[i][j]) / largest;
            if (!(error <= worst))
                worst = error;
        }
    }
    return worst;
}

/// A model's parameters and gradients in the memory of a Math.
template <class M>
class PlacedParameters : public ParameterSource<M> {
public:
    /// Values far from where training starts, where biases and norms count too.
    PlacedParameters(const ModelConfig& config, Arrays<M>& arrays) {
        for (const auto& shape : unit_shapes(config)) {
            auto& unit = units_.emplace_back();
            for (const auto& tensor : shape.tensors) {
                const auto values = arrays.random(tensor.element_count(),
                                                  number_of(tensor.name) + units_.size(), 0, 0.3);
                unit.values.emplace_back(values);
                unit.gradients.push_back(arrays.put(std::vector<M>(values.size())));
            }
        }
    }
    void forward(std::size_t unit, const typename ParameterSource<M>::Forward& use) override {
        use(units_[unit].values);
    }
    void backward(std::size_t unit, const typename ParameterSource<M>::Backward& use) override {
        use(units_[unit].values, units_[unit].gradients);
    }
    void backward_part(std::size_t unit,
                       const typename ParameterSource<M>::Backward& use) override {
        backward(unit, use);
    }
    template <class Use>
    void for_each_gradient(const Use& use) {
        for (auto& unit : units_) {
            for (auto& gradient : unit.gradients)
                use(gradient);
        }
    }

private:
    struct Unit {
        Tensors<const M> values;
        Tensors<M> gradients;
    };
    std::vector<Unit> units_;
};

/// Loss and all gradients of a model, and its loss in a pass without gradients.
template <class M>
Results model_results(const ModelConfig& config, std::int64_t sequences, Math<M>& math) {
    Arrays<M> arrays(math);
    PlacedParameters<M> parameters(config, arrays);
    Model<M> model(config, math);
    const BatchShape shape{sequences, config.context - 1};
    const auto tokens = random_bytes(shape.rows(), 1);
    const auto targets = random_bytes(shape.rows(), 2);
    Results results;
    results.push_back(
        {model.loss_and_gradients(parameters, shape, tokens, targets, Statistic<M>(0.1))});
    parameters.for_each_gradient(
        [&](std::span<M> gradient) { results.push_back(arrays.get(gradient)); });
    results.push_back({model.loss(parameters, shape, tokens, targets)});
    return results;
}

// Below, `check(name, operation)` is called with each case; the operation takes a Math<M>& and
// returns Results.

template <class Check>
void linear_cases(const Check& check) {
    struct Extents {
        std::int64_t rows, inputs, outputs;
    };
    for (const Extents e : {Extents{1, 3, 5}, {37, 16, 24}, {130, 8, 35}}) {
        check("linear", [e]<class M>(Math<M>& math) {
            Arrays<M> a(math);
            const auto x = a.random(e.rows * e.inputs, 1);
            const auto weight = a.random(e.inputs * e.outputs, 2);
            const auto bias = a.random(e.outputs, 3);
            const auto dy = a.random(e.rows * e.outputs, 4);
            const auto y = a.nothing(e.rows * e.outputs);
            const auto dx = a.nothing(e.rows * e.inputs);
            const auto dweight = a.random(e.inputs * e.outputs, 5);
            const auto dbias = a.random(e.outputs, 6);
            math.linear(e.rows, x, weight, bias, y);
            math.linear_backward(e.rows, x, weight, dy, dx, dweight, dbias);
            return Results{a.get(y), a.get(dx), a.get(dweight), a.get(dbias)};
        });
        check("tied linear", [e]<class M>(Math<M>& math) {
            Arrays<M> a(math);
            const auto x = a.random(e.rows * e.inputs, 1);
            const auto table = a.random(e.inputs * e.outputs, 2);
            const auto dy = a.random(e.rows * e.outputs, 4);
            const auto y = a.nothing(e.rows * e.outputs);
            const auto dx = a.nothing(e.rows * e.inputs);
            const auto dtable = a.nothing(e.inputs * e.outputs);
            math.clear(dtable);
            math.tied_linear(e.rows, x, table, y);
            math.tied_linear_backward(e.rows, x, table, dy, dx, dtable);
            return Results{a.get(y), a.get(dx), a.get(dtable)};
        });
    }
}

template <class Check>
void layer_norm_cases(const Check& check) {
    struct Extents {
        std::int64_t rows, width;
    };
    for (const Extents e : {Extents{1, 7}, {5, 64}, {130, 19}, {9, 256}}) {
        for (const bool has_branch : {false, true}) {
            check("layer norm", [e, has_branch]<class M>(Math<M>& math) {
                Arrays<M> a(math);
                const auto x = a.random(e.rows * e.width, 1, 0.5, 2);
                const auto branch = a.random(has_branch ? e.rows * e.width : 0, 2);
                const auto weight = a.random(e.width, 3, 1, 0.3);
                const auto bias = a.random(e.width, 4);
                const auto dy = a.random(e.rows * e.width, 5);
                const auto sum = a.nothing(has_branch ? e.rows * e.width : 0);
                const auto y = a.nothing(e.rows * e.width);
                const auto dx = a.random(e.rows * e.width, 6);
                const auto dweight = a.random(e.width, 7);
                const auto dbias = a.random(e.width, 8);
                const auto mean = a.template nothing<Statistic<M>>(e.rows);
                const auto inverse = a.template nothing<Statistic<M>>(e.rows);
                math.add_layer_norm(e.rows, x, branch, weight, bias, sum, y, mean, inverse);
                math.layer_norm_backward(e.rows, has_branch ? sum : x, weight, mean, inverse, dy,
                                         dx, dweight, dbias);
                return Results{a.get(sum), a.get(y),       a.get(mean), a.get(inverse),
                               a.get(dx),  a.get(dweight), a.get(dbias)};
            });
        }
    }
}

template <class Check>
void elementwise_cases(const Check& check) {
    for (const std::int64_t count : {1, 64, 2055}) {
        check("gelu, in place too", [count]<class M>(Math<M>& math) {
            Arrays<M> a(math);
            const auto x = a.random(count, 1, 0, 3);
            const auto y = a.nothing(count);
            const auto dx = a.random(count, 2);
            math.gelu(x, y);
            math.gelu_backward(x, dx, dx);
            return Results{a.get(y), a.get(dx)};
        });
    }
    const auto conversion = [&]<class Other>(autolaunch::DataType type, Other) {
        check("conversion", [type]<class M>(Math<M>& math) {
            Arrays<M> a(math);
            const auto from = a.put(as<Other>(random_vector(1000, 1)));
            const auto to = a.nothing(1000);
            const auto sum = a.put(as<Other>(random_vector(1000, 2)));
            math.convert(from.data(), type, to);
            math.add_converted(to, sum.data(), type);
            return Results{a.get(to), a.get(sum)};
        });
    };
    conversion(autolaunch::f32, float{});
    conversion(autolaunch::bf16, autolaunch::bfloat16{});
    conversion(autolaunch::f16, autolaunch::float16{});
}

template <class Check>
void attention_cases(const Check& check) {
    struct Extents {
        std::int64_t sequences, heads, length, head_width;
    };
    // Lengths around a tile of 64, head widths around 64 and 128 columns, and some that are not
    // read 16 bytes at a time.
    for (const Extents e :
         {Extents{2, 2, 7, 13}, {1, 2, 64, 64}, {1, 1, 150, 32}, {2, 1, 65, 80}, {1, 2, 1, 8}}) {
        check("attention", [e]<class M>(Math<M>& math) {
            Arrays<M> a(math);
            const BatchShape shape{e.sequences, e.length};
            const std::int64_t width = e.heads * e.head_width;
            const auto qkv = a.random(shape.rows() * 3 * width, 1);
            const auto dy = a.random(shape.rows() * width, 2);
            const auto y = a.nothing(shape.rows() * width);
            const auto dqkv = a.nothing(shape.rows() * 3 * width);
            const auto count =
                static_cast<std::int64_t>(math.attention_state_count(shape, e.heads));
            const auto state = a.template nothing<Statistic<M>>(count);
            math.attention(shape, e.heads, qkv, state, y);
            math.attention_backward(shape, e.heads, qkv, y, state, dy, dqkv);
            return Results{a.get(y), a.get(dqkv)};
        });
    }
}

template <class Check>
void embedding_cases(const Check& check) {
    struct Extents {
        std::int64_t sequences, length, width;
    };
    for (const Extents e : {Extents{3, 5, 6}, {2, 70, 24}, {1, 2, 150}}) {
        check("embedding", [e]<class M>(Math<M>& math) {
            Arrays<M> a(math);
            const BatchShape shape{e.sequences, e.length};
            const auto tokens = a.put(random_bytes(shape.rows(), 1, 5));  // that repeat
            const auto token_table = a.random(256 * e.width, 2);
            const auto position_table = a.random((e.length + 2) * e.width, 3);
            const auto dx = a.random(shape.rows() * e.width, 4);
            const auto x = a.nothing(shape.rows() * e.width);
            const auto dtoken_table = a.random(256 * e.width, 5);
            const auto dposition_table = a.random((e.length + 2) * e.width, 6);
            math.embedding(shape, tokens, token_table, position_table, x);
            math.embedding_backward(shape, tokens, dx, dtoken_table, dposition_table);
            return Results{a.get(x), a.get(dtoken_table), a.get(dposition_table)};
        });
    }
}

template <class Check>
void cross_entropy_cases(const Check& check) {
    for (const std::int64_t classes : {256, 261, 5000}) {
        for (const double deviation : {1.0, 30.0}) {
            check("cross entropy", [classes, deviation]<class M>(Math<M>& math) {
                Arrays<M> a(math);
                const auto targets = a.put(std::vector<std::uint8_t>{0, 255, 17});
                const auto logits = a.random(3 * classes, 1, 5, deviation);
                math.cross_entropy(3, targets, Statistic<M>(0.25), logits);
                return Results{{math.loss()}, a.get(logits)};
            });
        }
    }
}

template <class Check>
void all_operations(const Check& check) {
    linear_cases(check);
    layer_norm_cases(check);
    elementwise_cases(check);
    attention_cases(check);
    embedding_cases(check);
    cross_entropy_cases(check);
}

}  // namespace gpt::cases
