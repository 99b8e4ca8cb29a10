#include "tasks/stand_in_message.hpp"

#include <autolaunch/error.hpp>

#include <cstring>
#include <type_traits>
#include <utility>

namespace autolaunch::launcher::stand_in {

namespace {

constexpr std::size_t kHeaderBytes = 5;  // length of the rest, type

[[noreturn]] void corrupt(const std::string& what) {
    throw Error(ErrorCode::corrupt, "a message between the tasks of a node: " + what,
                "all tasks must run the same autolaunch");
}

// Agent and stand-ins run on one machine, so numbers go as the machine has them.
class Writer {
public:
    template <typename Number>
    requires std::is_arithmetic_v<Number>
    void operator()(Number value) {
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    void operator()(const std::string& text) {
        (*this)(static_cast<std::uint32_t>(text.size()));
        bytes_ += text;
    }
    template <typename Item>
    void operator()(const std::vector<Item>& items) {
        (*this)(static_cast<std::uint32_t>(items.size()));
        for (const auto& item : items)
            (*this)(item);
    }
    template <typename Item>
    void operator()(const std::optional<Item>& item) {
        (*this)(item.has_value());
        if (item)
            (*this)(*item);
    }
    std::string take() { return std::move(bytes_); }

private:
    std::string bytes_;
};

class Reader {
public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}

    template <typename Number>
    requires std::is_arithmetic_v<Number>
    void operator()(Number& value) { std::memcpy(&value, take(sizeof value).data(), sizeof value); }
    void operator()(bool& value) {
        const char byte = take(1)[0];
        if (byte != 0 && byte != 1)
            corrupt("a truth value that is neither");
        value = byte == 1;
    }
    void operator()(std::string& text) {
        std::uint32_t size = 0;
        (*this)(size);
        text = take(size);
    }
    // An item has 4 bytes or more, so what is allocated is bounded by what has arrived.
    template <typename Item>
    void operator()(std::vector<Item>& items) {
        constexpr std::size_t kLeast = sizeof(std::uint32_t);
        static_assert(std::is_same_v<Item, std::string> || sizeof(Item) == kLeast);
        std::uint32_t count = 0;
        (*this)(count);
        if (count > bytes_.size() / kLeast)
            corrupt("a list longer than its frame");
        items.resize(count);
        for (auto& item : items)
            (*this)(item);
    }
    template <typename Item>
    void operator()(std::optional<Item>& item) {
        bool is_there = false;
        (*this)(is_there);
        if (is_there)
            (*this)(item.emplace());
    }
    void expect_end() const {
        if (!bytes_.empty())
            corrupt("a frame longer than its message");
    }

private:
    std::string_view take(std::size_t count) {
        if (count > bytes_.size())
            corrupt("a frame shorter than its message");
        const auto taken = bytes_.substr(0, count);
        bytes_.remove_prefix(count);
        return taken;
    }

    std::string_view bytes_;
};

// The fields of each message in their order, for both directions.
template <typename Archive, typename M>
void fields(Archive& archive, M& message) {
    using T = std::remove_const_t<M>;
    const auto each = [&](auto&... field) { (archive(field), ...); };
    if constexpr (std::is_same_v<T, Hello>)
        each(message.protocol, message.local_task, message.pid, message.environment, message.cpus);
    if constexpr (std::is_same_v<T, Started>)
        each(message.pid, message.affinity_error, message.memory_policy_error);
    if constexpr (std::is_same_v<T, StartFailed>)
        each(message.stage, message.error_number, message.what, message.hint);
    if constexpr (std::is_same_v<T, Ended>)
        each(message.exit_code, message.signal, message.core_dumped);
    if constexpr (std::is_same_v<T, OffspringEnded>)
        each(message.all);
    if constexpr (std::is_same_v<T, Signalled> || std::is_same_v<T, SignalGroup>)
        each(message.signal);
    if constexpr (std::is_same_v<T, Refused>)
        each(message.reason, message.hint);
    if constexpr (std::is_same_v<T, Start>)
        each(message.spec.argv, message.spec.environment, message.spec.workdir, message.spec.cpus,
             message.spec.memory_nodes, message.spec.file_limit, message.descriptors,
             message.inherited_as);
    if constexpr (std::is_same_v<T, EndOffspring>)
        each(message.timeout_ms);
    if constexpr (std::is_same_v<T, Finish>)
        each(message.exit_code);
}

template <std::size_t Index = 0>
Message decode(std::size_t type, Reader& reader) {
    if constexpr (Index < std::variant_size_v<Message>) {
        if (type != Index)
            return decode<Index + 1>(type, reader);
        std::variant_alternative_t<Index, Message> message;
        fields(reader, message);
        return message;
    } else {
        corrupt("an unknown type " + std::to_string(type));
    }
}

}  // namespace

std::string encode(const Message& message) {
    Writer writer;
    std::visit([&](const auto& m) { fields(writer, m); }, message);
    const std::string body = writer.take();
    Writer frame;
    frame(static_cast<std::uint32_t>(body.size()));
    frame(static_cast<std::uint8_t>(message.index()));
    return frame.take() + body;
}

std::optional<Message> take_message(std::string& bytes) {
    if (bytes.size() < kHeaderBytes)
        return std::nullopt;
    std::uint32_t length = 0;
    std::uint8_t type = 0;
    Reader header(std::string_view(bytes).substr(0, kHeaderBytes));
    header(length);
    header(type);
    if (length > kFrameLimit)
        corrupt("a frame of " + std::to_string(length) + " bytes");
    if (bytes.size() < kHeaderBytes + length)
        return std::nullopt;
    Reader reader(std::string_view(bytes).substr(kHeaderBytes, length));
    Message message = decode(type, reader);
    reader.expect_end();
    bytes.erase(0, kHeaderBytes + length);
    return message;
}

}  // namespace autolaunch::launcher::stand_in
