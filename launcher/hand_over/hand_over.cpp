#include "hand_over/hand_over.hpp"

#include "base/hash.hpp"
#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <asio/post.hpp>
#include <nlohmann/json.hpp>

#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

constexpr int kHead = 0, kDeepestMessage = 5;
constexpr auto kReply = std::chrono::seconds(15);  // of the head
constexpr auto kMoverSilence =
    std::chrono::seconds(15);  // of the mover, which speaks once a second
constexpr std::size_t kKeyBytes = 32;

Json parse(std::string_view text) {
    if (!nests_at_most(std::string(text), kDeepestMessage))
        throw Error(ErrorCode::corrupt, "what was said is no message");
    try {
        return Json::parse(text);
    } catch (const Json::exception& error) {
        throw Error(ErrorCode::corrupt, error.what());
    }
}

std::string megabytes(std::int64_t bytes) { return fmt::format("{:.0f} MB", bytes / 1e6); }

}  // namespace

HandOver::HandOver(asio::io_context& io, Member& member, std::string address, Subject subject)
    : io_(io),
      member_(member),
      address_(std::move(address)),
      subject_(std::move(subject)),
      timer_(io) {}

HandOver::~HandOver() = default;

bool HandOver::is_settled(int generation, const std::function<Wanted()>& wanted,
                          std::function<void()> then) {
    if (std::exchange(generation_, generation) != generation && !subject_.number)
        member_.on_relay(subject_.channel, generation,  // in each: who joins later is answered, too
                         [this, alive = std::weak_ptr(alive_)](int node, std::string_view text) {
                             if (!alive.expired())
                                 hear(node, text);
                         });
    if (state_ == State::settled)
        return true;
    if (state_ == State::idle) {
        state_ = State::waiting;
        begin(wanted());
    }
    if (state_ == State::settled)
        return true;
    then_ = std::move(then);
    return false;
}

void HandOver::hear(int node, std::string_view text) {
    const auto is_nonsense = [&](const char* why) {
        notes_.push_back(
            fmt::format("{}: node {} said what makes no sense: {}", subject_.label, node, why));
    };
    try {
        hear_node(node, text);
    } catch (const Error& error) {
        is_nonsense(error.what());
    } catch (const Json::exception& error) {
        is_nonsense(error.what());
    }
}

void HandOver::tell(int node, const std::string& text) {
    Json json = Json::parse(text);
    if (subject_.number)
        json["item"] = *subject_.number;
    member_.relay(subject_.channel, generation_, node, json.dump());
}

void HandOver::begin(const Wanted& wanted) {
    if (!wanted.why_not.empty())
        return give_up(wanted.why_not);
    try {
        mover_.emplace(io_, kMoverSilence,
                       MoverProcess::Handlers{[this](const std::string& line) { hear_mover(line); },
                                              [this](const std::string& why) {
                                                  give_up(why);
                                                  lose_pieces(why);
                                              }});
        ++started_;
    } catch (const Error& error) {
        return give_up(error.what());
    }
    Json files = Json::array();
    for (const FileUse& file : wanted.files) {
        Json use = {file.path};
        for (const FileUse::Part& part : file.parts) {
            use.push_back(part.offset);
            use.push_back(part.bytes);
        }
        files.push_back(std::move(use));
    }
    why_whole_ = wanted.why_whole;
    if (!why_whole_.empty() && !subject_.number && member_.node_rank() == kHead)
        notes_.push_back(subject_.label + ": only whole files are handed on: " + why_whole_);
    Json order = {{"files", files},
                  {"cache", wanted.cache},
                  {"most_bytes", wanted.most_bytes},
                  {"nodes", member_.node_count()},
                  {"in_pieces", why_whole_.empty()},
                  {"are_programs", subject_.are_programs},
                  {"one_by_one", static_cast<bool>(subject_.on_copy)}};
    if (subject_.patience)
        order["patience_ms"] = subject_.patience->count();
    if (!wanted.coming.empty())
        order["coming"] = Json::parse(as_manifest(wanted.coming));
    mover_->send(order.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void HandOver::hear_mover(const std::string& line) {
    if (state_ != State::waiting)
        return;
    try {
        const Json said = parse(line);
        if (said.contains("port"))
            tell(kHead, Json{{"host", address_}, {"port", said["port"]}}.dump());
        if (said.contains("port") && member_.node_rank() != kHead) {
            timer_.expires_after(kReply);
            timer_.async_wait([this](const std::error_code& error) {
                if (!error && state_ == State::waiting)
                    give_up("the head did not answer");
            });
        }
        if (said.contains("bytes") && subject_.on_progress)
            subject_.on_progress(whole_number<std::int64_t>(said["bytes"]));
        if (said.contains("copy") && subject_.on_copy)
            subject_.on_copy(
                {said["copy"].at(0).get<std::string>(), said["copy"].at(1).get<std::string>()});
        if (said.contains("done"))
            take_result(line);
        if (said.contains("failed"))
            give_up(said["failed"].get<std::string>() +
                    (said.value("hint", "").empty() ? "" : "; " + said.value("hint", "")));
    } catch (const Error& error) {
        give_up(error.what());
    } catch (const Json::exception& error) {
        give_up(error.what());
    }
}

void HandOver::hear_node(int node, std::string_view text) {
    const Json said = parse(text);
    if (said.contains("port") && member_.node_rank() == kHead)
        arrive(node, {said["host"].get<std::string>(), whole_number<std::uint16_t>(said["port"])});
    else if (said.contains("above") && node == kHead)
        take_place(text);
    else if (said.contains("no") && node == kHead && state_ == State::waiting)
        give_up(said["no"].get<std::string>());
}

// The head's own is the first, for what it reads is the source of all.
void HandOver::arrive(int node, MoverAddress address) {
    if (!refusal_.empty())
        return tell(node, Json{{"no", refusal_}}.dump());
    if (node != kHead && places_.empty())
        return early_.emplace_back(node, std::move(address)), void();
    if (places_.empty())
        key_ = random_hex(kKeyBytes);
    places_.push_back(std::move(address));
    place(node);
    for (auto& [waiting, its] : std::exchange(early_, {}))
        arrive(waiting, std::move(its));
}

void HandOver::place(int node) {
    Json above = Json::array();
    for (const int place : places_above(static_cast<int>(places_.size()) - 1)) {
        const MoverAddress& its = places_[static_cast<std::size_t>(place)];
        above.push_back({its.host, its.port});
    }
    tell(node, Json{{"key", key_}, {"above", above}}.dump());
}

void HandOver::take_place(std::string_view text) {
    timer_.cancel();
    if (state_ == State::waiting && mover_)
        mover_->send(std::string(text));
}

void HandOver::take_result(std::string_view text) {
    const Json done = parse(text).at("done");
    for (const Json& copy : done.at("copies"))
        result_.copies.push_back({copy.at(0).get<std::string>(), copy.at(1).get<std::string>()});
    for (const Json& copy : done.at("in_pieces"))
        result_.in_pieces.push_back({copy.at(0).get<std::string>(), copy.at(1).get<std::string>()});
    if (!result_.in_pieces.empty() && !why_whole_.empty()) {
        notes_.push_back(fmt::format(
            "trainer.preload_from: {} file{}, of which pieces are handed on, {} read from the "
            "shared file system: {}",
            result_.in_pieces.size(), result_.in_pieces.size() == 1 ? "" : "s",
            result_.in_pieces.size() == 1 ? "is" : "are", why_whole_));
        result_.in_pieces.clear();
    }
    result_.found_bytes = whole_number<std::int64_t>(done.at("found_bytes"));
    result_.come_bytes = whole_number<std::int64_t>(done.at("come_bytes"));
    result_.left_bytes = whole_number<std::int64_t>(done.at("left_bytes"));
    std::string why;
    int files = 0;
    for (const auto& [reason, count] : done.at("why_left").items()) {
        why += (why.empty() ? "" : "; ") + reason;
        files += whole_number<int>(count);
    }
    if (files > 0)
        notes_.push_back(fmt::format(
            "{}: {} file{} ({}) {} read from the shared file system: {}", subject_.label, files,
            files == 1 ? "" : "s", megabytes(result_.left_bytes), files == 1 ? "is" : "are", why));
    mover_->expect_nothing();
    settle();
}

// Not from within a handler of the mover, which is not destroyed before its time.
void HandOver::give_up(const std::string& why) {
    timer_.cancel();
    if (member_.node_rank() == kHead) {
        refusal_ = why;
        for (const auto& [node, address] : std::exchange(early_, {}))
            tell(node, Json{{"no", why}}.dump());
    }
    if (state_ != State::waiting)
        return;
    notes_.push_back(subject_.label + ": " + subject_.what +
                     " from the shared file system: " + why);
    result_ = {};
    if (mover_)
        mover_->expect_nothing();
    settle();
}

// Ranks that need what is not in their page cache get an error; those that start see the originals.
void HandOver::lose_pieces(const std::string& why) {
    if (result_.in_pieces.empty())
        return;
    result_.in_pieces.clear();
    lost_pieces_ = true;
    notes_.push_back(
        "trainer.preload_from: " + why +
        ", so no more can be read of the files in pieces: ranks that start from now on read them "
        "from the shared file system");
}

void HandOver::settle() {
    const bool was_waiting = std::exchange(state_, State::settled) == State::waiting;
    if (was_waiting && then_)
        asio::post(io_, std::exchange(then_, nullptr));
}

std::vector<std::string> HandOver::take_notes() { return std::exchange(notes_, {}); }

}  // namespace autolaunch::launcher
