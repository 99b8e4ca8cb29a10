#pragma once
#include <autolaunch/cxx20.hpp>

// What libtorch and this library have different words for: types, and a module's parts.
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>
#include <autolaunch/comm/types.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/module_units.hpp>

#include <optional>
#include <string>

namespace autolaunch::fsdp::detail {

inline at::ScalarType scalar_type_of(DataType type) {
    switch (type) {
        case DataType::bf16:
            return at::kBFloat16;
        case DataType::f16:
            return at::kHalf;
        case DataType::f64:
            return at::kDouble;
        case DataType::i32:
            return at::kInt;
        case DataType::i64:
            return at::kLong;
        case DataType::i8:
            return at::kChar;
        case DataType::u8:
            return at::kByte;
        default:
            return at::kFloat;
    }
}

inline std::optional<DataType> data_type_from(at::ScalarType type) {
    for (const DataType each : {DataType::f32, DataType::bf16, DataType::f16, DataType::f64,
                                DataType::i32, DataType::i64, DataType::i8, DataType::u8})
        if (scalar_type_of(each) == type)
            return each;
    if (type == at::kBool)
        return DataType::u8;
    return std::nullopt;
}

/// Throws Error{unsupported} for parameters that cannot be sharded.
inline ModuleTree tree_of(const ::torch::nn::Module& module) {
    ModuleTree tree;
    for (const auto& item : module.named_modules("", false)) {
        const auto& each = *item.value();
        tree.modules.push_back({item.key(), each.as<::torch::nn::ModuleListImpl>() != nullptr ||
                                                each.as<::torch::nn::SequentialImpl>() != nullptr});
    }
    for (const auto& item : module.named_parameters()) {
        const at::Tensor& parameter = item.value();
        const at::ScalarType type = parameter.scalar_type();
        if (!parameter.device().is_cpu())
            throw Error(ErrorCode::unsupported,
                        "parameter " + item.key() + " is on " + parameter.device().str(),
                        "TorchModel shards modules in CPU memory: module->to(torch::kCPU) first; "
                        "to train on GPUs write "
                        "the units' calls yourself, with ShardedModel");
        if (type != at::kFloat && type != at::kBFloat16 && type != at::kHalf)
            throw Error(
                ErrorCode::unsupported,
                "parameter " + item.key() + " is of type " + std::string(c10::toString(type)),
                "f32, bf16 and f16 are sharded: module->to(torch::kFloat32) first");
        tree.parameters.push_back({item.key(), parameter.sizes().vec(), parameter.requires_grad(),
                                   parameter.unsafeGetTensorImpl()});
    }
    return tree;
}

}  // namespace autolaunch::fsdp::detail
