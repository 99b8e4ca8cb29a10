#include "fsdp/bucket.hpp"

#include "fsdp/cast.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::fsdp {

namespace {

std::string name_of_units(const BucketPlan& plan, std::span<const UnitToPlan> units) {
    const std::string& first = units[plan.members.front().unit_index].name;
    if (plan.members.size() == 1)
        return first;
    return first + ".." + units[plan.members.back().unit_index].name;
}

}  // namespace

Bucket::Bucket(std::size_t index, const BucketPlan& plan, std::span<const UnitToPlan> units,
               const ShardMesh& mesh, const ShardedModelOptions& options)
    : index_(index),
      name_(name_of_units(plan, units)),
      trainable_(plan.trainable),
      resident_(plan.whole_parameters),
      keeps_whole_gradient_(plan.whole_gradients),
      layout_(layout_of(plan, units, mesh.shard_count)),
      shard_rank_(mesh.shard_rank),
      param_type_(options.precision.param),
      master_type_(plan.trainable ? options.precision.master : options.precision.param),
      gradient_type_(options.precision.accumulate),
      may_offload_(plan.trainable && options.offload_optimizer) {
    describe_members(plan, units, mesh);
}

void Bucket::describe_members(const BucketPlan& plan, std::span<const UnitToPlan> units,
                              const ShardMesh& mesh) {
    std::size_t placement = 0;
    for (const auto& planned : plan.members) {
        Member member;
        member.unit_index = planned.unit_index;
        member.begin = layout_.placements()[placement].offset;
        member.shard.name = units[planned.unit_index].name;
        for (std::size_t i = 0; i < planned.parameters.size(); ++i) {
            const ParameterSpec& parameter = layout_.placements()[placement + i].parameter;
            StateTensor tensor;
            tensor.name = parameter.name;
            tensor.shape = parameter.shape;
            tensor.replicated = mesh.shard_count == 1 && mesh.replica_count > 1;
            tensor.replica = tensor.replicated ? 0 : mesh.replica;
            tensor.frozen = !plan.trainable;
            member.shard.tensors.push_back(std::move(tensor));
        }
        if (!members_.empty())
            members_.back().end = member.begin;
        members_.push_back(std::move(member));
        placement += planned.parameters.size();
    }
    members_.back().end = layout_.arena_elements();
    placement = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) {
        describe_runs(members_[i], plan.members[i], units, placement);
        placement += plan.members[i].parameters.size();
    }
}

// A member's part of this rank's shard may be empty.
void Bucket::describe_runs(Member& member, const BucketPlan::Member& plan,
                           std::span<const UnitToPlan> units, std::size_t first_placement) {
    const std::int64_t shard_begin = shard_rank_ * layout_.shard_elements();
    const std::int64_t begin = std::max(member.begin, shard_begin);
    const std::int64_t end = std::min(member.end, shard_begin + layout_.shard_elements());
    member.shard.elements = static_cast<std::size_t>(std::max<std::int64_t>(0, end - begin));
    for (const auto& interval : layout_.intervals(shard_rank_)) {
        const std::size_t index = interval.parameter_index;
        if (index < first_placement || index >= first_placement + plan.parameters.size())
            continue;
        const auto& parameters = units[plan.unit_index].parameters;
        member.shard.runs.push_back(
            {&parameters[plan.parameters[index - first_placement]],
             layout_.placements()[index].parameter.name, interval.parameter_offset,
             interval.shard_offset - (begin - shard_begin), interval.count});
    }
}

Bucket::Member& Bucket::member(std::size_t unit_index) {
    return *std::find_if(members_.begin(), members_.end(),
                         [&](const Member& member) { return member.unit_index == unit_index; });
}

std::size_t Bucket::shard_offset(std::size_t element_bytes) const noexcept {
    return static_cast<std::size_t>(shard_rank_) * shard_elements() * element_bytes;
}

std::byte* Bucket::param_shard() const noexcept {
    return static_cast<std::byte*>(param_.data()) +
           (resident_ ? shard_offset(size_of(param_type_)) : 0);
}

std::byte* Bucket::gradient_shard() const noexcept {
    return resident_gradient() + (gradient_is_whole_ ? shard_offset(size_of(gradient_type_)) : 0);
}

void Bucket::allocate_parameters(const ShardMesh& mesh, ModelDevice& device) {
    const std::size_t elements = resident_ ? arena_elements() : shard_elements();
    param_ = device.allocate(mesh.gather, elements * size_of(param_type_));
    offloaded_ = may_offload_ && device.is_gpu();
    if (offloaded_) {
        master_ = device.allocate_on_host(shard_elements() * size_of(master_type_));
        host_param_ = device.allocate_on_host(shard_elements() * size_of(param_type_));
    } else if (has_own_master()) {
        master_ = device.allocate({}, shard_elements() * size_of(master_type_));
    }
    std::byte* rounded = offloaded_ ? host_param() : param_shard();
    const std::int64_t shard_begin = shard_rank_ * layout_.shard_elements();
    for (Member& member : members_) {
        const auto offset =
            static_cast<std::size_t>(std::max<std::int64_t>(0, member.begin - shard_begin));
        if (member.shard.elements == 0)
            continue;
        member.shard.master_type = master_type_;
        member.shard.master = master_shard() + offset * size_of(master_type_);
        member.shard.param_type = param_type_;
        if (has_own_master())
            member.shard.param = rounded + offset * size_of(param_type_);
    }
}

void Bucket::allocate_gradients(const ShardMesh& mesh, ModelDevice& device, bool whole) {
    gradient_is_whole_ = whole;
    const auto& communicator = whole && mesh.scatter ? mesh.scatter : mesh.replicas;
    if (offloaded_)
        host_gradient_ = device.allocate_on_host(shard_elements() * size_of(gradient_type_));
    gradient_ = device.allocate(
        communicator, (whole ? arena_elements() : shard_elements()) * size_of(gradient_type_));
    const std::int64_t shard_begin = shard_rank_ * layout_.shard_elements();
    for (Member& member : members_) {
        const auto offset =
            static_cast<std::size_t>(std::max<std::int64_t>(0, member.begin - shard_begin));
        member.shard.gradient_type = gradient_type_;
        if (member.shard.elements > 0)
            member.shard.gradient = (offloaded_ ? host_gradient() : gradient_shard()) +
                                    offset * size_of(gradient_type_);
    }
}

void Bucket::refresh_param(ModelDevice& device, Stream stream) {
    if (offloaded_) {
        cast(host_param(), param_type_, master_shard(), master_type_, shard_elements());
        device.write(param_shard(), host_param(), host_param_.bytes(), stream);
    } else if (has_own_master()) {
        device.cast(param_shard(), param_type_, master_shard(), master_type_, shard_elements(),
                    stream);
    }
}

}  // namespace autolaunch::fsdp
