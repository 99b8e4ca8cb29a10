#include "hang_evidence/pickle.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

using nlohmann::json;

constexpr std::size_t kMostValues = 1'000'000;
constexpr std::size_t kMostLevels = 64;

/// A value, how many there are in it, and how deep.
struct Value {
    json value;
    std::size_t count = 1, levels = 1;
};

/// A machine with a stack and a memo, as pickletools describes it. What is remembered is copied, as
/// it is then: no value can hold itself, and copies count.
class Unpickler {
public:
    explicit Unpickler(std::string_view bytes) : bytes_(bytes) {}

    json run() {
        while (!over_)
            step(take(1).front());
        return pop().value;
    }

private:
    [[noreturn]] void refuse(const std::string& why) const {
        throw Error(ErrorCode::corrupt, "the pickle's byte " + std::to_string(at_) + ": " + why);
    }
    std::string_view take(std::uint64_t count) {
        if (count > bytes_.size() - at_)
            refuse("it ends too early");
        const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(count));
        at_ += taken.size();
        return taken;
    }
    // Little-endian, as all of them but one.
    std::uint64_t number(std::size_t bytes) {
        std::uint64_t value = 0;
        int shift = 0;
        for (const char byte : take(bytes)) {
            value |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << shift;
            shift += 8;
        }
        return value;
    }
    std::int64_t signed_number(std::uint64_t bytes) {
        if (bytes > 8)
            refuse("a number of " + std::to_string(bytes) + " bytes");
        if (bytes == 0)
            return 0;
        const auto size = static_cast<std::size_t>(bytes);
        const int unused = static_cast<int>(64 - 8 * size);
        return static_cast<std::int64_t>(number(size) << unused) >> unused;
    }
    double real() {
        std::uint64_t bits = 0;
        for (const char byte : take(8))
            bits = bits << 8 | static_cast<unsigned char>(byte);
        return std::bit_cast<double>(bits);
    }

    void count(std::size_t more) {
        made_ += more;
        if (made_ > kMostValues)
            refuse("too many values");
    }
    void push(json value) { push(Value{std::move(value)}); }
    void push(Value value) {
        count(value.count);
        stack_.push_back(std::move(value));
    }
    Value pop() {
        if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
            refuse("a value is missing");
        Value value = std::move(stack_.back());
        stack_.pop_back();
        return value;
    }
    std::vector<Value> pop_to_mark() {
        if (marks_.empty())
            refuse("a mark is missing");
        std::vector<Value> values;
        for (std::size_t i = marks_.back(); i < stack_.size(); ++i)
            values.push_back(std::move(stack_[i]));
        stack_.resize(marks_.back());
        marks_.pop_back();
        return values;
    }
    Value& top() {
        if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
            refuse("a value is missing");
        return stack_.back();
    }

    json take_in(Value& outer, Value&& inner) {
        outer.count += inner.count;
        outer.levels = std::max(outer.levels, inner.levels + 1);
        if (outer.levels > kMostLevels)
            refuse("it is nested too deeply");
        return std::move(inner.value);
    }
    void append(std::vector<Value> values) {
        Value& list = top();
        if (!list.value.is_array())
            refuse("no list to append to");
        for (Value& value : values)
            list.value.push_back(take_in(list, std::move(value)));
    }
    void set_items(std::vector<Value> values) {
        Value& items = top();
        if (!items.value.is_object() || values.size() % 2 != 0)
            refuse("no dictionary to fill");
        for (std::size_t i = 0; i < values.size(); i += 2) {
            if (!values[i].value.is_string())
                refuse("a key that is no text");
            items.value[values[i].value.get<std::string>()] =
                take_in(items, std::move(values[i + 1]));
        }
    }
    void tuple(std::vector<Value> values) {
        push(json::array());
        append(std::move(values));
    }
    void tuple(std::size_t size) {
        std::vector<Value> values;
        for (std::size_t i = 0; i < size; ++i)
            values.insert(values.begin(), pop());
        tuple(std::move(values));
    }
    void remember(std::uint64_t index) {
        count(top().count);
        memo_[index] = top();
    }
    void recall(std::uint64_t index) {
        const auto found = memo_.find(index);
        if (found == memo_.end())
            refuse("nothing is remembered there");
        push(found->second);
    }
    void text(std::uint64_t size) { push(json(std::string(take(size)))); }
    void mark() {
        if (marks_.size() >= kMostLevels)
            refuse("it is nested too deeply");
        marks_.push_back(stack_.size());
    }

    static std::vector<Value> one(Value value) {
        std::vector<Value> values;
        values.push_back(std::move(value));
        return values;
    }
    void step(char opcode);

    std::string_view bytes_;
    std::size_t at_ = 0, made_ = 0;
    bool over_ = false;
    std::vector<Value> stack_;
    std::vector<std::size_t> marks_;
    std::map<std::uint64_t, Value> memo_;
};

void Unpickler::step(char opcode) {
    switch (opcode) {
        case '\x80':  // PROTO
            return static_cast<void>(take(1));
        case '\x95':  // FRAME
            return static_cast<void>(take(8));
        case '.':
            over_ = true;
            return;
        case '(':
            return mark();
        case '}':
            return push(json::object());
        case ']':
        case ')':
            return push(json::array());
        case 'N':
            return push(json());
        case '\x88':
            return push(json(true));
        case '\x89':
            return push(json(false));
        case 'K':
            return push(json(number(1)));
        case 'M':
            return push(json(number(2)));
        case 'J':
            return push(json(signed_number(4)));
        case '\x8a':  // LONG1
            return push(json(signed_number(number(1))));
        case 'G':
            return push(json(real()));
        case 'X':  // BINUNICODE, and the short and the long one
            return text(number(4));
        case '\x8c':
            return text(number(1));
        case '\x8d':
            return text(number(8));
        case 'q':
            return remember(number(1));
        case 'r':
            return remember(number(4));
        case '\x94':  // MEMOIZE
            return remember(memo_.size());
        case 'h':
            return recall(number(1));
        case 'j':
            return recall(number(4));
        case '\x85':
        case '\x86':
        case '\x87':
            return tuple(static_cast<std::size_t>(opcode - '\x85') + 1);
        case 't':
            return tuple(pop_to_mark());
        case 'e':
            return append(pop_to_mark());
        case 'a':
            return append(one(pop()));
        case 'u':
            return set_items(pop_to_mark());
        case 's': {
            Value value = pop();
            std::vector<Value> items = one(pop());
            items.push_back(std::move(value));
            return set_items(std::move(items));
        }
        default:
            refuse("an opcode that plain values do not need: " +
                   std::to_string(static_cast<unsigned char>(opcode)));
    }
}

}  // namespace

json read_pickle(std::string_view bytes) { return Unpickler(bytes).run(); }

}  // namespace autolaunch::launcher
