#include "fsdp/cuda/cuda_update_passes.hpp"

#include "base/hash.hpp"
#include "comm/communicator_device.hpp"
#include "fsdp/cast.hpp"
#include "fsdp/cuda/stream_lane.hpp"
#include "fsdp/optimizer/exact_sum.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace autolaunch::fsdp {

namespace {

[[noreturn]] void refuse_on_gpus(const std::string& what, const std::string& supported) {
    throw Error(ErrorCode::unsupported, "the optimizers on GPUs do not take " + what, supported);
}

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

CudaUpdatePasses::CudaUpdatePasses(OptimizedModel& model, std::shared_ptr<CudaDevice> device,
                                   std::unique_ptr<Algorithm> algorithm,
                                   const UpdateOptions& options)
    : model_(model),
      device_(std::move(device)),
      kernels_(device_),
      shards_(model.optimizer_shards()),
      algorithm_(std::move(algorithm)),
      settings_(all_tensors(shards_), options.groups, options.defaults, options.decays,
                *algorithm_),
      rounding_seed_(options.rounding_seed),
      mirror_(model.device(), model.calls()) {
    algorithm_->begin({}, settings_.all());  // refuses settings that make no sense
    require_types();
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        ShardState& state = states_.emplace_back();
        for (std::size_t k = 0; k < algorithm_->states().size(); ++k)
            state.tensors.push_back(
                model_.device().allocate({}, shards_[i]->elements * sizeof(float)));
        cut(i, settings_);
    }
    chunk_memory_ = model_.device().allocate({}, chunks_.size() * sizeof(UpdateChunk));
    model_.device().write(chunk_memory_.data(), chunks_.data(), chunk_memory_.bytes(),
                          model_.stream());
    lay_out_table();
    words_ = model_.device().allocate({}, ExactSum::kWords * sizeof(std::int64_t));
    sums_ = model_.device().allocate({}, ExactSum::kWords * sizeof(double));
    returned_ = model_.device().allocate_on_host(sizeof(StepScale));
    const CudaDevice::Current current(*device_);
    side_ = device_->make_stream();
}

// The last step's kernels read and write what goes now.
CudaUpdatePasses::~CudaUpdatePasses() {
    try {
        model_.device().wait(last_step_);
    } catch (const std::exception&) {  // the GPU is lost
    }
}

// All shards of a model have the same types.
void CudaUpdatePasses::require_types() {
    const auto& precision = model_.options().precision;
    rounds_ = precision.master == DataType::bf16;
    if (precision.master != DataType::f32 && !rounds_)
        refuse_on_gpus("masters in " + std::string(name_of(precision.master)),
                       "they do in f32, and in bf16 with stochastic rounding");
    gradient_type_ = precision.accumulate;
    kernel_ = update_kernel_name(std::string(algorithm_->kernel_factors().kernel), gradient_type_,
                                 precision.master, precision.param);
}

void CudaUpdatePasses::cut(std::size_t shard, SettingsOfParameters& settings) {
    for (const auto& run : shards_[shard]->runs) {
        const auto setting =
            static_cast<std::uint32_t>(settings.index_of(run.full_name, *run.parameter));
        const auto index = static_cast<std::uint32_t>(name_hashes_.size());
        name_hashes_.push_back(hash64(run.full_name.data(), run.full_name.size()));
        for (std::int64_t done = 0; done < run.count; done += kChunkElements) {
            UpdateChunk chunk;
            chunk.shard_offset = static_cast<std::uint64_t>(run.shard_offset + done);
            chunk.parameter_offset = static_cast<std::uint64_t>(run.parameter_offset + done);
            chunk.shard = static_cast<std::uint32_t>(shard);
            chunk.setting = setting;
            chunk.run = index;
            chunk.count = static_cast<std::uint32_t>(
                std::min<std::int64_t>(kChunkElements, run.count - done));
            chunks_.push_back(chunk);
        }
    }
}

void CudaUpdatePasses::lay_out_table() {
    table_.shards = padded(sizeof(StepScale));
    table_.factors = table_.shards + padded(shards_.size() * sizeof(UpdateShard));
    table_.keys = table_.factors + padded(algorithm_->kernel_factors().bytes.size());
    table_.bytes = table_.keys + padded(rounds_ ? name_hashes_.size() * sizeof(RoundingKey) : 0);
    table_memory_ = model_.device().allocate({}, table_.bytes);
    for (Upload& upload : uploads_)
        upload.memory = model_.device().allocate_on_host(table_.bytes);
}

void CudaUpdatePasses::upload(const StepPlan& plan) {
    Upload& upload = uploads_[turn_++ % uploads_.size()];
    model_.device().wait(upload.copied);
    auto* bytes = static_cast<std::byte*>(upload.memory.data());
    const auto put = [&](std::size_t offset, const void* from, std::size_t count) {
        if (count > 0)
            std::memcpy(bytes + offset, from, count);
    };
    const StepScale scale{0, static_cast<float>(plan.average), 1};
    put(0, &scale, sizeof scale);
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        const OptimizerShard& shard = *shards_[i];
        UpdateShard entry{shard.gradient, shard.master, shard.param};
        auto& tensors = states_[i].tensors;
        if (!tensors.empty())
            entry.first_state = static_cast<float*>(tensors[0].data());
        if (tensors.size() > 1)
            entry.second_state = static_cast<float*>(tensors[1].data());
        entry.has_gradient = shard.has_gradient ? 1 : 0;
        entry.is_first = states_[i].written == 0 ? 1 : 0;
        put(table_.shards + i * sizeof entry, &entry, sizeof entry);
    }
    const auto factors = algorithm_->kernel_factors().bytes;
    put(table_.factors, factors.data(), factors.size());
    for (std::size_t i = 0; rounds_ && i < name_hashes_.size(); ++i) {
        const RoundingKey key = rounding_key(rounding_seed_, plan.step, name_hashes_[i]);
        put(table_.keys + i * sizeof key, &key, sizeof key);
    }
    model_.device().copy(table_memory_.data(), bytes, table_.bytes, model_.stream());
    upload.copied = model_.device().record(model_.stream());
}

void CudaUpdatePasses::launch_norm(const StepPlan& plan) {
    const CUstream stream = handle_of(model_.stream());
    auto* words = static_cast<std::int64_t*>(words_.data());
    auto* sums = static_cast<double*>(sums_.data());
    const auto* chunks = static_cast<const UpdateChunk*>(chunk_memory_.data());
    device_->fill(words, 0, words_.bytes(), stream);
    if (!chunks_.empty())
        kernels_.squares(gradient_type_,
                         {chunks, chunks_.size(), in_table<UpdateShard>(table_.shards), words},
                         stream);
    kernels_.carry({words, sums}, stream);
    model_.sum_over_shards_on_stream(sums, ExactSum::kWords, "gradient norm");
    ScaleArguments scale{sums, static_cast<StepScale*>(table_memory_.data())};
    scale.average = plan.average;
    scale.max_norm = plan.max_grad_norm.value_or(-1);
    scale.needs_finite = plan.needs_finite ? 1 : 0;
    kernels_.scale(scale, stream);
}

double CudaUpdatePasses::run(const StepPlan& plan) {
    const CudaDevice::Current current(*device_);
    mirror_.forget(model_.stream());
    algorithm_->begin({plan.step, plan.lr, 1}, settings_.all());
    model_.device().wait(model_.stream(), last_step_);
    upload(plan);
    if (plan.needs_norm())
        launch_norm(plan);
    const Fence measured = plan.returns_norm ? model_.device().record(model_.stream()) : Fence();
    UpdateArguments update;
    update.chunks = static_cast<const UpdateChunk*>(chunk_memory_.data());
    update.chunk_count = chunks_.size();
    update.shards = in_table<UpdateShard>(table_.shards);
    update.factors = in_table<std::byte>(table_.factors);
    update.keys = in_table<RoundingKey>(table_.keys);
    update.scale = in_table<StepScale>(0);
    if (!chunks_.empty())
        kernels_.update(kernel_, update, handle_of(model_.stream()));
    last_step_ = model_.device().record(model_.stream());
    StepScale scale;
    if (plan.returns_norm) {
        device_->wait(side_.get(), measured.event);
        device_->copy(returned_.data(), table_memory_.data(), sizeof scale, side_.get());
        device_->wait(device_->record(side_.get()), StreamLane::kLongestWait);
        std::memcpy(&scale, returned_.data(), sizeof scale);
    }
    for (std::size_t i = 0; scale.updates != 0 && i < shards_.size(); ++i)
        if (shards_[i]->has_gradient)
            states_[i].written = 1;
    return scale.sum_norm * plan.average;
}

// Only where a step is refused: the gradients are looked at on the CPU.
std::optional<NonFiniteGradient> CudaUpdatePasses::find_non_finite() {
    std::vector<std::byte> values;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        const OptimizerShard& shard = *shards_[i];
        if (!shard.has_gradient)
            continue;
        for (const auto& run : shard.runs) {
            const std::size_t bytes = size_of(shard.gradient_type);
            values.resize(static_cast<std::size_t>(run.count) * bytes);
            model_.device().read(values.data(),
                                 static_cast<const std::byte*>(shard.gradient) +
                                     static_cast<std::size_t>(run.shard_offset) * bytes,
                                 values.size(), model_.stream());
            const auto found = first_nonfinite(values.data(), shard.gradient_type,
                                               static_cast<std::size_t>(run.count));
            if (!found)
                continue;
            float value = 0;
            cast(&value, DataType::f32, values.data() + *found * bytes, shard.gradient_type, 1);
            return place_of(shards_, i, run,
                            run.parameter_offset + static_cast<std::int64_t>(*found), value);
        }
    }
    return std::nullopt;
}

void CudaUpdatePasses::append_state(State& state) {
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        for (std::size_t k = 0; k < states_[i].tensors.size(); ++k) {
            CommunicatorBuffer& tensor = states_[i].tensors[k];
            const auto reading = mirror_.read(tensor.data(), tensor.bytes(), model_.stream());
            shards_[i]->append_state(state, reading.memory, DataType::f32, algorithm_->states()[k],
                                     reading.arrival);
        }
        if (algorithm_->first_differs())
            append_written(state, *shards_[i], states_[i].written);
    }
}

void CudaUpdatePasses::take_over_state() { mirror_.write_back(model_.stream()); }

std::unique_ptr<UpdatePasses> make_cuda_update_passes(OptimizedModel& model,
                                                      std::unique_ptr<Algorithm> algorithm,
                                                      const UpdateOptions& options) {
    return std::make_unique<CudaUpdatePasses>(model, cuda_device_of(model.world()),
                                              std::move(algorithm), options);
}

}  // namespace autolaunch::fsdp
