#include "pmi/pmixd_message.hpp"

#include <autolaunch/error.hpp>

#include <array>
#include <type_traits>

namespace autolaunch::launcher::pmixd {

namespace {

constexpr std::size_t kHeaderBytes = 5;  // length, type

[[noreturn]] void corrupt(const std::string& what) {
    throw Error(ErrorCode::corrupt, "autolaunch-pmixd: " + what);
}

/// Numbers are little-endian; text is a 32-bit length and its bytes; a list is a 32-bit count and
/// its elements.
class Writer {
public:
    void operator()(std::uint64_t value) { number(value, 8); }
    void operator()(std::uint32_t value) { number(value, 4); }
    void operator()(int value) { number(static_cast<std::uint32_t>(value), 4); }
    void operator()(bool value) { number(value ? 1 : 0, 1); }
    void operator()(const std::string& text) {
        number(text.size(), 4);
        bytes_ += text;
    }
    template <typename T>
    void operator()(const std::vector<T>& list) {
        number(list.size(), 4);
        for (const T& element : list)
            (*this)(element);
    }
    void operator()(const std::pair<std::string, int>& pair) {
        (*this)(pair.first);
        (*this)(pair.second);
    }
    std::string take() { return std::move(bytes_); }

private:
    void number(std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i)
            bytes_.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
    }
    std::string bytes_;
};

class Reader {
public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}

    void operator()(std::uint64_t& value) { value = number(8); }
    void operator()(std::uint32_t& value) { value = static_cast<std::uint32_t>(number(4)); }
    void operator()(int& value) { value = static_cast<int>(static_cast<std::uint32_t>(number(4))); }
    void operator()(bool& value) { value = number(1) != 0; }
    void operator()(std::string& text) {
        const std::size_t size = number(4);
        text = take(size);
    }
    template <typename T>
    void operator()(std::vector<T>& list) {
        const std::size_t count = number(4);
        if (count > bytes_.size() / 4)
            corrupt("a list is longer than its frame");  // an element has 4 bytes or more
        list.resize(count);
        for (T& element : list)
            (*this)(element);
    }
    void operator()(std::pair<std::string, int>& pair) {
        (*this)(pair.first);
        (*this)(pair.second);
    }
    void end() const {
        if (!bytes_.empty())
            corrupt("a frame is longer than its fields");
    }

private:
    std::string_view take(std::size_t size) {
        if (size > bytes_.size())
            corrupt("a frame is shorter than its fields");
        const std::string_view taken = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        return taken;
    }
    std::uint64_t number(std::size_t bytes) {
        const std::string_view taken = take(bytes);
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < bytes; ++i)
            value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
        return value;
    }
    std::string_view bytes_;
};

// The fields of each message, in their order on the wire: for writing and for reading alike.
template <typename Archive, typename M>
void fields(Archive& archive, M& m) {
    using T = std::remove_const_t<M>;
    const auto all = [&](auto&... field) { (archive(field), ...); };
    if constexpr (std::is_same_v<T, Start>)
        all(m.directory, m.name_space, m.node_rank, m.nodes);
    else if constexpr (std::is_same_v<T, Ready>)
        all(m.version, m.environments);
    else if constexpr (std::is_same_v<T, Failed>)
        all(m.what);
    else if constexpr (std::is_same_v<T, Fence>)
        all(m.call, m.ranks, m.blob);
    else if constexpr (std::is_same_v<T, ModexQuery> || std::is_same_v<T, ModexRequest>)
        all(m.call, m.rank);
    else if constexpr (std::is_same_v<T, Aborted>)
        all(m.rank, m.status, m.text);
    else if constexpr (std::is_same_v<T, Connected> || std::is_same_v<T, Finalized>)
        all(m.rank);
    else if constexpr (std::is_same_v<T, Log>)
        all(m.text);
    else
        all(m.call, m.good, m.blob);  // FenceDone, ModexDone, ModexAnswer
}

template <std::size_t Index>
Message read_as(std::string_view body) {
    std::variant_alternative_t<Index, Message> message;
    Reader reader(body);
    fields(reader, message);
    reader.end();
    return message;
}

template <std::size_t... Indices>
Message read_message(std::size_t type, std::string_view body, std::index_sequence<Indices...>) {
    using Read = Message (*)(std::string_view);
    constexpr std::array<Read, sizeof...(Indices)> kRead = {read_as<Indices>...};
    if (type >= kRead.size())
        corrupt("message type " + std::to_string(type));
    return kRead[type](body);
}

}  // namespace

std::string encode(const Message& message) {
    Writer body;
    body(std::uint32_t{0});  // the length, below
    std::string frame = body.take();
    frame.push_back(static_cast<char>(message.index()));
    std::visit([&](const auto& m) { fields(body, m); }, message);
    frame += body.take();
    const std::size_t size = frame.size() - kHeaderBytes;
    if (size > kFrameLimit)
        throw Error(ErrorCode::invalid_argument,
                    "a message of " + std::to_string(size) + " bytes is too long");
    for (std::size_t i = 0; i < 4; ++i)
        frame[i] = static_cast<char>(size >> (8 * i) & 0xFF);
    return frame;
}

void MessageReader::feed(std::string_view bytes) {
    buffer_.erase(0, offset_);
    offset_ = 0;
    buffer_ += bytes;
}

std::optional<Message> MessageReader::next() {
    const std::string_view waiting = std::string_view(buffer_).substr(offset_);
    if (waiting.size() < kHeaderBytes)
        return std::nullopt;
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i)
        size |= std::size_t{static_cast<unsigned char>(waiting[i])} << (8 * i);
    if (size > kFrameLimit)
        corrupt("a frame of " + std::to_string(size) + " bytes");
    if (waiting.size() < kHeaderBytes + size)
        return std::nullopt;
    offset_ += kHeaderBytes + size;
    return read_message(static_cast<unsigned char>(waiting[4]), waiting.substr(kHeaderBytes, size),
                        std::make_index_sequence<std::variant_size_v<Message>>());
}

}  // namespace autolaunch::launcher::pmixd
