#include "comm/mpi/mpi_exchange.hpp"

#include "comm/mpi/mpi_types.hpp"

#include <fmt/format.h>

namespace autolaunch {

void MpiBackend::Exchange::add(const Message& message, std::vector<Message>& pieces) {
    mpi::for_each_piece(message.bytes, backend_.options_.piece_elements, [&](std::size_t begin, std::size_t part) {
        pieces.push_back({message.data + begin, part, message.peer, message.type});
    });
}

void MpiBackend::Exchange::run(const char* name) {
    const std::size_t count = receives_.size() + sends_.size();
    if (count == 0) return backend_.group_->throw_if_aborted();
    const int tag = static_cast<int>(tag_);
    const MPI_Comm comm = backend_.group_->data();
    const auto statuses = backend_.group_->run_all(name, count, receives_.size(), [&](MPI_Request* request) {
        int code = MPI_SUCCESS;
        for (const Message& one : receives_) {
            if (code == MPI_SUCCESS)
                code = MPI_Irecv(one.data, static_cast<int>(one.bytes), MPI_BYTE, one.peer, tag, comm, request++);
        }
        for (const Message& one : sends_) {
            if (code == MPI_SUCCESS)
                code = MPI_Isend(one.data, static_cast<int>(one.bytes), MPI_BYTE, one.peer, tag, comm, request++);
        }
        return code;
    });
    for (std::size_t i = 0; i < receives_.size(); ++i) check_received(receives_[i], statuses[i]);
}

void MpiBackend::Exchange::check_received(const Message& message, const MPI_Status& status) const {
    int received = 0;
    MPI_Get_count(&status, MPI_BYTE, &received);
    if (static_cast<std::size_t>(received) == message.bytes) return;
    const std::string text = fmt::format("rank {} expects {} bytes of {} from rank {}, which sent {}", backend_.rank(),
                                         message.bytes, name_of(message.type), message.peer, received);
    backend_.group_->abort(text);
    throw Error(ErrorCode::mismatch, text, "send and recv must agree on count and type");
}

}  // namespace autolaunch
