// Life of the backend, and the way of a call to the code that runs it.
#include "comm/shm/shm_backend.hpp"

#include "comm/shm/channels.hpp"
#include "comm/shm/copies.hpp"
#include "comm/shm/direct.hpp"
#include "comm/shm/reductions.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace autolaunch {

std::shared_ptr<ShmBackend> ShmBackend::create(const ShmRendezvous& rendezvous, int rank, int size,
                                               std::chrono::milliseconds timeout) {
    if (size < 1 || size > shm::kMaxRanks || rank < 0 || rank >= size) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("backend shm: rank {} of {} is not possible", rank, size),
                    fmt::format("it takes up to {} ranks", shm::kMaxRanks));
    }
    auto segment = rank == 0 ? shm::Segment::create(size)
                             : shm::Segment::attach(rendezvous.fetch(timeout), size);
    if (rank == 0)
        rendezvous.publish(segment.address());
    return std::make_shared<ShmBackend>(std::move(segment), rank, size, timeout, rendezvous.guard);
}

ShmBackend::ShmBackend(shm::Segment segment, int rank, int size, std::chrono::milliseconds timeout,
                       AbortGuard guard)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      peers_(segment_, rank, size, timeout),
      pieces_(segment_, peers_, rank, size),
      allocations_(rank),
      guard_(std::move(guard)) {
    const auto guarded =
        guard_ ? guard_([this](const std::string& reason) { peers_.abort(reason); }) : nullptr;
    peers_.gather();
    segment_.close_to_newcomers();
}

Work ShmBackend::start(const CollectiveCall& call, Stream) {
    run(call);
    return {};
}

Work ShmBackend::start_group(std::span<const CollectiveCall> calls, Stream) {
    shm::Transfers transfers(segment_, peers_, rank_);
    for (const CollectiveCall& call : calls)
        if (call.is_message())
            transfers.add(call);
    transfers.run(peers_.begin("a group of sends and receives"));
    for (const CollectiveCall& call : calls)
        if (!call.is_message())
            run(call);
    return {};
}

void ShmBackend::run(const CollectiveCall& call) {
    if (call.is_message()) {
        shm::Transfers transfers(segment_, peers_, rank_);
        transfers.add(call);
        return transfers.run(peers_.begin(name_of(call.kind)));
    }
    allocations_.sweep();
    shm::Collective collective = pieces_.begin(call);
    if (!allocations_.unused() && shm::asks_for_direct(call) &&
        shm::run_direct(pieces_, collective, allocations_))
        return;
    switch (call.kind) {
        case CollectiveKind::all_reduce:
        case CollectiveKind::reduce:
            return shm::reduce_to_readers(pieces_, collective);
        case CollectiveKind::reduce_scatter:
            return shm::reduce_scatter(pieces_, collective);
        case CollectiveKind::broadcast:
            return shm::broadcast(pieces_, collective);
        case CollectiveKind::all_gather:
            return shm::all_gather(pieces_, collective);
        case CollectiveKind::all_to_all:
            return shm::all_to_all(pieces_, collective);
        case CollectiveKind::gather:
            return shm::gather(pieces_, collective);
        case CollectiveKind::scatter:
            return shm::scatter(pieces_, collective);
        case CollectiveKind::send:
        case CollectiveKind::recv:
            return;  // above
    }
}

void ShmBackend::barrier() {
    const CollectiveCall call;
    shm::barrier(pieces_, pieces_.begin(call, shm::Kind::barrier));
}

void ShmBackend::exchange(shm::Kind kind, const void* own, void* all, std::size_t bytes) {
    const CollectiveCall call{.kind = CollectiveKind::all_gather,
                              .send = own,
                              .recv = all,
                              .blocks = BlockCounts::uniform(bytes, size_)};
    shm::all_gather(pieces_, pieces_.begin(call, kind));
}

void ShmBackend::abort(const std::string& reason) { peers_.abort(reason); }

CommunicatorStatus ShmBackend::status() const {
    return peers_.aborted() ? CommunicatorStatus::aborted : CommunicatorStatus::ok;
}

}  // namespace autolaunch
