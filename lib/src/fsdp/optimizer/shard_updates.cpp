#include "fsdp/optimizer/shard_updates.hpp"

#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

namespace autolaunch::fsdp {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kBlock = 1024;        // elements, of gradients widened for the norm
constexpr std::int64_t kSlice = 64 * 1024;  // elements: some tens of microseconds of work
constexpr std::size_t kWorthAThread =
    256 * 1024;  // elements; below it waking a thread costs more than it brings

int threads_for(const std::vector<OptimizerShard*>& shards, int asked) {
    std::size_t elements = 0;
    for (const OptimizerShard* shard : shards)
        elements += shard->elements;
    const std::size_t useful = std::max<std::size_t>(1, elements / kWorthAThread);
    const auto threads = static_cast<std::size_t>(optimizer_threads(asked));
    return static_cast<int>(asked > 0 ? threads : std::min(threads, useful));
}

[[noreturn]] void refuse_type(const char* what, DataType type, const char* supported) {
    throw Error(
        ErrorCode::unsupported,
        std::string("the optimizers do not take ") + what + " in " + std::string(name_of(type)),
        supported);
}

void require_types(const OptimizerShard& shard) {
    if (!can_update(shard.gradient_type, DataType::f32, {}))
        refuse_type("gradients", shard.gradient_type, "they do in f32, bf16 and f16");
    if (!can_update(shard.gradient_type, shard.master_type, {}))
        refuse_type("masters", shard.master_type,
                    "they do in f32, and in bf16 with stochastic rounding");
    if (shard.param != nullptr &&
        !can_update(shard.gradient_type, shard.master_type, shard.param_type))
        refuse_type("parameters", shard.param_type,
                    "they do in f32, bf16 and f16, and with masters in bf16 in bf16 alone");
}

const std::byte* at(const void* memory, DataType type, std::int64_t element) {
    return static_cast<const std::byte*>(memory) +
           static_cast<std::size_t>(element) * size_of(type);
}
std::byte* at(void* memory, DataType type, std::int64_t element) {
    return static_cast<std::byte*>(memory) + static_cast<std::size_t>(element) * size_of(type);
}

/// The gradient in f32: where it lies, or widened into `scratch`.
const float* gradient_of(const OptimizerKernels& kernels, const OptimizerShard& shard,
                         std::int64_t first, std::size_t count, float* scratch) {
    const void* from = at(shard.gradient, shard.gradient_type, first);
    if (shard.gradient_type == DataType::f32)
        return static_cast<const float*>(from);
    if (shard.gradient_type == DataType::bf16) {
        kernels.widen_bf16(static_cast<const bfloat16*>(from), scratch, count);
    } else {
        kernels.widen_f16(static_cast<const float16*>(from), scratch, count);
    }
    return scratch;
}

}  // namespace

StateMemory::StateMemory(std::size_t elements) {
    const std::size_t bytes = (elements * sizeof(float) + kPage - 1) / kPage * kPage;
    const bool large = bytes >= kLargePage;
    // Not aligned_alloc(): the standard wants its size to be a multiple of the alignment.
    void* memory = nullptr;
    if (::posix_memalign(&memory, large ? kLargePage : kPage, bytes + (bytes == 0 ? kPage : 0)) !=
        0)
        throw std::bad_alloc();
    memory_.reset(static_cast<float*>(memory));
    if (large)
        ::madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // a wish: what it returns does not matter
    std::memset(memory_.get(), 0, bytes);
}

std::vector<StateTensor> all_tensors(const std::vector<OptimizerShard*>& shards) {
    std::vector<StateTensor> all;
    for (const OptimizerShard* shard : shards)
        all.insert(all.end(), shard->tensors.begin(), shard->tensors.end());
    return all;
}

RoundingKey rounding_key(std::uint64_t seed, std::int64_t step, std::uint64_t name_hash) {
    const std::uint64_t words[3] = {seed, static_cast<std::uint64_t>(step), name_hash};
    const std::uint64_t hash = hash64(words, sizeof words);
    return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

NonFiniteGradient place_of(const std::vector<OptimizerShard*>& shards, std::size_t shard,
                           const OptimizerShard::Run& run, std::int64_t parameter_element,
                           float value) {
    const auto& tensors = shards[shard]->tensors;
    const auto tensor = std::find_if(tensors.begin(), tensors.end(), [&](const auto& candidate) {
        return candidate.name == run.full_name;
    });
    return {shard, static_cast<std::size_t>(tensor - tensors.begin()), parameter_element, value};
}

ShardUpdates::ShardUpdates(std::vector<OptimizerShard*> shards,
                           std::unique_ptr<Algorithm> algorithm, const UpdateOptions& options)
    : shards_(std::move(shards)),
      algorithm_(std::move(algorithm)),
      settings_(all_tensors(shards_), options.groups, options.defaults, options.decays,
                *algorithm_),
      rounding_seed_(options.rounding_seed),
      kernels_(&optimizer_kernels()),
      workers_(threads_for(shards_, options.threads)) {
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        require_types(*shards_[i]);
        ShardState& state = states_.emplace_back();
        for (std::size_t k = 0; k < algorithm_->states().size(); ++k)
            state.tensors.emplace_back(shards_[i]->elements);
        cut(i);
    }
    algorithm_->begin({}, settings_.all());  // refuses settings that make no sense
}

void ShardUpdates::cut(std::size_t shard) {
    for (const auto& run : shards_[shard]->runs) {
        const std::size_t setting = settings_.index_of(run.full_name, *run.parameter);
        const std::uint64_t name_hash = hash64(run.full_name.data(), run.full_name.size());
        for (std::int64_t done = 0; done < run.count; done += kSlice) {
            slices_.push_back({shard, setting, name_hash, run.parameter_offset + done,
                               run.shard_offset + done,
                               static_cast<std::size_t>(std::min(kSlice, run.count - done))});
        }
    }
}

std::vector<const ShardUpdates::Slice*> ShardUpdates::slices_with_gradient(
    const ShardRange& range) const {
    std::vector<const Slice*> slices;
    for (const Slice& slice : slices_) {
        if (range.contains(slice.shard) && shards_[slice.shard]->has_gradient)
            slices.push_back(&slice);
    }
    return slices;
}

ExactSum ShardUpdates::sum_of_squares(const ShardRange& range) {
    const auto slices = slices_with_gradient(range);
    std::vector<ExactSum> sums(static_cast<std::size_t>(workers_.size()));
    workers_.run(slices.size(), [&](std::size_t thread, std::size_t item) {
        const Slice& slice = *slices[item];
        const OptimizerShard& shard = *shards_[slice.shard];
        alignas(64) float scratch[kBlock];
        double blocks[kBlock / kSumBlock];
        for (std::size_t done = 0; done < slice.count; done += kBlock) {
            const std::size_t count = std::min(kBlock, slice.count - done);
            kernels_->block_sums(
                gradient_of(*kernels_, shard, slice.shard_offset + static_cast<std::int64_t>(done),
                            count, scratch),
                blocks, count);
            for (std::size_t i = 0; i * kSumBlock < count; ++i)
                sums[thread].add(blocks[i]);
        }
    });
    ExactSum total;
    for (ExactSum& sum : sums)
        total.add(sum);
    total.carry();
    return total;
}

std::optional<NonFiniteGradient> ShardUpdates::find_non_finite() const {
    for (const Slice* slice : slices_with_gradient()) {
        const OptimizerShard& shard = *shards_[slice->shard];
        for (std::size_t i = 0; i < slice->count; ++i) {
            float scratch = 0;
            const auto offset = static_cast<std::int64_t>(i);
            const float value =
                *gradient_of(*kernels_, shard, slice->shard_offset + offset, 1, &scratch);
            if (std::isfinite(value))
                continue;
            const auto run =
                std::find_if(shard.runs.begin(), shard.runs.end(), [&](const auto& candidate) {
                    return slice->shard_offset < candidate.shard_offset + candidate.count;
                });
            return place_of(shards_, slice->shard, *run, slice->parameter_offset + offset, value);
        }
    }
    return std::nullopt;
}

void ShardUpdates::update(const StepNumbers& numbers, const ShardRange& range) {
    algorithm_->begin(numbers, settings_.all());
    const auto slices = slices_with_gradient(range);
    workers_.run(slices.size(),
                 [&](std::size_t, std::size_t item) { update_slice(*slices[item], numbers.step); });
    for (std::size_t i = 0; i < shards_.size(); ++i)
        if (range.contains(i) && shards_[i]->has_gradient)
            states_[i].written = 1;
}

void ShardUpdates::update_slice(const Slice& slice, std::int64_t step) const {
    const OptimizerShard& shard = *shards_[slice.shard];
    const ShardState& state = states_[slice.shard];
    ElementRange range;
    range.count = slice.count;
    range.gradient_type = shard.gradient_type;
    range.gradient = at(shard.gradient, shard.gradient_type, slice.shard_offset);
    range.master_type = shard.master_type;
    range.master = at(shard.master, shard.master_type, slice.shard_offset);
    if (!state.tensors.empty())
        range.first_state = state.tensors[0].floats() + slice.shard_offset;
    if (state.tensors.size() > 1)
        range.second_state = state.tensors[1].floats() + slice.shard_offset;
    if (shard.param != nullptr) {
        range.param_type = shard.param_type;
        range.param = at(shard.param, shard.param_type, slice.shard_offset);
    }
    if (shard.master_type == DataType::bf16) {
        range.key = rounding_key(rounding_seed_, step, slice.name_hash);
        range.index = static_cast<std::uint64_t>(slice.parameter_offset);
    }
    algorithm_->update(*kernels_, slice.setting, state.written == 0, range);
}

void ShardUpdates::append_state(State& state) {
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        for (std::size_t k = 0; k < states_[i].tensors.size(); ++k)
            shards_[i]->append_state(state, states_[i].tensors[k].data(), DataType::f32,
                                     algorithm_->states()[k]);
        if (algorithm_->first_differs())
            append_written(state, *shards_[i], states_[i].written);
    }
}

void append_written(State& state, const OptimizerShard& shard, std::uint8_t& written) {
    StateTensor tensor{shard.name + ".state_written", DataType::u8, {1}, {}, true};
    tensor.pieces.push_back({0, 1, reinterpret_cast<std::byte*>(&written)});
    state.push_back(std::move(tensor));
}

}  // namespace autolaunch::fsdp
