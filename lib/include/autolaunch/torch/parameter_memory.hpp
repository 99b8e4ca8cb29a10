#pragma once
#include <autolaunch/cxx20.hpp>

// How memory of a parameter comes and goes under tensors that stay. libtorch's C++ modules have no
// hooks, but every operator passes the dispatcher. A parameter gets a storage of its own, whose
// pointer changes, and a dispatch key above all that compute, whose kernel asks for the memory and
// then calls the operator. The key and the storage are also those of views, so what autograd saved
// for backward (the transpose of a weight) asks again there. Operators without parameters never
// come here. The key is TESTING_ONLY_GenericWrapper: libtorch leaves it to others (1.13 to 2.x).
#include <torch/library.h>
#include <torch/types.h>
#include <autolaunch/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::fsdp::detail {

inline constexpr c10::DispatchKey kWatchedKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

class ParameterMemory;

/// Who has the memory of some parameters. Threads: one at a time, the one that runs operators.
class MemoryOwner {
public:
    virtual ~MemoryOwner() = default;
    /// An operator is about to run on these: all must be attached until end_operator(). Operators
    /// nest. What it throws the operator throws.
    virtual void begin_operator(const std::vector<ParameterMemory*>& used) = 0;
    virtual void end_operator(const std::vector<ParameterMemory*>& used) noexcept = 0;
};

/// The storage of one parameter and of all that share it. Fixed in its place. Owner: the
/// MemoryOwner.
class ParameterMemory {
public:
    /// From here on the parameter is of this type, and its memory is not there. Its old values are
    /// gone.
    ParameterMemory(MemoryOwner& owner, std::size_t unit, std::string name, at::Tensor parameter,
                    at::ScalarType type)
        : owner_(owner), unit_(unit), name_(std::move(name)), parameter_(std::move(parameter)) {
        watch_operators();
        const auto bytes = static_cast<std::size_t>(parameter_.numel()) * c10::elementSize(type);
        storage_ = c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                                at::DataPtr(nullptr, parameter_.device()));
        const auto sizes = parameter_.sizes().vec();
        at::Tensor watched = at::detail::make_tensor<c10::TensorImpl>(
            c10::Storage(storage_), parameter_.key_set() | c10::DispatchKeySet(kWatchedKey),
            c10::scalarTypeToTypeMeta(type));
        watched.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
        const c10::impl::ExcludeDispatchKeyGuard unwatched(kWatchedKey);
        parameter_.set_data(watched);
        detach();
    }
    /// The parameter is empty afterwards, and an ordinary tensor.
    ~ParameterMemory() {
        const c10::impl::ExcludeDispatchKeyGuard unwatched(kWatchedKey);
        storage_.set_data_ptr_noswap(at::DataPtr(nullptr, storage_.device()));
        parameter_.set_data(
            at::empty({0}, at::TensorOptions(parameter_.device()).dtype(parameter_.scalar_type())));
        parameter_.mutable_grad().reset();
    }
    ParameterMemory(const ParameterMemory&) = delete;
    ParameterMemory& operator=(const ParameterMemory&) = delete;

    std::size_t unit() const noexcept { return unit_; }
    const std::string& name() const noexcept { return name_; }
    const at::Tensor& parameter() const noexcept { return parameter_; }

    void attach(void* bytes) { point_to(bytes); }
    void detach() { point_to(nullptr); }
    /// False when somebody gave the parameter other data: module->to() does.
    bool is_of_parameter() const {
        return parameter_.storage().unsafeGetStorageImpl() == storage_.unsafeGetStorageImpl();
    }

private:
    friend class OperatorScope;
    // The context says whose the storage is; nothing is deleted with it.
    static void keep(void* /*context*/) {}
    void point_to(void* bytes) {
        storage_.set_data_ptr_noswap(at::DataPtr(bytes, this, &keep, storage_.device()));
    }
    static ParameterMemory* of(const at::Tensor& tensor) {
        if (!tensor.defined() || !tensor.key_set().has(kWatchedKey) || !tensor.has_storage())
            return nullptr;
        const at::DataPtr& memory = tensor.storage().data_ptr();
        return memory.get_deleter() == &keep ? static_cast<ParameterMemory*>(memory.get_context())
                                             : nullptr;
    }
    static void watch_operators();

    MemoryOwner& owner_;
    std::size_t unit_;
    std::string name_;
    at::Tensor parameter_;
    c10::Storage storage_;
};

/// The parameters among an operator's arguments, whole while it lives.
class OperatorScope {
public:
    OperatorScope(const c10::OperatorHandle& op, const ::torch::jit::Stack& stack) {
        if (reads_no_memory(op.operator_name().name))
            return;
        const std::size_t arguments = op.schema().arguments().size();
        for (std::size_t i = stack.size() - arguments; i < stack.size(); ++i)
            add(stack[i]);
        for (auto& [owner, used] : users_) {
            owner->begin_operator(used);
            ++begun_;
        }
    }
    ~OperatorScope() {
        while (begun_ > 0) {
            auto& [owner, used] = users_[--begun_];
            owner->end_operator(used);
        }
    }
    OperatorScope(const OperatorScope&) = delete;

private:
    static bool reads_no_memory(std::string_view name) {
        for (const std::string_view each :
             {"aten::_backward", "aten::set_data", "aten::requires_grad_", "aten::retain_grad",
              "aten::_has_compatible_shallow_copy_type"})
            if (name == each)
                return true;
        return false;
    }
    void add(const c10::IValue& value) {
        if (value.isTensor()) {
            add(ParameterMemory::of(value.toTensor()));
        } else if (value.isList()) {
            for (const c10::IValue& each : value.toListRef())
                add(each);
        }
    }
    void add(ParameterMemory* memory) {
        if (!memory)
            return;
        for (auto& [owner, used] : users_)
            if (owner == &memory->owner_)
                return used.push_back(memory);
        users_.push_back({&memory->owner_, {memory}});
    }

    std::vector<std::pair<MemoryOwner*, std::vector<ParameterMemory*>>> users_;
    std::size_t begun_ = 0;
};

inline void run_watched(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                        ::torch::jit::Stack* stack) {
    const OperatorScope scope(op, *stack);
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kWatchedKey),
                       stack);
}

// Once in a process; the library ends with it.
inline void ParameterMemory::watch_operators() {
    static ::torch::Library library(::torch::Library::IMPL, "_", kWatchedKey, __FILE__, __LINE__);
    [[maybe_unused]] static const bool registered =
        (library.fallback(::torch::CppFunction::makeFromBoxedFunction<&run_watched>()), true);
}

}  // namespace autolaunch::fsdp::detail
