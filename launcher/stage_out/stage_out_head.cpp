// The head's part of StageOut: all nodes are asked, and what stays anywhere is named.
#include "base/deadline.hpp"
#include "exit_codes/exit_codes.hpp"
#include "stage_out/out_place.hpp"
#include "stage_out/stage_out.hpp"

#include <fmt/format.h>
#include <asio/post.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kForAnswers = std::chrono::seconds(10);  // of nodes, behind their own deadline
constexpr auto kBetweenOutLines = std::chrono::seconds(5);

}  // namespace

void StageOut::begin_round(OutRound round) {
    round_ = std::move(round);
    shown_at_ = std::chrono::steady_clock::now();
    listen(round_->generation);
    for (const auto& [node, name] : round_->nodes)
        waiting_.insert(node);
    const std::string ask = as_line(OutAsk{round_->end, round_->within});
    for (const auto& [node, name] : round_->nodes)
        member_.relay(control::RelayChannel::stage_out, round_->generation, node, ask);
    hurry(round_->within);
    end_round_if_over();
}

// Each node has a deadline of its own, and says what it could not do; who says nothing is named.
void StageOut::hurry(std::chrono::milliseconds within) {
    if (!round_)
        return;
    if (within < round_->within) {
        round_->within = within;
        for (const int node : waiting_)
            member_.relay(control::RelayChannel::stage_out, round_->generation, node,
                          as_line(OutAsk{round_->end, within}));
    }
    round_deadline_.expires_after(within + kForAnswers);
    round_deadline_.async_wait([this](const std::error_code& error) {
        if (error || !round_)
            return;
        for (const int node : std::set<int>(waiting_))
            leave(round_->nodes[node], {.why = "it did not say what it has copied",
                                        .exit_code = exit_code::kUnavailable});
        waiting_.clear();
        end_round_if_over();
    });
}

void StageOut::lose(int node, const std::string& name) {
    if (waiting_.erase(node) == 0)
        return;
    leave_lost(name);
    end_round_if_over();
}

void StageOut::leave_lost(const std::string& name) {
    leave(name, {.why = "the node was lost", .exit_code = exit_code::kNoHost});
}

void StageOut::hear_node(int node, const OutWord& word) {
    if (!round_ || !round_->nodes.contains(node))
        return;
    const std::string name = round_->nodes[node];
    for (const std::string& note : word.notes)
        round_->report(WarningRaised{fmt::format("storage.stage_out: {}: {}", name, note)});
    for (const OutProgress& progress : word.progress)
        show(name, progress);
    for (const OutDone& done : word.done)
        finish(name, word, done);
    if (!word.over)
        return;
    waiting_.erase(node);
    end_round_if_over();
}

void StageOut::show(const std::string& node, const OutProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_at_ < kBetweenOutLines)
        return;
    shown_at_ = now;
    round_->report(DataStagingOut{
        .node = node, .name = progress.name, .bytes = progress.bytes, .of = progress.of});
}

void StageOut::finish(const std::string& node, const OutWord& word, const OutDone& done) {
    const OutItem* const item = item_of(done.name);
    const std::string to = item == nullptr ? std::string() : item->to;
    if (done.exit_code == 0)
        return round_->report(DataStagedOut{.node = node,
                                            .name = done.name,
                                            .to = to,
                                            .bytes = done.bytes,
                                            .files = done.files,
                                            .found_files = done.found_files,
                                            .took = done.took});
    leave(node, {.name = done.name,
                 .to = to,
                 .folder = word.folder,
                 .bytes = done.left_bytes,
                 .files = done.left_files,
                 .why = done.what,
                 .hint = done.hint,
                 .exit_code = done.exit_code});
}

void StageOut::leave(const std::string& node, DataLeft left) {
    left.node = node;
    if (left.folder.empty())
        left.folder = out_root(plan_.staging.scratch).string();
    left.command = command_for(std::filesystem::path(left.folder).filename().string());
    failures_.push_back({left.exit_code, node, left.why});
    round_->report(std::move(left));
}

void StageOut::end_round_if_over() {
    if (!round_ || is_alone_ || !waiting_.empty())
        return;
    round_deadline_.cancel();
    asio::post(io_, [alive = std::weak_ptr(alive_), then = std::move(round_->then)] {
        if (alive.lock() && then)
            then();
    });
    round_->then = nullptr;
}

std::string StageOut::command_for(const std::string& job) const {
    return "autolaunch stage-out" +
           (plan_.staging.scratch == default_out_scratch()
                ? std::string()
                : " --scratch " + plan_.staging.scratch) +
           (job.find('@') == std::string::npos ? std::string() : ' ' + job);
}

const OutItem* StageOut::item_of(const std::string& name) const {
    const auto& items = plan_.staging.out;
    const auto found = std::find_if(items.begin(), items.end(),
                                    [&](const OutItem& item) { return item.name == name; });
    return found == items.end() ? nullptr : &*found;
}

}  // namespace autolaunch::launcher
