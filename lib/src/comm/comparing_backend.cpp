#include "comm/comparing_backend.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <vector>

namespace autolaunch {
namespace {

ExchangeBytes exchange_through(CommunicatorBackend& backend) {
    return [&backend](std::span<const std::byte> mine, std::span<std::byte> all) {
        backend.start({.kind = CollectiveKind::all_gather,
                       .send = mine.data(),
                       .recv = all.data(),
                       .blocks = BlockCounts::uniform(mine.size(), backend.size()),
                       .type = DataType::u8},
                      {});
    };
}

}  // namespace

ComparingBackend::ComparingBackend(std::shared_ptr<CommunicatorBackend> inner)
    : inner_(std::move(inner)), comparison_(inner_->size(), exchange_through(*inner_)) {}

template <class What>
void ComparingBackend::compare(const What& what) {
    try {
        comparison_.compare(what);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::mismatch)
            inner_->abort(error.what());
        throw;
    }
}

// Each message is announced by its description, in the same order as the messages themselves.
void ComparingBackend::compare_messages(std::span<const CollectiveCall> messages) {
    std::vector<CallDescriptor> mine, theirs(messages.size());
    for (const CollectiveCall& message : messages)
        mine.push_back(CallDescriptor::of_message(message));
    std::vector<CollectiveCall> announcements;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        announcements.push_back({.kind = messages[i].kind,
                                 .send = &mine[i],
                                 .recv = &theirs[i],
                                 .count = sizeof mine[i],
                                 .type = DataType::u8,
                                 .root = messages[i].root});
    }
    inner_->start_group(announcements, {});
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].kind == CollectiveKind::send || mine[i].digest == theirs[i].digest)
            continue;
        const std::string text =
            fmt::format("rank {} calls {}, rank {} {}", rank(), mine[i].text.data(),
                        messages[i].root, theirs[i].text.data());
        inner_->abort(text);
        throw Error(ErrorCode::mismatch, text, "send and recv must agree on count and type");
    }
}

Work ComparingBackend::start(const CollectiveCall& call, Stream stream) {
    if (call.is_message()) {
        compare_messages({&call, 1});
    } else {
        compare(call);
    }
    return inner_->start(call, stream);
}

Work ComparingBackend::start_group(std::span<const CollectiveCall> calls, Stream stream) {
    std::vector<CollectiveCall> messages;
    for (const CollectiveCall& call : calls)
        if (call.is_message())
            messages.push_back(call);
    if (!messages.empty()) {
        compare_messages(messages);
        inner_->start_group(messages, stream);
    }
    for (const CollectiveCall& call : calls)
        if (!call.is_message())
            start(call, stream);
    return {};
}

void ComparingBackend::barrier() {
    compare(std::string_view("barrier"));
    inner_->barrier();
}

std::shared_ptr<void> ComparingBackend::allocate(std::size_t bytes) {
    compare(std::string_view(fmt::format("allocate of {} bytes", bytes)));
    return inner_->allocate(bytes);
}

std::shared_ptr<CommunicatorBackend> ComparingBackend::split(int color, int key) {
    compare(std::string_view("split"));
    auto part = inner_->split(color, key);
    return part ? std::make_shared<ComparingBackend>(std::move(part)) : nullptr;
}

std::shared_ptr<CommunicatorBackend> ComparingBackend::shrink(std::span<const int> lost) {
    return std::make_shared<ComparingBackend>(inner_->shrink(lost));
}

}  // namespace autolaunch
