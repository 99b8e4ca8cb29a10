#include "base/text.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "report/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace autolaunch::launcher {

namespace {

// What torch.optim's optimizers keep for a parameter, and those that are used most beside them.
constexpr std::array<std::string_view, 27> kKept = {"exp_avg",
                                                    "exp_avg_sq",
                                                    "max_exp_avg_sq",
                                                    "exp_avg_sq_row",
                                                    "exp_avg_sq_col",
                                                    "exp_avg_res",
                                                    "exp_avg_diff",
                                                    "exp_inf",
                                                    "momentum_buffer",
                                                    "momentum",
                                                    "square_avg",
                                                    "acc_delta",
                                                    "grad_avg",
                                                    "sum",
                                                    "step",
                                                    "prev",
                                                    "step_size",
                                                    "mu",
                                                    "mu_product",
                                                    "nu",
                                                    "eta",
                                                    "ax",
                                                    "RMS",
                                                    "neg_pre_grad",
                                                    "row_var",
                                                    "col_var",
                                                    "variance"};
constexpr std::array<std::string_view, 6> kOptimizers = {
    "optim", "optimizer", "optimizers", "opt", "optimizer_state_dict", "optim_state_dict"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

bool ends_with_part(std::string_view name, std::string_view part) {
    return name == part || (name.size() > part.size() && name.ends_with(part) &&
                            name[name.size() - part.size() - 1] == '.');
}

// As PyTorch's distributed checkpoint writes a state_dict() of an optimizer:
// "optim.state.PARAMETER.exp_avg", "optimizer.state.0.step", "optim.param_groups.0.lr"; the first
// word is the trainer's choice.
bool is_torch_optimizer(const TensorIndex& tensors, const std::string& name) {
    constexpr std::string_view kState = "state", kGroups = "param_groups";
    const std::vector<std::string> parts = split(name, '.');
    for (std::size_t i = 0; i + 2 < parts.size(); ++i) {
        if (parts[i] != kState && parts[i] != kGroups)
            continue;
        if (i > 0 && is_one_of(kOptimizers, parts[i - 1]))
            return true;
        if (parts[i] != kState)
            continue;
        if (is_one_of(kKept, parts.back()))
            return true;
        // What is not known by its name belongs to a parameter that is there, by more than a
        // number.
        const std::string parameter =
            join({parts.begin() + static_cast<std::ptrdiff_t>(i) + 1, parts.end() - 1}, ".");
        if (parameter.find_first_not_of("0123456789") == parameter.npos)
            return false;
        return std::any_of(tensors.begin(), tensors.end(), [&](const auto& other) {
            return other.first != name && ends_with_part(other.first, parameter);
        });
    }
    return false;
}

}  // namespace

TensorRole role_of(const TensorIndex& tensors, const Manifest::Tensor& tensor) {
    if (tensor.name.starts_with("opaque."))
        return TensorRole::opaque;
    const std::string_view name = tensor.name;
    for (const std::string_view suffix : {".exp_avg", ".exp_avg_sq", ".momentum_buffer"})
        if (name.ends_with(suffix) && tensors.find(name.substr(0, name.size() - suffix.size())))
            return TensorRole::optimizer;
    return is_torch_optimizer(tensors, tensor.name) ? TensorRole::optimizer
                                                    : TensorRole::parameter;
}

std::string counts_by_role(const Manifest& manifest,
                           const std::vector<const Manifest::Tensor*>& tensors) {
    constexpr const char* kWhat[] = {"parameters", "optimizer", "opaque"};
    struct Count {
        std::size_t tensors = 0;
        std::uint64_t bytes = 0;
        std::int64_t elements = 0;
    };
    const TensorIndex all(manifest);
    std::array<Count, 3> counts;
    for (const auto* tensor : tensors) {
        Count& count = counts.at(static_cast<std::size_t>(role_of(all, *tensor)));
        ++count.tensors;
        count.bytes += bytes_of(*tensor);
        count.elements += tensor->element_count();
    }
    std::string text;
    for (std::size_t role = 0; role < counts.size(); ++role)
        if (const Count& count = counts[role]; count.tensors > 0)
            text += fmt::format("  {:<11}{} tensors, {} elements, {}\n", kWhat[role], count.tensors,
                                format_rate(static_cast<double>(count.elements)),
                                format_bytes(count.bytes));
    return text;
}

}  // namespace autolaunch::launcher
