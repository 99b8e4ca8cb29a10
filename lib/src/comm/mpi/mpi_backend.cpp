// Life of the backend, and which function serves a call. mpi_moves.cpp has the collectives that
// only copy, mpi_reductions.cpp the others.
#include "comm/mpi/mpi_backend.hpp"

#include "comm/kept_memory.hpp"
#include "comm/mpi/mpi_exchange.hpp"
#include "comm/mpi/mpi_group.hpp"

#include <exception>
#include <utility>

namespace autolaunch {

std::shared_ptr<MpiBackend> MpiBackend::world(const MpiOptions& options) {
    return std::make_shared<MpiBackend>(mpi::Group::world(options.timeout), options);
}

MpiBackend::MpiBackend(std::unique_ptr<mpi::Group> group, const MpiOptions& options)
    : group_(std::move(group)),
      exchange_(std::make_unique<mpi::Exchange>(*group_, options.piece_bytes)),
      options_(options),
      exceptions_at_birth_(std::uncaught_exceptions()) {}

MpiBackend::~MpiBackend() {
    // A trainer that fails would otherwise wait in MPI_Finalize for ranks that wait for it in a
    // collective.
    if (std::uncaught_exceptions() > exceptions_at_birth_)
        group_->abort("an exception ended the trainer");
    if (!group_->abort_reason().empty())
        keep_until_exit(memory_);
}

int MpiBackend::rank() const noexcept { return group_->rank(); }
int MpiBackend::size() const noexcept { return group_->size(); }
void MpiBackend::abort(const std::string& reason) { group_->abort(reason); }
CommunicatorStatus MpiBackend::status() const { return group_->status(); }
std::string MpiBackend::abort_reason() const { return group_->abort_reason(); }

Work MpiBackend::start(const CollectiveCall& call, Stream) {
    calling_ = call.step_of != nullptr ? call.step_of : name_of(call.kind).data();
    run(call);
    return {};
}

void MpiBackend::run(const CollectiveCall& call) {
    switch (call.kind) {
        case CollectiveKind::all_reduce:
            all_reduce(call);
            break;
        case CollectiveKind::reduce:
            reduce(call);
            break;
        case CollectiveKind::broadcast:
            broadcast(call);
            break;
        case CollectiveKind::all_gather:
            all_gather(call);
            break;
        case CollectiveKind::reduce_scatter:
            reduce_scatter(call);
            break;
        case CollectiveKind::all_to_all:
            all_to_all(call);
            break;
        case CollectiveKind::gather:
            gather(call);
            break;
        case CollectiveKind::scatter:
            scatter(call);
            break;
        case CollectiveKind::send:
        case CollectiveKind::recv:
            send_and_receive({&call, 1});
            break;
    }
}

Work MpiBackend::start_group(std::span<const CollectiveCall> calls, Stream) {
    std::vector<CollectiveCall> messages;
    for (const CollectiveCall& call : calls)
        if (call.is_message())
            messages.push_back(call);
    if (!messages.empty()) {
        const char* step_of = messages.front().step_of;
        calling_ = step_of != nullptr ? step_of : "a group of sends and receives";
        send_and_receive(messages);
    }
    for (const CollectiveCall& call : calls)
        if (!call.is_message())
            start(call, {});
    return {};
}

std::shared_ptr<CommunicatorBackend> MpiBackend::split(int color, int key) {
    auto part = mpi::Group::split(*group_, color, key);
    return part ? std::make_shared<MpiBackend>(std::move(part), options_) : nullptr;
}

std::byte* MpiBackend::scratch(std::size_t bytes) {
    if (memory_->scratch.size() < bytes)
        memory_->scratch.resize(bytes);
    return memory_->scratch.data();
}

}  // namespace autolaunch
