#pragma once
#include "causes/cause.hpp"
#include "progress/rank_activity.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

/// The bytes of single fields: integers little-endian and of fixed width, bool and optional one
/// byte that is 0 or 1, durations 64 bits of milliseconds, strings and lists a 32-bit length first.
/// Pure.
namespace autolaunch::launcher::control {

/// No list of a message has more items: one a node is the most there is.
inline constexpr std::size_t kMaxItems = std::size_t{1} << 17;

/// For bytes that are no message: Error{corrupt}.
[[noreturn]] void refuse_message(const std::string& what);

/// A message struct: fields(T&) ties its fields together in the order of the wire.
template <class T>
concept Record = requires(T& record) {
    fields(record);
};

class FieldWriter {
public:
    explicit FieldWriter(std::string& out) : out_(out) {}

    template <std::integral T>
    void put(T value) {
        const auto bits = static_cast<std::uint64_t>(value);
        for (std::size_t i = 0; i < sizeof(T); ++i)
            out_.push_back(static_cast<char>(bits >> (8 * i) & 0xFF));
    }
    void put(Cause cause) { put(static_cast<std::uint8_t>(cause)); }
    void put(Certainty certainty) { put(static_cast<std::uint8_t>(certainty)); }
    void put(Doing doing) { put(static_cast<std::uint8_t>(doing)); }
    void put(std::chrono::milliseconds time) { put(static_cast<std::uint64_t>(time.count())); }
    void put(std::string_view text) {
        put_count(text.size());
        out_.append(text);
    }
    void put(const std::string& text) { put(std::string_view(text)); }
    template <class T>
    void put(const std::optional<T>& value) {
        put(value.has_value());
        if (value)
            put(*value);
    }
    template <class First, class Second>
    void put(const std::pair<First, Second>& pair) {
        put(pair.first);
        put(pair.second);
    }
    template <class T>
    void put(const std::vector<T>& items) {
        check_items(items.size());
        put_count(items.size());
        for (const T& item : items)
            put(item);
    }
    template <Record T>
    void put(const T& record) {
        std::apply([this](const auto&... field) { (this->put(field), ...); }, fields(record));
    }

private:
    void put_count(std::size_t count);           // throws Error{invalid_argument} over 32 bits
    static void check_items(std::size_t count);  // the same over kMaxItems

    std::string& out_;
};

/// Reads from bytes that a stranger may have made: every read is checked against what is left, and
/// throws Error{corrupt}.
class FieldReader {
public:
    explicit FieldReader(std::string_view bytes) : left_(bytes) {}

    std::size_t left() const { return left_.size(); }

    template <std::integral T>
    void get(T& value) {
        const std::string_view bytes = take(sizeof(T));
        std::uint64_t bits = 0;
        for (std::size_t i = 0; i < sizeof(T); ++i)
            bits |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
        value = static_cast<T>(bits);
    }
    void get(std::chrono::milliseconds& time) {
        std::uint64_t count = 0;
        get(count);
        time = std::chrono::milliseconds(count);
    }
    void get(bool& value);
    void get(Cause& cause);
    void get(Certainty& certainty);
    void get(Doing& doing);
    void get(std::string& text);
    template <class T>
    void get(std::optional<T>& value) {
        bool there = false;
        get(there);
        if (there)
            get(value.emplace());
    }
    template <class First, class Second>
    void get(std::pair<First, Second>& pair) {
        get(pair.first);
        get(pair.second);
    }
    /// Grows with the items that are really there: a count that promises more than the bytes left
    /// hold is refused first.
    template <class T>
    void get(std::vector<T>& items) {
        const std::size_t count = get_count(smallest<T>());
        items.reserve(count);
        for (std::size_t i = 0; i < count; ++i)
            get(items.emplace_back());
    }
    template <Record T>
    void get(T& record) {
        std::apply([this](auto&... field) { (this->get(field), ...); }, fields(record));
    }

private:
    template <class T>
    static std::size_t smallest() {  // bytes of the shortest T on the wire
        static const std::size_t bytes = [] {
            std::string shortest;
            FieldWriter(shortest).put(T{});
            return shortest.size();
        }();
        return bytes;
    }
    std::string_view take(std::size_t bytes);
    std::size_t get_count(std::size_t item_bytes);

    std::string_view left_;
};

}  // namespace autolaunch::launcher::control
