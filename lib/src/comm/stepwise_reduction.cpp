#include "comm/stepwise_reduction.hpp"

#include "comm/reduce.hpp"

#include <algorithm>

namespace autolaunch {
namespace {

template <class Half>
void widen(const void* from, float* to, std::size_t count, float factor) {
    const auto* halves = static_cast<const Half*>(from);
    for (std::size_t i = 0; i < count; ++i)
        to[i] = static_cast<float>(halves[i]) * factor;
}

template <class Half>
void narrow(const float* from, void* to, std::size_t count) {
    auto* halves = static_cast<Half*>(to);
    for (std::size_t i = 0; i < count; ++i)
        halves[i] = Half(from[i]);
}

}  // namespace

StepwiseReduction::StepwiseReduction(const CollectiveCall& call, int group_size)
    : type(call.type),
      halves(call.type == DataType::bf16 || call.type == DataType::f16),
      travelling(halves ? DataType::f32 : call.type),
      op(call.op),
      ranks(static_cast<std::size_t>(group_size)) {}

ReduceOp StepwiseReduction::step_op() const {
    const bool sums =
        op.kind() == ReduceOp::Kind::avg || op.kind() == ReduceOp::Kind::pre_multiplied_sum;
    return sums ? ReduceOp::sum : op;
}

bool StepwiseReduction::rewrites() const {
    return halves || op.kind() == ReduceOp::Kind::pre_multiplied_sum;
}
bool StepwiseReduction::finishes() const { return halves || op.kind() == ReduceOp::Kind::avg; }

void StepwiseReduction::prepare(const void* from, void* to, std::size_t count) const {
    const double factor = op.factor();
    if (type == DataType::bf16)
        return widen<bfloat16>(from, static_cast<float*>(to), count, float(factor));
    if (type == DataType::f16)
        return widen<float16>(from, static_cast<float*>(to), count, float(factor));
    reduce_elements({.inputs = {&from, 1}, .factors = {&factor, 1}, .outputs = {&to, 1}}, count,
                    type, op);
}

void StepwiseReduction::finish(void* sums, void* to, std::size_t count) const {
    const void* input = sums;
    void* output = halves ? sums : to;
    if (op.kind() == ReduceOp::Kind::avg)
        reduce_elements({.inputs = {&input, 1}, .outputs = {&output, 1}, .ranks = ranks}, count,
                        travelling, op);
    else if (!halves && sums != to)
        std::copy_n(static_cast<std::byte*>(sums), count * bytes(), static_cast<std::byte*>(to));
    if (type == DataType::bf16)
        narrow<bfloat16>(static_cast<float*>(sums), to, count);
    if (type == DataType::f16)
        narrow<float16>(static_cast<float*>(sums), to, count);
}

}  // namespace autolaunch
