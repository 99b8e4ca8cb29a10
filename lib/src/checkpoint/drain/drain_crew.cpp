#include "checkpoint/drain/drain_crew.hpp"

#include "checkpoint/format/json.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace autolaunch {

namespace {

constexpr std::chrono::milliseconds kLook(1000);

nlohmann::json parsed(const std::string& text) {
    return parse_strictly(text, "a message between drains");
}

}  // namespace

DrainCrew::DrainCrew(std::shared_ptr<Noticeboard> board, int number, int members)
    : board_(std::move(board)), number_(number), members_(members) {}

std::string DrainCrew::order_key() const { return "order/" + std::to_string(next_); }

std::string DrainCrew::answer_key(int member) const {
    return "answer/" + std::to_string(next_ - 1) + '/' + std::to_string(member);
}

void DrainCrew::order(const Order& what) {
    board_->post(
        order_key(),
        json_text({{"step", what.step}, {"manifest", what.manifest_hash}, {"end", what.end}}));
    ++next_;
}

std::set<std::string> DrainCrew::collect(const Deadline& deadline,
                                         const std::function<bool()>& stop) {
    std::set<std::string> files;
    std::string failure;
    for (int member = 1; member < members_; ++member) {
        std::optional<std::string> text;
        while (!(text = board_->read(
                     answer_key(member),
                     std::min(kLook, std::chrono::milliseconds(deadline.poll_timeout_ms() + 1))))) {
            if (stop())
                throw AbortedError("the drain was stopped");
            if (deadline.passed())
                throw TimeoutError("node " + std::to_string(member) + " has not copied its files");
        }
        const auto answer = parsed(*text);
        if (answer.contains("failure"))
            failure = answer.at("failure");
        for (const auto& file : answer.at("files"))
            files.insert(file.get<std::string>());
        board_->remove(answer_key(member));
    }
    board_->remove("order/" + std::to_string(next_ - 1));
    if (!failure.empty())
        throw Error(ErrorCode::system, failure);
    return files;
}

std::optional<DrainCrew::Order> DrainCrew::wait_order() {
    const auto text = board_->read(order_key(), kLook);
    if (!text)
        return std::nullopt;
    ++next_;
    const auto order = parsed(*text);
    return Order{order.at("step"), order.at("manifest"), order.at("end")};
}

void DrainCrew::answer(const std::vector<std::string>& files_there) {
    board_->post(answer_key(number_), json_text({{"files", files_there}}));
}

void DrainCrew::answer_failure(const std::string& why) {
    const std::string text = "node " + std::to_string(number_) + ": " + why;
    board_->post(answer_key(number_),
                 json_text({{"files", nlohmann::json::array()}, {"failure", text}}));
}

}  // namespace autolaunch
