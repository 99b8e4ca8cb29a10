#pragma once
#include <autolaunch/checkpoint/manifest.hpp>

#include <string_view>
#include <unordered_map>

namespace autolaunch {

/// The tensors of a manifest by their names, for whoever asks for more than one of them. The
/// manifest must outlive it, as it is. Pure.
class TensorIndex {
public:
    explicit TensorIndex(const Manifest& manifest) {
        by_name_.reserve(manifest.tensors.size());
        for (const Manifest::Tensor& tensor : manifest.tensors)
            by_name_.emplace(tensor.name, &tensor);
    }
    TensorIndex(Manifest&&) = delete;

    /// Null where there is none.
    const Manifest::Tensor* find(std::string_view name) const {
        const auto found = by_name_.find(name);
        return found == by_name_.end() ? nullptr : found->second;
    }
    auto begin() const { return by_name_.begin(); }
    auto end() const { return by_name_.end(); }

private:
    std::unordered_map<std::string_view, const Manifest::Tensor*> by_name_;
};

}  // namespace autolaunch
