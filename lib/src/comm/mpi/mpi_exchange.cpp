#include "comm/mpi/mpi_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::mpi {
namespace {

/// Calls step(begin, bytes) for every piece.
template <class Step>
void for_each_piece(std::size_t bytes, std::size_t piece_bytes, const Step& step) {
    for (std::size_t begin = 0; begin < bytes; begin += piece_bytes)
        step(begin, static_cast<int>(std::min(piece_bytes, bytes - begin)));
}

}  // namespace

void Exchange::send(const void* data, std::size_t bytes, int peer) {
    for_each_piece(bytes, piece_bytes_, [&](std::size_t begin, int part) {
        sends_.push_back({static_cast<const std::byte*>(data) + begin, part, peer});
    });
}

void Exchange::receive(void* data, std::size_t bytes, int peer, DataType type) {
    for_each_piece(bytes, piece_bytes_, [&](std::size_t begin, int part) {
        receives_.push_back({static_cast<std::byte*>(data) + begin, part, peer, type});
    });
}

void Exchange::run(const char* name, Tag tag) {
    struct Forget {
        Exchange& exchange;
        ~Forget() {
            exchange.sends_.clear();
            exchange.receives_.clear();
        }
    } const forget{*this};
    requests_.assign(receives_.size() + sends_.size(), MPI_REQUEST_NULL);
    statuses_.resize(requests_.size());
    group_.run({requests_, statuses_, receives_.size(), name}, [&] { return start(tag); });
    for (std::size_t i = 0; i < receives_.size(); ++i)
        check_received(receives_[i], statuses_[i]);
}

int Exchange::start(Tag tag) {
    MPI_Request* request = requests_.data();
    int code = MPI_SUCCESS;
    for (const Receive& one : receives_) {
        if (code == MPI_SUCCESS)
            code = MPI_Irecv(one.data, one.bytes, MPI_BYTE, one.peer, static_cast<int>(tag),
                             group_.data(), request++);
    }
    for (const Send& one : sends_) {
        if (code == MPI_SUCCESS)
            code = MPI_Isend(one.data, one.bytes, MPI_BYTE, one.peer, static_cast<int>(tag),
                             group_.data(), request++);
    }
    return code;
}

void Exchange::check_received(const Receive& wanted, const MPI_Status& status) const {
    int received = 0;
    MPI_Get_count(&status, MPI_BYTE, &received);
    if (received == wanted.bytes)
        return;
    const std::string text =
        fmt::format("rank {} expects {} bytes of {} from rank {}, which sent {}", group_.rank(),
                    wanted.bytes, name_of(wanted.type), wanted.peer, received);
    group_.abort(text);
    throw Error(ErrorCode::mismatch, text, "send and recv must agree on count and type");
}

}  // namespace autolaunch::mpi
