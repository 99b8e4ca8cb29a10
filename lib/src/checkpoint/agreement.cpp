#include "checkpoint/agreement.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <numeric>
#include <string_view>

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

// Its length in 8 bytes, and the text.
std::string frame(const std::string& text) {
    const std::uint64_t bytes = text.size();
    std::string framed(sizeof bytes, '\0');
    std::memcpy(framed.data(), &bytes, sizeof bytes);
    return framed + text;
}

std::string take_frame(std::string_view& rest) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, rest.data(), sizeof bytes);
    std::string text(rest.substr(sizeof bytes, bytes));
    rest.remove_prefix(sizeof bytes + text.size());
    return text;
}

// Not empty.
void send_text(Communicator& world, const std::string& text, int to) {
    const std::uint64_t bytes = text.size();
    world.send(&bytes, 1, DataType::u64, to).wait();
    world.send(text.data(), text.size(), DataType::u8, to).wait();
}

std::string receive_text(Communicator& world, int from) {
    std::uint64_t bytes = 0;
    world.recv(&bytes, 1, DataType::u64, from).wait();
    std::string text(bytes, '\0');
    world.recv(text.data(), text.size(), DataType::u8, from).wait();
    return text;
}

// Of the ranks' texts, in rank order.
std::vector<std::size_t> gather_lengths(Communicator& world, const std::string& text) {
    const auto bytes = static_cast<std::uint64_t>(text.size());
    std::vector<std::uint64_t> lengths(static_cast<std::size_t>(world.size()));
    world.all_gather(&bytes, lengths.data(), 1, DataType::u64).wait();
    return {lengths.begin(), lengths.end()};
}

std::size_t sum(const std::vector<std::size_t>& lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
}

std::vector<std::string> cut(const std::string& all, const std::vector<std::size_t>& lengths) {
    std::vector<std::string> texts;
    std::size_t begin = 0;
    for (const std::size_t length : lengths) {
        texts.push_back(all.substr(begin, length));
        begin += length;
    }
    return texts;
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

std::vector<std::string> gather_texts(Communicator& world, const std::string& text, int root) {
    const int size = world.size(), place = (world.rank() - root + size) % size;
    std::string bundle = frame(text);  // of the ranks from this place to the next bundle's
    for (int step = 1; step < size; step *= 2) {
        if ((place & step) != 0) {
            send_text(world, bundle, (place - step + root) % size);
            return {};
        }
        if (place + step < size)
            bundle += receive_text(world, (place + step + root) % size);
    }
    std::vector<std::string> texts(static_cast<std::size_t>(size));
    std::string_view rest = bundle;
    for (int i = 0; i < size; ++i)
        texts[static_cast<std::size_t>((root + i) % size)] = take_frame(rest);
    return texts;
}

std::string merge_texts(
    Communicator& world, const std::string& text,
    const std::function<std::string(const std::vector<std::string>& texts)>& merge) {
    const auto texts = gather_texts(world, text, 0);
    std::string merged;
    together(world, [&] {
        if (world.rank() == 0)
            merged = merge(texts);
    });
    return broadcast_text(world, std::move(merged), 0);
}

std::vector<std::string> exchange_texts(Communicator& world, const std::string& text) {
    const auto lengths = gather_lengths(world, text);
    std::string all(sum(lengths), '\0');
    if (!all.empty())
        world.all_gather_v(text.data(), all.data(), lengths, DataType::u8).wait();
    return cut(all, lengths);
}

std::string take_text(Communicator& world, const std::string& text, std::span<const int> sources) {
    const auto lengths = gather_lengths(world, text);
    const int mine = world.rank(), source = sources[static_cast<std::size_t>(mine)];
    std::string taken = text;
    const bool receives = source != mine && lengths[static_cast<std::size_t>(source)] > 0;
    if (source != mine)
        taken.assign(lengths[static_cast<std::size_t>(source)], '\0');
    std::vector<int> receivers;
    for (int rank = 0; rank < world.size() && !text.empty(); ++rank)
        if (rank != mine && sources[static_cast<std::size_t>(rank)] == mine)
            receivers.push_back(rank);
    if (receivers.empty() && !receives)
        return taken;
    world.group_start();
    for (const int rank : receivers)
        world.send(text.data(), text.size(), DataType::u8, rank);
    if (receives)
        world.recv(taken.data(), taken.size(), DataType::u8, source);
    world.group_end().wait();
    return taken;
}

}  // namespace autolaunch
