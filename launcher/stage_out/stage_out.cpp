#include "stage_out/stage_out.hpp"

#include "base/deadline.hpp"
#include "exit_codes/exit_error.hpp"
#include "report/banner.hpp"
#include "stage_out/out_place.hpp"
#include "staging/stager_order.hpp"

#include <fmt/format.h>
#include <asio/post.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using std::chrono::steady_clock;

constexpr auto kCopierSilence = std::chrono::seconds(15);  // which speaks once a second

OutOrder order_of(const LaunchPlan& plan, const std::string& node) {
    const StorageSpec& storage = plan.spec.storage;
    OutOrder order{.run_id = plan.run_id,
                   .node = node,
                   .run_dir = plan.run_dir,
                   .nodes = plan.node_count,
                   .bytes_per_second = storage.throttle_bytes.value_or(0),
                   .timeout = storage.timeout,
                   .entries = {}};
    for (const OutItem& item : plan.staging.out)
        order.entries.push_back(
            {item.name, item.to, item.on_success, item.by_node, item.may_overwrite});
    return order;
}

}  // namespace

StageOut::StageOut(asio::io_context& io, const LaunchPlan& plan, Member& member, std::string node)
    : io_(io),
      plan_(plan),
      member_(member),
      node_(std::move(node)),
      deadline_(io),
      round_deadline_(io) {}

StageOut::~StageOut() = default;

void StageOut::listen(int generation) {
    if (std::exchange(generation_, generation) == generation)
        return;
    member_.on_relay(control::RelayChannel::stage_out, generation,
                     [this, alive = std::weak_ptr(alive_)](int node, std::string_view text) {
                         if (alive.expired())
                             return;
                         try {
                             hear(node, text);
                         } catch (const Error& error) {
                             report_(WarningRaised{fmt::format("storage.stage_out: node {}: {}",
                                                               node, error.what())});
                         }
                     });
}

void StageOut::make_folders() {
    if (folder_)
        return;
    const bool comes_back = !plan_.slurm_job_id.empty() && plan_.restart_count > 0;
    folder_ = OutFolder::make(plan_.staging.scratch, order_of(plan_, node_), comes_back);
    if (folder_->was_here())
        report_(
            WarningRaised{"storage.stage_out: goes on with what an earlier start of this job has "
                          "left in " +
                          folder_->path().string()});
    for (const OutItem& item : plan_.staging.out)
        if (const std::string why = why_no_credentials(item.to); !why.empty())
            report_(WarningRaised{fmt::format(
                "storage.stage_out: what ranks write will not come to {}: {}", item.to, why)});
    for (const std::string& job : jobs_not_copied(plan_.staging.scratch))
        report_(WarningRaised{fmt::format("storage.stage_out: {} was not copied out; {}",
                                          (out_root(plan_.staging.scratch) / job).string(),
                                          command_for(job))});
}

void StageOut::give(std::vector<std::string>& environment) const {
    if (!folder_)
        return;
    for (const OutItem& item : plan_.staging.out) {
        if (plan_.spec.trainer.env.contains(item.variable))
            continue;
        std::erase_if(environment, [&](const std::string& line) {
            return line.starts_with(item.variable + '=');
        });
        environment.push_back(item.variable + '=' + folder_->path_of(item.name).string());
    }
}

// The head's word, or what a node says of its copying.
void StageOut::hear(int node, std::string_view text) {
    if (is_out_ask(text))
        return hear_ask(node, parse_out_ask(text));
    hear_node(node, parse_out_word(text));
}

// Another head than before has not heard what was said to that one.
void StageOut::hear_ask(int head, const OutAsk& ask) {
    const bool is_another = std::exchange(asked_by_, head) != head && state_ != State::idle;
    if (is_another && !told_.empty())
        send({.done = told_});
    if (is_another && state_ == State::over)
        send({.over = true});
    if (state_ == State::copying)
        limit(ask.within);
    if (state_ == State::idle)
        copy(ask.end, ask.within);
}

void StageOut::copy(OutEnd end, std::chrono::milliseconds within) {
    state_ = State::copying;
    if (!folder_)
        return settle();
    try {
        folder_->set_end(end);
        std::vector<std::string> names;
        for (const OutItem& item : plan_.staging.out) {
            if (item.on_success && end != OutEnd::succeeded)
                continue;
            names.push_back(item.name);
            wanted_[item.name] = {.name = item.name, .bytes = 0, .of = 0};
        }
        if (names.empty())
            return settle();
        copier_.emplace(
            io_, kCopierSilence,
            MoverProcess::Handlers{[this](const std::string& line) { hear_copier(line); },
                                   [this](const std::string& why) { copier_is_lost(why); }},
            MoverProcess::Program{.name = "autolaunch-stageout",
                                  .environment = out_environment(plan_)});
        ++started_;
        copier_->send(as_line(CopyOrder{.folder = folder_->path().string(),
                                        .names = names,
                                        .removes = end != OutEnd::requeued}));
        limit(within);
    } catch (const Error& error) {
        give_up_rest(error.what(), error.hint(), exit_code_of(error));
    }
}

void StageOut::limit(std::chrono::milliseconds within) {
    const auto until = steady_clock::now() + within;
    if (state_ != State::copying || (until_ != steady_clock::time_point{} && until >= until_))
        return;
    until_ = until;
    deadline_.expires_at(until);
    deadline_.async_wait([this](const std::error_code& error) {
        if (!error)
            run_out_of_time();
    });
}

void StageOut::run_out_of_time() {
    give_up_rest("the job's time was over before all of it was copied", {},
                 exit_code::kUnavailable);
}

void StageOut::copier_is_lost(const std::string& why) {
    if (state_ == State::copying)
        give_up_rest(why, "what it was copying to may not answer any more",
                     exit_code::kUnavailable);
}

// Each entry that is not done stays, and is named.
void StageOut::give_up_rest(const std::string& why, const std::string& hint, int exit_code) {
    OutWord word;
    for (const auto& [name, progress] : std::exchange(wanted_, {})) {
        if (folder_ && !folder_->has_files(name))
            continue;
        word.done.push_back({.name = name,
                             .left_bytes = std::max<std::int64_t>(progress.of - progress.bytes, 0),
                             .exit_code = exit_code,
                             .what = why,
                             .hint = hint});
    }
    if (!word.done.empty())
        tell(std::move(word));
    settle();
}

void StageOut::hear_copier(const std::string& line) {
    if (state_ != State::copying)
        return;
    try {
        OutWord word = parse_out_word(line);
        for (const OutProgress& progress : word.progress)
            wanted_[progress.name] = progress;
        const bool is_over = std::exchange(word.over, false);
        for (const OutDone& done : word.done)
            wanted_.erase(done.name);
        if (!word.done.empty() || !word.progress.empty() || !word.notes.empty())
            tell(std::move(word));
        if (!is_over)
            return;
        if (!wanted_.empty())  // it gave up
            return give_up_rest("it was not copied", {}, exit_code::kUnavailable);
        settle();
    } catch (const Error& error) {
        give_up_rest(error.what(), error.hint(), exit_code_of(error));
    }
}

// To the head, which may be this node's own; or to whoever reads this agent's console.
void StageOut::tell(OutWord word) {
    told_.insert(told_.end(), word.done.begin(), word.done.end());
    send(std::move(word));
}

void StageOut::send(OutWord word) {
    word.folder = folder_ ? folder_->path().string() : std::string();
    if (is_alone_)
        return hear_node(member_.node_rank(), word);
    member_.relay(control::RelayChannel::stage_out, generation_, member_.head_node(),
                  as_line(word));
}

void StageOut::settle() {
    deadline_.cancel();
    state_ = State::over;
    if (copier_)
        copier_->expect_nothing();
    if (!is_alone_)
        tell({.over = true});
    // Not from within a handler of the copier, which is not destroyed before its time.
    asio::post(io_, [this, alive = std::weak_ptr(alive_)] {
        if (alive.lock())
            copier_.reset();
    });
}

int StageOut::finish_alone(OutEnd end, std::chrono::milliseconds most,
                           const std::function<void(const std::string&)>& say) {
    if (state_ == State::over || !folder_)
        return 0;
    is_alone_ = true;
    failures_.clear();
    round_ = OutRound{.generation = generation_,
                      .end = end,
                      .within = most,
                      .nodes = {{member_.node_rank(), node_}},
                      .report =
                          [&say](const Happening& what) {
                              if (const auto* left = std::get_if<DataLeft>(&what))
                                  say(left_line(*left));
                              else if (const auto* out = std::get_if<DataStagedOut>(&what))
                                  say(staged_out_line(*out));
                          },
                      .then = {}};
    if (state_ == State::idle)
        copy(end, most);
    limit(most);
    io_.restart();
    while (state_ != State::over)
        io_.run_one();
    round_.reset();
    return failures_.empty() ? 0 : failures_.front().exit_code;
}

void StageOut::cut() {
    if (is_alone_)
        limit(std::chrono::milliseconds(0));
}

}  // namespace autolaunch::launcher
