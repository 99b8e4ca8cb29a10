// The vectorised kernels: included once by each file that has a set, inside a namespace of its own,
// after
//   kVectorBytes                          bytes of a register
//   AUTOLAUNCH_KERNEL                     the attribute that gives a function the instructions
//   load_f16(), store_f16(), stream_part() with kVectorBytes / 4 halves, and 16 to kVectorBytes
//   bytes
// All arithmetic is the compiler's on vectors, without contraction, so each element gets the bits
// that plain C++ gives.

#define AUTOLAUNCH_INLINE AUTOLAUNCH_KERNEL __attribute__((always_inline)) inline

using Kind = ReduceOp::Kind;

constexpr std::size_t kLine = 64;
constexpr std::size_t kMostOutputs = 16;  // more than these are rare, and go the plain way

template <class A, std::size_t bytes = kVectorBytes>
struct VectorOf {
    typedef A type __attribute__((vector_size(bytes)));
};
template <class A>
using Vector = typename VectorOf<A>::type;
template <class A>
constexpr std::size_t kLanes = kVectorBytes / sizeof(A);

template <class T, Kind kind>
struct VectorKernel {
    using A = typename ReduceAccumulator<T, kind>::type;
    using V = Vector<A>;
    static constexpr std::size_t kStep = kLine / sizeof(T);  // elements of a cache line
    static constexpr std::size_t kParts = kStep / kLanes<A>;

    struct Line {
        V parts[kParts];
    };

    AUTOLAUNCH_INLINE static V widen(const T* from) {
        if constexpr (std::is_same_v<T, bfloat16>) {
            typename VectorOf<std::uint16_t, kVectorBytes / 2>::type halves;
            __builtin_memcpy(&halves, from, sizeof halves);
            return (V)(__builtin_convertvector(halves, Vector<std::uint32_t>) << 16);
        } else if constexpr (std::is_same_v<T, float16>) {
            return load_f16(from);
        } else {
            V values;
            __builtin_memcpy(&values, from, sizeof values);
            return values;
        }
    }

    AUTOLAUNCH_INLINE static Line load(const ReduceTask& task, std::size_t input, std::size_t at) {
        const T* from = static_cast<const T*>(task.buffers.inputs[input]) + at;
        Line line;
        for (std::size_t part = 0; part < kParts; ++part) {
            line.parts[part] = widen(from + part * kLanes<A>);
            if constexpr (kind == Kind::pre_multiplied_sum) {
                const double factor = task.buffers.factors[input];
                if constexpr (std::is_integral_v<T>) {
                    line.parts[part] *= static_cast<A>(static_cast<T>(factor));
                } else {
                    line.parts[part] *= static_cast<A>(factor);
                }
            }
        }
        return line;
    }

    AUTOLAUNCH_INLINE static void add(Line& a, const Line& b) {
        for (std::size_t part = 0; part < kParts; ++part) {
            V& left = a.parts[part];
            const V right = b.parts[part];
            if constexpr (kind == Kind::min) {
                left = right < left ? right : left;
            } else if constexpr (kind == Kind::max) {
                left = left < right ? right : left;
            } else if constexpr (kind == Kind::prod) {
                left = left * right;
            } else {
                left = left + right;
            }
        }
    }

    /// Inputs first … first + count - 1, pairwise; count is a power of two.
    template <std::size_t count>
    AUTOLAUNCH_INLINE static Line tree(const ReduceTask& task, std::size_t first, std::size_t at) {
        if constexpr (count == 1) {
            return load(task, first, at);
        } else {
            Line left = tree<count / 2>(task, first, at);
            add(left, tree<count / 2>(task, first + count / 2, at));
            return left;
        }
    }

    AUTOLAUNCH_INLINE static void finish(Line& line, std::size_t ranks) {
        if constexpr (kind == Kind::avg)
            for (V& part : line.parts)
                part = part / static_cast<A>(ranks);
    }

    AUTOLAUNCH_INLINE static auto narrow(V values) {
        if constexpr (std::is_same_v<T, bfloat16>) {
            const auto words = (Vector<std::uint32_t>)values;
            const auto high = words >> 16;
            const auto rounded = (words + 0x7fffu + (high & 1u)) >> 16;
            const auto is_nan = (Vector<std::int32_t>)(words & 0x7fffffffu) > 0x7f800000;
            const auto chosen = is_nan ? (high | 0x40u) : rounded;
            return __builtin_convertvector(
                chosen, typename VectorOf<std::uint16_t, kVectorBytes / 2>::type);
        } else if constexpr (std::is_same_v<T, float16>) {
            return store_f16(values);
        } else {
            return values;
        }
    }

    AUTOLAUNCH_INLINE static void store(const Line& line, std::size_t at, void* const* outputs,
                                        std::size_t count, bool stream) {
        for (std::size_t part = 0; part < kParts; ++part) {
            const auto values = narrow(line.parts[part]);
            for (std::size_t k = 0; k < count; ++k) {
                T* to = static_cast<T*>(outputs[k]) + at + part * kLanes<A>;
                if (stream) {
                    stream_part(to, values);
                } else {
                    __builtin_memcpy(static_cast<void*>(to), &values, sizeof values);
                }
            }
        }
    }

    template <std::size_t inputs>
    AUTOLAUNCH_KERNEL static void run(const ReduceTask& task, std::size_t end, bool stream) {
        void* outputs[kMostOutputs];
        const std::size_t count = task.buffers.outputs.size();
        for (std::size_t k = 0; k < count; ++k)
            outputs[k] = task.buffers.outputs[k];
        for (std::size_t at = task.begin; at < end; at += kStep) {
            Line line = tree<inputs>(task, 0, at);
            finish(line, task.ranks);
            store(line, at, outputs, count, stream);
        }
    }

    /// Any number of inputs: up to eight in registers, joined on the way up. The result goes
    /// through memory: not every compiler hands a large vector back from a function that it does
    /// not inline.
    AUTOLAUNCH_KERNEL static void any(const ReduceTask& task, std::size_t first, std::size_t last,
                                      std::size_t at, Line& sum) {
        switch (last - first) {
            case 1:
                sum = tree<1>(task, first, at);
                return;
            case 2:
                sum = tree<2>(task, first, at);
                return;
            case 4:
                sum = tree<4>(task, first, at);
                return;
            case 8:
                sum = tree<8>(task, first, at);
                return;
            default:
                break;
        }
        const std::size_t middle = first + std::bit_floor(last - first - 1);
        any(task, first, middle, at, sum);
        Line right;
        any(task, middle, last, at, right);
        add(sum, right);
    }

    AUTOLAUNCH_KERNEL static void run_any(const ReduceTask& task, std::size_t end, bool stream) {
        for (std::size_t at = task.begin; at < end; at += kStep) {
            Line line;
            any(task, 0, task.buffers.inputs.size(), at, line);
            finish(line, task.ranks);
            store(line, at, task.buffers.outputs.data(), task.buffers.outputs.size(), stream);
        }
    }

    static bool may_stream(const ReduceTask& task) {
        for (void* output : task.buffers.outputs) {
            if ((reinterpret_cast<std::uintptr_t>(output) + task.begin * sizeof(T)) % kLine != 0)
                return false;
        }
        return task.buffers.stream;
    }
};

template <class T, Kind kind>
std::size_t reduce_lines(const ReduceTask& task) {
    using Kernel = VectorKernel<T, kind>;
    const std::size_t count = task.count / Kernel::kStep * Kernel::kStep;
    if (count == 0 || task.buffers.outputs.size() > kMostOutputs)
        return 0;
    const std::size_t end = task.begin + count;
    const bool stream = Kernel::may_stream(task);
    switch (task.buffers.inputs.size()) {
        case 1:
            Kernel::template run<1>(task, end, stream);
            break;
        case 2:
            Kernel::template run<2>(task, end, stream);
            break;
        case 4:
            Kernel::template run<4>(task, end, stream);
            break;
        case 8:
            Kernel::template run<8>(task, end, stream);
            break;
        default:
            Kernel::run_any(task, end, stream);
            break;
    }
    if (stream)
        _mm_sfence();  // others may look for the result as soon as they are told
    return count;
}

template <class T, Kind kind>
std::size_t reduce_vectors(const ReduceTask& task) {
    // No CPU divides vectors of integers.
    if constexpr (kind == Kind::avg && std::is_integral_v<T>) {
        return 0;
    } else {
        return reduce_lines<T, kind>(task);
    }
}
