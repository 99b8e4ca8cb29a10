#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpt {

/// What fixes the model's size.
struct ModelConfig {
    std::int64_t layers = 4;
    std::int64_t heads = 4;
    std::int64_t width = 128;
    std::int64_t context = 128;  ///< longest sequence
    /// At least all bytes. Text is read as bytes, so what is beyond 256 never occurs: it gives a
    /// model the size and the cost of one with a larger vocabulary.
    std::int64_t vocabulary = 256;
    bool tied_head = false;  ///< the head multiplies with the token table, as GPT-2's does
    bool operator==(const ModelConfig&) const = default;
};

inline constexpr std::int64_t kBytes = 256;

struct TensorShape {
    std::string name;
    std::vector<std::int64_t> extents;

    std::int64_t element_count() const {
        std::int64_t count = 1;
        for (const std::int64_t extent : extents)
            count *= extent;
        return count;
    }
};

/// What is gathered and used together: the embedding, one block, or the head.
struct UnitShape {
    std::string name;
    std::vector<TensorShape> tensors;
};

/// The units in forward order: "embedding", "h.0" … "h.<layers-1>", "head". A tied head is a part
/// of the embedding's.
std::vector<UnitShape> unit_shapes(const ModelConfig& config);

/// The values that training starts from: weights are normal with deviation 0.02 (those that end a
/// residual branch divided by sqrt(2 layers), as in GPT-2), norms are one, biases zero. Each value
/// is a function of the seed, the tensor's full name ("<unit>.<tensor>") and its index alone, so a
/// sharded model starts the same on any number of ranks.
void initial_values(const ModelConfig& config, std::uint64_t seed, const std::string& name,
                    std::int64_t first, std::span<float> values);

/// One unit's tensors, in the order of its shape.
template <class T>
using Tensors = std::vector<std::span<T>>;

/// Where the model finds its parameters and leaves its gradients: whole in memory, or sharded over
/// ranks.
template <class T>
class ParameterSource {
public:
    using Forward = std::function<void(const Tensors<const T>& parameters)>;
    using Backward =
        std::function<void(const Tensors<const T>& parameters, const Tensors<T>& gradients)>;

    virtual ~ParameterSource() = default;
    /// Calls `use` while the unit's parameters are whole.
    virtual void forward(std::size_t unit, const Forward& use) = 0;
    /// Calls `use`, which adds to the unit's gradients; they are complete on this rank when it
    /// returns.
    virtual void backward(std::size_t unit, const Backward& use) = 0;
    /// The same for a part of the unit's gradients: they are complete after the backward() that
    /// follows.
    virtual void backward_part(std::size_t unit, const Backward& use) = 0;
};

/// All parameters and gradients in the CPU's memory.
template <class T>
class LocalParameters : public ParameterSource<T> {
public:
    explicit LocalParameters(const std::vector<UnitShape>& shapes) {
        for (const auto& shape : shapes) {
            auto& unit = units_.emplace_back();
            for (const auto& tensor : shape.tensors) {
                unit.values.emplace_back(static_cast<std::size_t>(tensor.element_count()));
                unit.gradients.emplace_back(static_cast<std::size_t>(tensor.element_count()));
            }
        }
    }

    void forward(std::size_t unit, const typename ParameterSource<T>::Forward& use) override {
        use(views<const T>(units_[unit].values));
    }
    void backward(std::size_t unit, const typename ParameterSource<T>::Backward& use) override {
        use(views<const T>(units_[unit].values), views<T>(units_[unit].gradients));
    }

    void backward_part(std::size_t unit,
                       const typename ParameterSource<T>::Backward& use) override {
        backward(unit, use);
    }

    std::vector<T>& values(std::size_t unit, std::size_t tensor) {
        return units_[unit].values[tensor];
    }
    std::vector<T>& gradients(std::size_t unit, std::size_t tensor) {
        return units_[unit].gradients[tensor];
    }

private:
    struct Unit {
        std::vector<std::vector<T>> values;
        std::vector<std::vector<T>> gradients;
    };
    template <class View>
    static Tensors<View> views(std::vector<std::vector<T>>& tensors) {
        Tensors<View> all;
        for (auto& tensor : tensors)
            all.emplace_back(tensor);
        return all;
    }
    std::vector<Unit> units_;
};

}  // namespace gpt
