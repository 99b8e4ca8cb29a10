#pragma once
#include <autolaunch/borrowed.hpp>
#include <autolaunch/error.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::fsdp {

/// Activation checkpointing (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016):
/// of `every` layers in a row, a segment, the input alone is kept, and backward computes the rest
/// again. So a trainer needs activations for `every` layers instead of all, and a second forward
/// pass but for the last segment's. With the same parameters and inputs the same bits come out.
///
/// Owns the inputs, in whatever a trainer keeps one: a std::vector<float>, a torch::Tensor, a GPU's
/// memory. Activations are the trainer's, in slots.
///
///     ActivationCheckpoints<std::vector<float>> kept(layers, 1);
///     // forward
///     for (int i = 0; i < layers; ++i) {
///         kept.enter(i) = x;
///         x = forward(i, activations[kept.slot(i)], kept.input(i));
///     }
///     // backward
///     for (int i = layers; i-- > 0;) {
///         kept.restore(i, [&](int layer) {
///             auto y = forward(layer, activations[kept.slot(layer)], kept.input(layer));
///             if (!kept.ends_segment(layer))
///                 kept.input(layer + 1) = y;
///         });
///         backward(i, activations[kept.slot(i)], kept.input(i));
///     }
///
/// Where parameters are sharded, forward unshards its unit as ever: restored layers are in the
/// order of units, which is the same on all ranks and in all steps.
///
/// Owner: the trainer. Threads: one. Blocks: never.
template <class Input>
class ActivationCheckpoints {
public:
    /// every: layers of a segment; 0: all of them, which keeps everything and computes nothing
    /// again. `make` makes a place for an input.
    explicit ActivationCheckpoints(
        int layers, int every = 1, const std::function<Input()>& make = [] { return Input(); })
        : layers_(layers), every_(every == 0 ? layers : every) {
        if (layers < 1 || every < 0 || every > layers)
            throw Error(ErrorCode::invalid_argument,
                        "activation checkpoints after every " + std::to_string(every) + " of " +
                            std::to_string(layers) + " layers",
                        "from 1 to the number of layers, or 0 to compute nothing again");
        const int segments = (layers_ + every_ - 1) / every_;
        inputs_.reserve(static_cast<std::size_t>(segments + every_ - 1));
        for (int i = 0; i < segments + every_ - 1; ++i)
            inputs_.push_back(make());
    }

    int layers() const noexcept { return layers_; }
    /// Sets of activations that the trainer has.
    int slot_count() const noexcept { return every_; }
    /// Which of them is this layer's.
    int slot(int layer) const noexcept { return layer % every_; }
    /// Places for inputs: one a segment, and one for each of a segment's other layers.
    int input_count() const noexcept { return static_cast<int>(inputs_.size()); }
    bool begins_segment(int layer) const noexcept { return layer % every_ == 0; }
    bool ends_segment(int layer) const noexcept {
        return layer % every_ == every_ - 1 || layer == layers_ - 1;
    }

    /// In forward, when the layer is about to be computed into its slot: the place for its input.
    Input& enter(int layer) & {
        present_ = layer / every_;
        return input(layer);
    }
    Input& enter(int layer) && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// Of a layer that begins a segment it stays; of others it is there as the slot is.
    Input& input(int layer) & {
        const int index = begins_segment(layer) ? every_ - 1 + layer / every_ : layer % every_ - 1;
        return inputs_[static_cast<std::size_t>(index)];
    }
    Input& input(int layer) && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// In backward, before the layer's: calls forward(i) for all layers of its segment, in order,
    /// unless they are what was computed last. input(i) of the first is there, and forward(i) makes
    /// that of the next. True when it did.
    template <class Forward>
    bool restore(int layer, Forward forward) {
        const int segment = layer / every_;
        if (present_ == segment)
            return false;
        for (int i = segment * every_; i <= layer; ++i)
            forward(i);
        present_ = segment;
        return true;
    }

private:
    int layers_;
    int every_;
    int present_ = -1;  // the segment whose activations are in the slots
    std::vector<Input> inputs_;
};

}  // namespace autolaunch::fsdp
