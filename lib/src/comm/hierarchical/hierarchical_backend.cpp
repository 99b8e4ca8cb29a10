// Life of the backend: its parts, their errors, aborts and splits. hierarchical_moves.cpp and
// hierarchical_reductions.cpp have the collectives.
#include "comm/hierarchical/hierarchical_backend.hpp"

#include "comm/kept_memory.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <utility>

namespace autolaunch {
namespace {

constexpr auto kWatchEvery = std::chrono::milliseconds(20);

}  // namespace

std::shared_ptr<HierarchicalBackend> HierarchicalBackend::create(
    std::shared_ptr<CommunicatorBackend> local, std::shared_ptr<CommunicatorBackend> world,
    const NodePlan& plan, bool fixed_order) {
    if (!plan.possible() || plan.ranks_per_node != local->size() ||
        plan.nodes * plan.ranks_per_node != world->size())
        throw Error(ErrorCode::invalid_argument,
                    "hierarchical backend: its parts do not fit each other");
    auto cross = world->split(local->rank(), world->rank());
    return std::make_shared<HierarchicalBackend>(std::move(local), std::move(cross),
                                                 std::move(world), fixed_order);
}

HierarchicalBackend::HierarchicalBackend(std::shared_ptr<CommunicatorBackend> local,
                                         std::shared_ptr<CommunicatorBackend> cross,
                                         std::shared_ptr<CommunicatorBackend> world,
                                         bool fixed_order)
    : local_(std::move(local)),
      cross_(std::move(cross)),
      world_(std::move(world)),
      name_(fmt::format("{}+{}", local_->name(), world_->name())),
      fixed_order_(fixed_order),
      watcher_([this] { watch(); }) {}

HierarchicalBackend::~HierarchicalBackend() {
    {
        const std::scoped_lock lock(watch_mutex_);
        is_stopping_ = true;
    }
    stopping_.notify_all();
    watcher_.join();
    // Who has seen an abort may leave before the watcher sees it; its node is to learn the reason,
    // not that it left.
    end_with_world();
    if (abort_state_.aborted())
        keep_until_exit(scratch_);
}

void HierarchicalBackend::reserve_scratch(std::size_t bytes) {
    if (scratch_->size() < bytes)
        scratch_->resize(bytes);
}

void HierarchicalBackend::watch() {
    std::unique_lock lock(watch_mutex_);
    while (!stopping_.wait_for(lock, kWatchEvery, [&] { return is_stopping_; })) {
        end_with_world();
    }
}

void HierarchicalBackend::end_with_world() {
    if (abort_state_.aborted() || world_->status() == CommunicatorStatus::ok)
        return;
    end_all_parts(world_->abort_reason());
}

Work HierarchicalBackend::start(const CollectiveCall& call, Stream) {
    guarded([&] { run(call); });
    return {};
}

Work HierarchicalBackend::start_group(std::span<const CollectiveCall> calls, Stream) {
    guarded([&] {
        std::vector<CollectiveCall> messages;
        for (const CollectiveCall& call : calls)
            if (call.is_message())
                messages.push_back(call);
        if (!messages.empty())
            world_->start_group(messages, {});
        for (const CollectiveCall& call : calls)
            if (!call.is_message())
                run(call);
    });
    return {};
}

void HierarchicalBackend::run(const CollectiveCall& call) {
    calling_ = name_of(call.kind).data();
    switch (call.kind) {
        case CollectiveKind::all_reduce:
            return all_reduce(call);
        case CollectiveKind::reduce:
            return reduce(call);
        case CollectiveKind::broadcast:
            return broadcast(call);
        case CollectiveKind::all_gather:
            return all_gather(call);
        case CollectiveKind::reduce_scatter:
            return reduce_scatter(call);
        case CollectiveKind::all_to_all:
            return all_to_all(call);
        case CollectiveKind::gather:
            return gather(call);
        case CollectiveKind::scatter:
            return scatter(call);
        case CollectiveKind::send:
        case CollectiveKind::recv:
            world_->start(call, {});
    }
}

void HierarchicalBackend::barrier() {
    guarded([&] {
        local_->barrier();
        if (local_rank() == 0)
            cross_->barrier();
        local_->barrier();
    });
}

std::shared_ptr<void> HierarchicalBackend::allocate(std::size_t bytes) {
    std::shared_ptr<void> memory;
    guarded([&] { memory = local_->allocate(bytes); });
    return memory;
}

std::shared_ptr<CommunicatorBackend> HierarchicalBackend::split(int color, int key) {
    std::shared_ptr<CommunicatorBackend> result;
    guarded([&] {
        auto world = world_->split(color, key);
        auto local = local_->split(color, key);
        if (!world || !local)
            return;
        const RankPlace own{node(), local->rank(), local->size()};
        std::vector<RankPlace> places(static_cast<std::size_t>(world->size()));
        world->start({.kind = CollectiveKind::all_gather,
                      .send = &own,
                      .recv = places.data(),
                      .blocks = BlockCounts::uniform(sizeof own, world->size()),
                      .type = DataType::u8},
                     {});
        const NodePlan plan = plan_nodes(places, fixed_order_);
        if (!plan.possible()) {
            result = std::move(world);
        } else if (plan.nodes == 1) {
            result = std::move(local);
        } else {
            result = create(std::move(local), std::move(world), plan, fixed_order_);
        }
    });
    return result;
}

void HierarchicalBackend::guarded(const std::function<void()>& work) {
    abort_state_.throw_if_aborted();
    try {
        if (part_has_ended_.load(std::memory_order_acquire))
            throw_what_ended();
        work();
    } catch (const AbortedError& error) {
        // Whoever failed has told the world in the words of the whole group, before it ended the
        // parts.
        world_->status();
        const std::string reason = world_->abort_reason();
        end_all_parts(reason.empty() ? AbortState::reason_in(error) : reason);
        abort_state_.throw_if_aborted();
    } catch (const std::exception& error) {
        end_all_parts(error.what());
        throw;
    }
}

// The parts end one after the other: a call that began in one that still stands could pass.
void HierarchicalBackend::throw_what_ended() {
    if (local_->status() == CommunicatorStatus::aborted)
        local_->barrier();
    throw AbortedError(world_->abort_reason());
}

std::string HierarchicalBackend::ranks_text() const {
    return fmt::format("{} between nodes: ", calling_);
}

std::string HierarchicalBackend::node_text() const {
    const int first = node() * ranks_per_node();
    return fmt::format("{} within node {}, whose rank 0 is rank {}: ", calling_, node(), first);
}

std::string HierarchicalBackend::peers_text() const {
    return fmt::format("{} between nodes, where rank N is rank N * {} + {}: ", calling_,
                       ranks_per_node(), local_rank());
}

void HierarchicalBackend::within_node(CollectiveCall call) {
    call.step_of = calling_;
    named([&] { local_->start(call, {}); }, &HierarchicalBackend::node_text);
}

void HierarchicalBackend::between_nodes(CollectiveCall call) {
    call.step_of = calling_;
    named([&] { cross_->start(call, {}); }, &HierarchicalBackend::peers_text);
}

void HierarchicalBackend::between_nodes(std::span<CollectiveCall> messages) {
    named([&] { run_messages(*cross_, messages); }, &HierarchicalBackend::peers_text);
}

void HierarchicalBackend::between_ranks(std::span<CollectiveCall> messages) {
    named([&] { run_messages(*world_, messages); }, &HierarchicalBackend::ranks_text);
}

void HierarchicalBackend::run_messages(CommunicatorBackend& part,
                                       std::span<CollectiveCall> messages) {
    for (CollectiveCall& message : messages)
        message.step_of = calling_;
    part.start_group(messages, {});
}

template <class Step>
void HierarchicalBackend::named(const Step& step, Where where) const {
    try {
        step();
    } catch (const AbortedError& error) {
        throw AbortedError((this->*where)() + AbortState::reason_in(error));
    } catch (const TimeoutError& error) {
        throw TimeoutError((this->*where)() + error.what(), error.hint());
    } catch (const Error& error) {
        throw Error(error.code(), (this->*where)() + error.what(), error.hint());
    }
}

void HierarchicalBackend::abort(const std::string& reason) {
    end_all_parts(fmt::format("rank {}: {}", rank(), reason));
}

void HierarchicalBackend::end_all_parts(const std::string& reason) {
    if (!abort_state_.abort(reason))
        return;
    world_->abort(reason);
    cross_->abort(reason);
    local_->abort(reason);
}

CommunicatorStatus HierarchicalBackend::status() const {
    if (abort_state_.aborted())
        return CommunicatorStatus::aborted;
    // What other ranks have ended, before the watcher or a call finds it.
    if (local_->status() == CommunicatorStatus::ok && world_->status() == CommunicatorStatus::ok)
        return CommunicatorStatus::ok;
    part_has_ended_.store(true, std::memory_order_release);
    return CommunicatorStatus::aborted;
}

}  // namespace autolaunch
