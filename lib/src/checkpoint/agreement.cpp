#include "checkpoint/agreement.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <exception>

namespace autolaunch {

namespace {

// What crosses the wire of an exception: one byte of code, what, a zero byte, hint.
std::string encode(const Error& error) {
    return std::string(1, static_cast<char>(error.code())) + error.what() + '\0' + error.hint();
}

[[noreturn]] void throw_decoded(const std::string& text, int rank) {
    const auto code = static_cast<ErrorCode>(text.at(0));
    const std::size_t zero = std::min(text.find('\0', 1), text.size());
    throw Error(code, "rank " + std::to_string(rank) + ": " + text.substr(1, zero - 1),
                zero < text.size() ? text.substr(zero + 1) : "");
}

}  // namespace

void together(Communicator& world, const std::function<void()>& action) {
    std::exception_ptr thrown;
    std::string text;
    try {
        action();
    } catch (const Error& error) {
        thrown = std::current_exception();
        text = encode(error);
    } catch (const std::exception& error) {
        thrown = std::current_exception();
        text = encode(Error(ErrorCode::system, error.what()));
    }
    const std::int64_t mine = thrown ? world.rank() : INT64_MAX;
    const std::int64_t first = world.all_reduce_value(mine, ReduceOp::min);
    if (first == INT64_MAX)
        return;
    text = broadcast_text(world, text, static_cast<int>(first));
    if (first == world.rank())
        std::rethrow_exception(thrown);
    throw_decoded(text, static_cast<int>(first));
}

void require_equal(Communicator& world, std::uint64_t value, const std::string& what) {
    const auto number = static_cast<std::int64_t>(value >> 1);
    std::array<std::int64_t, 2> ends = {number, -number};
    world.all_reduce(std::span<std::int64_t>(ends), ReduceOp::max).wait();
    if (ends[0] != -ends[1])
        throw Error(ErrorCode::mismatch, what);
}

std::string broadcast_text(Communicator& world, std::string text, int root) {
    std::int64_t bytes = static_cast<std::int64_t>(text.size());
    world.broadcast(&bytes, 1, DataType::i64, root).wait();
    text.resize(static_cast<std::size_t>(bytes));
    if (bytes > 0)
        world.broadcast(text.data(), text.size(), DataType::u8, root).wait();
    return text;
}

std::vector<std::string> gather_texts(Communicator& world, const std::string& text) {
    const auto ranks = static_cast<std::size_t>(world.size());
    const auto bytes = static_cast<std::int64_t>(text.size());
    std::vector<std::int64_t> sizes(ranks);
    world.all_gather(&bytes, sizes.data(), 1, DataType::i64).wait();
    // Padded to the longest, because an all-gather takes equal parts.
    const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
    if (longest == 0)
        return std::vector<std::string>(ranks);
    std::string padded = text;
    padded.resize(longest);
    std::string all(ranks * longest, '\0');
    world.all_gather(padded.data(), all.data(), longest, DataType::u8).wait();
    std::vector<std::string> texts;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        texts.push_back(all.substr(rank * longest, static_cast<std::size_t>(sizes[rank])));
    return texts;
}

}  // namespace autolaunch
