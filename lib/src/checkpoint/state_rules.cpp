#include "checkpoint/state_rules.hpp"

#include <autolaunch/error.hpp>

#include <set>
#include <string>
#include <string_view>

namespace autolaunch {

void require_valid(const fsdp::State& state) {
    std::set<std::string_view> names;
    for (const auto& tensor : state) {
        const auto reject = [&](const std::string& problem) {
            throw Error(ErrorCode::invalid_argument, "state tensor " + tensor.name + " " + problem);
        };
        if (tensor.name.empty())
            reject("has no name");
        if (!names.insert(tensor.name).second)
            reject("is named twice");
        const std::int64_t elements =
            fsdp::ParameterSpec{tensor.name, tensor.shape}.element_count();
        if (elements > INT64_MAX / static_cast<std::int64_t>(size_of(tensor.type)))
            reject("is too large");
        for (const auto& piece : tensor.pieces) {
            if (piece.count <= 0 || piece.offset < 0 || piece.offset > elements - piece.count)
                reject("has a piece outside its shape");
            if (!piece.data)
                reject("has a piece without memory");
        }
        const bool whole = tensor.pieces.size() == 1 && tensor.pieces[0].count == elements;
        if (tensor.replicated && !whole)
            reject("is replicated, but this rank does not hold all of it");
    }
}

void require_valid(std::span<const OpaqueState> opaque) {
    std::set<std::string_view> names;
    for (const OpaqueState& one : opaque)
        if (one.name.empty() || !names.insert(one.name).second)
            throw Error(ErrorCode::invalid_argument,
                        one.name.empty() ? "opaque state has no name"
                                         : "opaque state " + one.name + " is named twice");
}

}  // namespace autolaunch
