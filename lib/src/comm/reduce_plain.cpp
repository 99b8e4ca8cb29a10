// The kernels in plain C++: what the other sets are compared with, and what reduces on other CPUs
// and at the ends.
#include "comm/reduce_kernels.hpp"
#include "comm/reduce_types.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace autolaunch {
namespace {

using Kind = ReduceOp::Kind;

// The accumulators of one block stay in the first-level cache between the inputs, and stand between
// inputs and outputs, so that the two may be the same memory and the loops still vectorise.
constexpr std::size_t kBlockElements = 1024;

template <class T, Kind kind>
class BlockReducer {
public:
    using A = typename ReduceAccumulator<T, kind>::type;
    using Block = std::array<A, kBlockElements>;

    BlockReducer(const ReduceBuffers& buffers, std::size_t ranks)
        : buffers_(buffers), ranks_(ranks) {}

    void run(std::size_t begin, std::size_t count) {
        Block sum;
        reduce(0, buffers_.inputs.size(), begin, count, sum);
        for (void* output : buffers_.outputs)
            store(sum, static_cast<T*>(output) + begin, count);
    }

private:
    // Inputs first to last - 1, into `sum`.
    void reduce(std::size_t first, std::size_t last, std::size_t begin, std::size_t count,
                Block& sum) {
        if (last - first == 1)
            return load(first, begin, count, sum);
        const std::size_t middle = first + std::bit_floor(last - first - 1);
        reduce(first, middle, begin, count, sum);
        Block right;
        reduce(middle, last, begin, count, right);
        for (std::size_t i = 0; i < count; ++i)
            sum[i] = combine<kind>(sum[i], right[i]);
    }

    void load(std::size_t index, std::size_t begin, std::size_t count, Block& block) {
        const T* input = static_cast<const T*>(buffers_.inputs[index]) + begin;
        const double factor = kind == Kind::pre_multiplied_sum ? buffers_.factors[index] : 1;
        for (std::size_t i = 0; i < count; ++i)
            block[i] = accumulated<T, kind>(input[i], factor);
    }

    void store(const Block& block, T* output, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            output[i] = finished<T, kind>(block[i], ranks_);
    }

    const ReduceBuffers& buffers_;
    std::size_t ranks_;
};

template <class T, Kind kind>
std::size_t reduce(const ReduceTask& task) {
    BlockReducer<T, kind> reducer(task.buffers, task.ranks);
    for (std::size_t done = 0; done < task.count; done += kBlockElements) {
        reducer.run(task.begin + done, std::min(kBlockElements, task.count - done));
    }
    return task.count;
}

constexpr ReduceKernelSet kPlain = AUTOLAUNCH_REDUCE_KERNEL_SET("plain C++", reduce);

}  // namespace

const ReduceKernelSet& plain_reduce_kernels() noexcept { return kPlain; }

}  // namespace autolaunch
