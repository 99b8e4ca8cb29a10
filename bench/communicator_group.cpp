#include "communicator_group.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstring>

namespace autolaunch::bench {

CommunicatorGroup::CommunicatorGroup(Communicator communicator, std::unique_ptr<PerfDevice> device)
    : communicator_(std::move(communicator)),
      device_(std::move(device)),
      stream_(device_->stream()),
      scratch_(device_->allocate(kTextBytes * (static_cast<std::size_t>(size()) + 1))) {}

std::shared_ptr<void> CommunicatorGroup::allocate(std::size_t bytes) {
    auto buffer = std::make_shared<CommunicatorBuffer>(communicator_.allocate(bytes));
    device_->set(buffer->data(), 0, bytes);
    device_->wait();
    return {buffer, buffer->data()};
}

Work CommunicatorGroup::start_one(const CollectiveCall& call, Stream stream) {
    switch (call.kind) {
        case CollectiveKind::all_reduce:
            return communicator_.all_reduce(call.send, call.recv, call.count, call.type, call.op,
                                            stream);
        case CollectiveKind::reduce:
            return communicator_.reduce(call.send, call.recv, call.count, call.type, call.op,
                                        call.root, stream);
        case CollectiveKind::broadcast:
            return communicator_.broadcast(call.recv, call.count, call.type, call.root, stream);
        case CollectiveKind::all_gather:
            return communicator_.all_gather(call.send, call.recv, call.blocks.each(), call.type,
                                            stream);
        case CollectiveKind::reduce_scatter:
            return communicator_.reduce_scatter(call.send, call.recv, call.blocks.each(), call.type,
                                                call.op, stream);
        case CollectiveKind::all_to_all:
            return communicator_.all_to_all(call.send, call.recv, call.blocks.each(), call.type,
                                            stream);
        case CollectiveKind::gather:
            return communicator_.gather(call.send, call.recv, call.blocks.each(), call.type,
                                        call.root, stream);
        case CollectiveKind::scatter:
            return communicator_.scatter(call.send, call.recv, call.blocks.each(), call.type,
                                         call.root, stream);
        case CollectiveKind::send:
            return communicator_.send(call.send, call.count, call.type, call.root, stream);
        case CollectiveKind::recv:
            return communicator_.recv(call.recv, call.count, call.type, call.root, stream);
    }
    throw Error(ErrorCode::unsupported, "no such collective");
}

void CommunicatorGroup::start(const std::vector<CollectiveCall>& calls) {
    if (calls.size() == 1 || in_batch_) {
        for (const CollectiveCall& call : calls)
            last_ = start_one(call, stream_);
        return;
    }
    communicator_.group_start();
    for (const CollectiveCall& call : calls)
        start_one(call, stream_);
    last_ = communicator_.group_end(stream_);
}

void CommunicatorGroup::begin_batch() {
    communicator_.group_start();
    in_batch_ = true;
}

void CommunicatorGroup::finish_batch() {
    in_batch_ = false;
    last_ = communicator_.group_end(stream_);
}

void CommunicatorGroup::wait() {
    last_.wait();
    device_->wait();
}

double CommunicatorGroup::reduce(double value, ReduceOp op) {
    device_->write(scratch_.get(), &value, sizeof value);
    last_ = communicator_.all_reduce(scratch_.get(), scratch_.get(), 1, DataType::f64, op, stream_);
    wait();
    device_->read(&value, scratch_.get(), sizeof value);
    return value;
}

std::vector<std::string> CommunicatorGroup::gather(const std::string& text) {
    char own[kTextBytes] = {};
    std::memcpy(own, text.data(), std::min(text.size(), kTextBytes - 1));
    auto* const memory = static_cast<std::byte*>(scratch_.get());
    device_->write(memory, own, kTextBytes);
    last_ =
        communicator_.all_gather(memory, memory + kTextBytes, kTextBytes, DataType::u8, stream_);
    wait();
    std::vector<char> all(kTextBytes * static_cast<std::size_t>(size()));
    device_->read(all.data(), memory + kTextBytes, all.size());
    std::vector<std::string> texts;
    for (std::size_t at = 0; at < all.size(); at += kTextBytes)
        texts.emplace_back(all.data() + at);
    return texts;
}

}  // namespace autolaunch::bench
