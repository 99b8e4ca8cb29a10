#pragma once
#include "fsdp/optimizer/kernels.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::fsdp {

/// What holds for one set of parameters, after their group had its say.
struct ParameterSettings {
    double lr_scale = 1;
    double weight_decay = 0;
    double beta1 = 0, beta2 = 0;
    double eps = 0;
    double momentum = 0;

    bool operator==(const ParameterSettings&) const = default;
};

/// What is the same for all parameters in a step.
struct StepNumbers {
    std::int64_t step = 1;  ///< from 1
    double lr = 0;
    double gradient_scale = 1;  ///< average, unscale and clip in one
};

/// What one optimizer adds to the step that all share: its state tensors and its element kernel.
class Algorithm {
public:
    /// Settings that it has a use for, besides lr_scale and weight_decay.
    struct Uses {
        bool beta1 = false, beta2 = false, eps = false, momentum = false;
    };

    virtual ~Algorithm() = default;
    virtual std::string_view name() const = 0;
    virtual Uses uses() const = 0;
    /// Suffixes of its state tensors, at most two.
    virtual std::vector<std::string_view> states() const = 0;
    /// Before the shards are updated: the factors for each of the settings.
    virtual void begin(const StepNumbers& numbers,
                       const std::vector<ParameterSettings>& settings) = 0;
    /// The same factors for a kernel of a GPU: its name in cuda/kernel_bodies.hpp, and the structs
    /// one after the other.
    struct KernelFactors {
        std::string_view kernel;
        std::span<const std::byte> bytes;
    };
    virtual KernelFactors kernel_factors() const = 0;
    /// Whether the first update of a state differs from the others.
    virtual bool first_differs() const { return false; }
    /// Updates a range with the factors of settings[setting]; `first` says that its state was never
    /// written. Threads: many at a time.
    virtual void update(const OptimizerKernels& kernels, std::size_t setting, bool first,
                        const ElementRange& range) const = 0;
};

/// Throws Error{invalid_argument} that says "AdamW: lr is negative" when `holds` is false.
inline void require_option(bool holds, std::string_view optimizer, const std::string& what) {
    if (!holds)
        throw Error(ErrorCode::invalid_argument, std::string(optimizer) + ": " + what);
}

}  // namespace autolaunch::fsdp
