#include "rank_services/store_relay_protocol.hpp"

#include "rank_services/credited_stream.hpp"

#include <autolaunch/error.hpp>

#include <utility>

namespace autolaunch::launcher::store_relay {
namespace {

enum class QuestionKind : std::uint8_t { ask, watch, unwatch };
enum class AnswerKind : std::uint8_t { reply, appeared, refused, hangup };

constexpr std::size_t kNumberBytes = 8;
constexpr std::size_t kHeadBytes =
    1 + kNumberBytes;  // kind and ticket: the length counts them, too

/// Puts the envelope around what `append_body` appends.
template <class Kind, class AppendBody>
void append_item(std::string& out, Kind kind, std::uint64_t ticket, AppendBody append_body) {
    const std::size_t start = out.size();
    store::append_u64(out, 0);
    store::append_u8(out, static_cast<std::uint8_t>(kind));
    store::append_u64(out, ticket);
    append_body();
    std::string length;
    store::append_u64(length, out.size() - start - kNumberBytes);
    out.replace(start, kNumberBytes, length);
}

std::uint64_t take_number(std::string& body) {
    if (body.size() < kNumberBytes)
        refuse_bytes("a number is cut short");
    const std::uint64_t number = store::load_le(body.data(), kNumberBytes);
    body.erase(0, kNumberBytes);
    return number;
}

std::string checked_key(std::string&& key, const store::Limits& limits) {
    if (key.size() > limits.key_bytes)
        refuse_bytes("a key of " + std::to_string(key.size()) + " bytes exceeds the limit");
    return std::move(key);
}

}  // namespace

void append(std::string& out, const Question& question) {
    if (const auto* ask = std::get_if<Ask>(&question)) {
        append_item(out, QuestionKind::ask, ask->ticket,
                    [&] { store::append_request(out, ask->request); });
    } else if (const auto* watch = std::get_if<Watch>(&question)) {
        append_item(out, QuestionKind::watch, watch->ticket, [&] {
            store::append_u64(out, watch->after);
            out.append(watch->key);
        });
    } else if (const auto* unwatch = std::get_if<Unwatch>(&question)) {
        append_item(out, QuestionKind::unwatch, unwatch->ticket, [&] { out.append(unwatch->key); });
    }
}

void append(std::string& out, const Answer& answer) {
    if (const auto* reply = std::get_if<Reply>(&answer)) {
        append_item(out, AnswerKind::reply, reply->ticket, [&] { out.append(reply->bytes); });
    } else if (const auto* appeared = std::get_if<Appeared>(&answer)) {
        append_item(out, AnswerKind::appeared, appeared->ticket,
                    [&] { store::append_u64(out, appeared->push); });
    } else if (const auto* refused = std::get_if<Refused>(&answer)) {
        append_item(out, AnswerKind::refused, refused->ticket, [] {});
    } else {
        append_item(out, AnswerKind::hangup, 0, [] {});
    }
}

std::optional<Item> ItemReader::next() {
    const std::size_t have = buffer_.size() - offset_;
    if (have < kNumberBytes)
        return std::nullopt;
    const std::uint64_t length = store::load_le(buffer_.data() + offset_, kNumberBytes);
    if (length < kHeadBytes || length - kHeadBytes > body_limit_)
        refuse_bytes("an item of " + std::to_string(length) + " bytes");
    if (have - kNumberBytes < length)
        return std::nullopt;
    const char* start = buffer_.data() + offset_ + kNumberBytes;
    Item item;
    item.kind = static_cast<std::uint8_t>(start[0]);
    item.ticket = store::load_le(start + 1, kNumberBytes);
    item.body.assign(start + kHeadBytes, static_cast<std::size_t>(length) - kHeadBytes);
    offset_ += kNumberBytes + static_cast<std::size_t>(length);
    if (offset_ == buffer_.size()) {
        std::string().swap(buffer_);
        offset_ = 0;
    } else if (offset_ > buffer_.size() / 2) {
        buffer_.erase(0, offset_);
        offset_ = 0;
    }
    return item;
}

/// The strings of a request, their lengths, and what is around them.
std::size_t question_limit(const store::Limits& limits) {
    constexpr std::size_t kPerKey = 2 * kNumberBytes;
    constexpr std::size_t kAround = 64;
    return limits.request_bytes + kPerKey * limits.keys_per_request + kAround;
}

std::size_t answer_limit(const store::Limits& limits) { return limits.reply_bytes; }

Question parse_question(Item&& item, const store::Limits& limits) {
    switch (static_cast<QuestionKind>(item.kind)) {
        case QuestionKind::ask:
            return Ask{item.ticket, store::parse_request(item.body, limits)};
        case QuestionKind::watch: {
            const std::uint64_t after = take_number(item.body);
            return Watch{item.ticket, after, checked_key(std::move(item.body), limits)};
        }
        case QuestionKind::unwatch:
            return Unwatch{item.ticket, checked_key(std::move(item.body), limits)};
    }
    refuse_bytes("unknown question " + std::to_string(item.kind));
}

Answer parse_answer(Item&& item) {
    const auto empty = [&](auto answer) {
        if (!item.body.empty())
            refuse_bytes("something follows an answer");
        return answer;
    };
    switch (static_cast<AnswerKind>(item.kind)) {
        case AnswerKind::reply:
            return Reply{item.ticket, std::move(item.body)};
        case AnswerKind::appeared: {
            const std::uint64_t push = take_number(item.body);
            return empty(Appeared{item.ticket, push});
        }
        case AnswerKind::refused:
            return empty(Refused{item.ticket});
        case AnswerKind::hangup:
            return empty(Hangup{});
    }
    refuse_bytes("unknown answer " + std::to_string(item.kind));
}

}  // namespace autolaunch::launcher::store_relay
