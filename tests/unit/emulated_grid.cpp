#include "emulated_grid.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace emulated {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr unsigned kLanes = 32;
constexpr std::size_t kSlotBytes = 32;
Grid* the_grid = nullptr;

/// splitmix64's, for the order of turns.
std::uint64_t mixed(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

std::vector<unsigned> order_of(unsigned count, Turns turns, std::uint64_t& draws) {
    std::vector<unsigned> order(count);
    std::iota(order.begin(), order.end(), 0u);
    if (turns == Turns::backward)
        std::reverse(order.begin(), order.end());
    if (turns == Turns::shuffled) {
        for (unsigned i = count; i > 1; --i)
            std::swap(order[i - 1], order[mixed(draws++) % i]);
    }
    return order;
}

}  // namespace

struct Grid::Fiber {
    ucontext_t context{};
    std::unique_ptr<unsigned char[]> stack =
        std::make_unique_for_overwrite<unsigned char[]>(kStackBytes);
    State state = State::ready;
    unsigned index = 0;
    unsigned exchanges = 0;
#if defined(__SANITIZE_THREAD__)
    void* tsan = __tsan_create_fiber(0);
    ~Fiber() { __tsan_destroy_fiber(tsan); }
#endif
};

// Sanitizers want to know when the stack changes.
namespace {

#if defined(__SANITIZE_ADDRESS__)
struct SchedulerStack {
    const void* bottom = nullptr;
    std::size_t size = 0;
} scheduler_stack;
void before_switch(void** fake, const void* bottom, std::size_t size) {
    __sanitizer_start_switch_fiber(fake, bottom, size);
}
void after_switch(void* fake, bool from_scheduler) {
    const void* bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(fake, &bottom, &size);
    if (from_scheduler)
        scheduler_stack = {bottom, size};
}
#endif

}  // namespace

Grid::Grid(Dim3 blocks, Dim3 threads, std::size_t shared_bytes, Turns turns)
    : blocks_(blocks), threads_(threads), shared_bytes_(shared_bytes), turns_(turns) {
    const unsigned count = threads.count();
    if (count == 0 || count % kLanes != 0 || count > 1024)
        throw std::invalid_argument("a block of " + std::to_string(count) +
                                    " threads is no whole number of warps");
    // The launch's bytes are the memory's last, so that the address sanitizer sees what goes beyond
    // them.
    shared_memory_.resize((shared_bytes + 15) / 16 * 16 + 16);
    const auto address = reinterpret_cast<std::uintptr_t>(shared_memory_.data() +
                                                          shared_memory_.size() - shared_bytes);
    shared_ = shared_memory_.data() + shared_memory_.size() - shared_bytes - address % 16;
    exchanged_.resize(count / kLanes * 2 * kLanes * kSlotBytes);
    for (unsigned i = 0; i < count; ++i)
        fibers_.push_back(idle_fiber(i));
    the_grid = this;
}

Grid::~Grid() {
    the_grid = nullptr;
    for (auto& fiber : fibers_)
        idle_fibers().push_back(std::move(fiber));
}

// Stacks are used again by the next grid: fresh memory for each would be most of a small kernel's
// time.
std::vector<std::unique_ptr<Grid::Fiber>>& Grid::idle_fibers() {
    static std::vector<std::unique_ptr<Fiber>> idle;
    return idle;
}

std::unique_ptr<Grid::Fiber> Grid::idle_fiber(unsigned index) {
    auto& idle = idle_fibers();
    if (idle.empty())
        idle.push_back(std::make_unique<Fiber>());
    auto fiber = std::move(idle.back());
    idle.pop_back();
    fiber->index = index;
    fiber->exchanges = 0;
    return fiber;
}

Grid& Grid::current() { return *the_grid; }

void Grid::run(const std::function<void()>& kernel) {
    kernel_ = &kernel;
    for (const unsigned index : order_of(blocks_.count(), turns_, draws_)) {
        block_ = {index % blocks_.x, index / blocks_.x % blocks_.y,
                  index / (blocks_.x * blocks_.y)};
        run_block();
    }
}

void Grid::run_block() {
    std::fill_n(shared_, shared_bytes_,
                static_cast<unsigned char>(0xff));  // NaN in every type of float
    start_fibers();
    while (run_ready_fibers()) {
    }
    const auto done = [](const auto& fiber) { return fiber->state == State::done; };
    if (!std::all_of(fibers_.begin(), fibers_.end(), done))
        throw std::runtime_error("threads of a block wait at different barriers");
}

void Grid::start_fibers() {
    for (auto& fiber : fibers_)
        start(*fiber);
}

// getcontext() could return twice for all that a compiler knows, so nothing is live across it but
// its argument.
void Grid::start(Fiber& fiber) {
    fiber.state = State::ready;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Grid::enter, 0);
}

/// Gives each ready thread a turn; false when there was none.
bool Grid::run_ready_fibers() {
    bool any = false;
    if (order_.empty() || turns_ == Turns::shuffled)
        order_ = order_of(static_cast<unsigned>(fibers_.size()), turns_, draws_);
    for (const unsigned index : order_) {
        running_ = fibers_[index].get();
        if (running_->state != State::ready)
            continue;
        any = true;
#if defined(__SANITIZE_THREAD__)
        void* const scheduler = __tsan_get_current_fiber();
        tsan_scheduler_ = scheduler;
        __tsan_switch_to_fiber(running_->tsan, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
        void* fake = nullptr;
        before_switch(&fake, running_->stack.get(), kStackBytes);
#endif
        swapcontext(&scheduler_, &running_->context);
#if defined(__SANITIZE_ADDRESS__)
        after_switch(fake, false);
#endif
    }
    return any;
}

void Grid::enter() {
#if defined(__SANITIZE_ADDRESS__)
    after_switch(nullptr, true);
#endif
    Grid& grid = current();
    (*grid.kernel_)();
    grid.yield(State::done);
}

void Grid::yield(State state) {
    Fiber* const fiber = running_;
    fiber->state = state;
    if (state == State::at_block)
        release(state, 0, static_cast<unsigned>(fibers_.size()));
    if (state == State::at_warp)
        release(state, fiber->index / kLanes * kLanes, kLanes);
    if (fiber->state == State::ready)
        return;  // it came last: all go on
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(tsan_scheduler_, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    before_switch(state == State::done ? nullptr : &fake, scheduler_stack.bottom,
                  scheduler_stack.size);
#endif
    swapcontext(&fiber->context, &scheduler_);
#if defined(__SANITIZE_ADDRESS__)
    after_switch(fake, true);
#endif
}

/// Once all of them wait for one another, they are ready.
void Grid::release(State waiting, unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; ++i) {
        if (fibers_[i]->state != waiting)
            return;
    }
    for (unsigned i = first; i < first + count; ++i)
        fibers_[i]->state = State::ready;
}

void Grid::wait_for_block() { yield(State::at_block); }
void Grid::wait_for_warp() { yield(State::at_warp); }

Dim3 Grid::thread() const {
    const unsigned index = running_->index;
    return {index % threads_.x, index / threads_.x % threads_.y, index / (threads_.x * threads_.y)};
}

const unsigned char* Grid::exchange(const void* value, std::size_t bytes) {
    if (bytes > kSlotBytes)
        throw std::invalid_argument("an exchange of more than 32 bytes");
    Fiber& fiber = *running_;
    const unsigned set = fiber.index / kLanes * 2 + fiber.exchanges++ % 2;
    unsigned char* const slots = exchanged_.data() + set * kLanes * kSlotBytes;
    std::memcpy(slots + fiber.index % kLanes * kSlotBytes, value, bytes);
    wait_for_warp();
    return slots;
}

}  // namespace emulated

namespace gpt {

void multiply_tile_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    struct Registers {
        std::uint32_t a[4], b[2];
    } mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const auto* all = emulated::grid().exchange(&mine, sizeof mine);
    const auto of_lane = [&](int lane) {
        Registers registers;
        std::memcpy(&registers, all + 32 * lane, sizeof registers);
        return registers;
    };
    // Of the 16-bit halves, the lower is the lower index in k.
    const auto value = [](std::uint32_t word, int k) {
        return std::bit_cast<float>(k % 2 == 0 ? word << 16 : word & 0xffff0000u);
    };
    const auto thread = emulated::grid().thread();
    const int lane = static_cast<int>((thread.x + emulated::grid().threads().x * thread.y) % 32);
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + (i >= 2 ? 8 : 0);
        const int column = lane % 4 * 2 + i % 2;
        float sum = c[i];
        for (int k = 0; k < 16; ++k) {
            const int holder = k % 8 / 2;  // lane % 4 of those that hold this k
            const auto left =
                of_lane(row % 8 * 4 + holder).a[(row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0)];
            const auto right = of_lane(column * 4 + holder).b[k >= 8 ? 1 : 0];
            sum += value(left, k) * value(right, k);
        }
        c[i] = sum;
    }
}

}  // namespace gpt
