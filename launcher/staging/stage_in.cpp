#include "staging/stage_in.hpp"

#include "base/file_io.hpp"
#include "base/stream_listing.hpp"
#include "exit_codes/exit_error.hpp"
#include "session/environment.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/shared_cache.hpp"
#include "staging/node_words.hpp"
#include "staging/stager_order.hpp"

#include <fmt/format.h>
#include <asio/post.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kSilence = std::chrono::seconds(15);  // of the stager, which speaks once a second
constexpr auto kBetweenLines = std::chrono::seconds(5);
constexpr auto kBetweenLinesOfRanks = std::chrono::minutes(1);  // which have lines of their own
constexpr auto kBetweenMarks = std::chrono::hours(1);           // of what a long job uses
constexpr int kHead = 0;                                        // who hands over, see HandOver

}  // namespace

StageIn::StageIn(asio::io_context& io, const LaunchPlan& plan, Member& member, std::string address)
    : io_(io),
      plan_(plan),
      member_(member),
      address_(std::move(address)),
      head_answer_(io),
      mark_(io),
      shown_at_(std::chrono::steady_clock::now()) {}

// What was handed on is in the trees by now; its folder goes with the processes that had it.
StageIn::~StageIn() {
    for (const auto& [name, held] : held_)
        mark_used(held);
    handed_.clear();
    stager_.reset();
    try {
        if (streams_)  // its folders let nobody write any more
            empty_beneath(streams_->lock(), streams_->path().string());
        if (has_folder_ && plan_.staging.shared.fills)
            StageCache(SharedPlace{plan_.staging.shared.folder, ::geteuid()}, 0);
        else if (has_folder_)
            StageCache(plan_.staging.scratch, 0);
    } catch (const Error&) {
        // The next job removes it.
    }
}

StagerRole StageIn::role() const {
    if (member_.node_count() == 1 || member_.head_node() != kHead)
        return StagerRole::alone;
    return member_.node_rank() == kHead ? StagerRole::head : StagerRole::node;
}

void StageIn::listen(int generation) {
    if (std::exchange(generation_, generation) == generation || member_.node_count() == 1)
        return;
    member_.on_relay(
        control::RelayChannel::staging, generation,
        [this, alive = std::weak_ptr(alive_)](int node, std::string_view text) {
            if (alive.expired())
                return;
            try {
                hear_node(node, text);
            } catch (const Error& error) {
                report_(WarningRaised{fmt::format(
                    "storage.stage_in: node {} said what makes no sense: {}", node, error.what())});
            }
        });
}

// A node waits for what the head still reads.
void StageIn::leave_head() {
    if (state_ != State::waiting || !is_node_ || role() == StagerRole::node || !stager_)
        return;
    is_node_ = false;
    head_answer_.cancel();
    stager_->send(as_line(AgentWord{.deserted = true}));
}

void StageIn::serve(int generation) {
    listen(generation);
    if (state_ == State::idle)
        begin();
}

bool StageIn::is_settled(int generation, std::function<void()> then) {
    if (plan_.staging.items.empty())
        return true;
    listen(generation);
    if (state_ == State::idle)
        begin();
    leave_head();
    if (failure_)
        throw ExitError(failure_->exit_code, ErrorCode::invalid_argument, failure_->what,
                        failure_->hint);
    if (ranks_may_start_)
        return true;
    then_ = std::move(then);
    return false;
}

void StageIn::begin() {
    state_ = State::waiting;
    shown_at_ = std::chrono::steady_clock::now();
    try {
        stager_.emplace(
            io_, kSilence,
            MoverProcess::Handlers{[this](const std::string& line) { hear(line); },
                                   [this](const std::string& why) {
                                       fail({exit_code::kUnavailable, "storage.stage_in: " + why,
                                             "what it was copying from may not answer any more"});
                                   }},
            stager_program(plan_));
        ++started_;
        StagerOrder order = stager_order(plan_);
        order.role = role();
        if (std::any_of(order.items.begin(), order.items.end(),
                        [](const StagerItem& item) { return item.streams; }))
            make_streams_folder();
        order.streams = streams_path_;
        has_folder_ = order.role != StagerRole::alone;
        is_node_ = order.role == StagerRole::node;
        stager_->send(as_line(order));
        if (order.role != StagerRole::node)
            return;
        member_.relay(control::RelayChannel::staging, generation_, kHead, node_word_ask());
        head_answer_.expires_after(plan_.spec.storage.timeout);
        head_answer_.async_wait([this](const std::error_code& error) {
            if (!error)
                fail({exit_code::kUnavailable, "storage.stage_in: the head did not answer",
                      "give it more time by storage.timeout"});
        });
    } catch (const Error& error) {
        fail({exit_code_of(error), std::string("storage.stage_in: ") + error.what(), error.hint()});
    }
}

void StageIn::hear(const std::string& line) {
    try {
        const StagerWord word = parse_word(line);
        for (const int item : word.prepared)
            want(offered_.at(item));
        if (state_ != State::waiting)
            return;
        for (const std::string& note : word.notes)
            report_(WarningRaised{"storage.stage_in: " + note});
        for (const StagingProgress& progress : word.progress)
            show(progress);
        for (const WantedFiles& offer : word.offered)
            offered_[offer.item] = offer;
        if (!word.sources.empty())
            take_sources(word.sources);
        for (const WantedFiles& wanted : word.wanted)
            want(wanted);
        for (const StagedData& data : word.staged)
            take(data);
        for (const StreamBegun& stream : word.streams)
            take(stream);
        for (const StagingFailure& failure : word.failed)
            fail(failure);
        if (word.done)
            settle();
    } catch (const Error& error) {
        fail({exit_code_of(error), std::string("storage.stage_in: ") + error.what(), error.hint()});
    }
}

// What other nodes say: a question for the sources, the head's answer, or what a hand-over has to
// say, which the head begins with the first node that wants it.
void StageIn::hear_node(int node, std::string_view text) {
    const StagingWord word = parse_node_word(text);
    if (word.item) {
        if (member_.node_rank() == kHead && !handed_.contains(*word.item)) {
            if (!offered_.contains(*word.item) || !stager_)
                return early_.emplace_back(node, text), void();
            hand_over_of(*word.item);
            if (offered_.at(*word.item).is_prepared)
                want(offered_.at(*word.item));
            else
                stager_->send(as_line(AgentWord{.prepare = {*word.item}}));
        }
        return hand_over_of(*word.item).hear(node, text);
    }
    if (word.asks) {
        asking_.push_back(node);
        if (!sources_.empty() || failure_)
            answer_all();
    }
    if (node != kHead || state_ != State::waiting)
        return;
    for (const StagingFailure& failure : word.failed)
        fail(failure);
    if (!word.sources.empty() && stager_) {
        head_answer_.cancel();
        for (const SeenSource& source : word.sources)
            bytes_[source.item] = source.bytes;
        stager_->send(as_line(AgentWord{.sources = word.sources}));
    }
}

// Of the head's: all of them at first, and then what has come from its server.
void StageIn::take_sources(const std::vector<SeenSource>& sources) {
    for (const SeenSource& source : sources) {
        bytes_[source.item] = source.bytes;
        sources_[source.item] = source;
    }
    for (const int node : told_)
        member_.relay(control::RelayChannel::staging, generation_, node,
                      node_word_sources(sources));
    answer_all();
}

void StageIn::answer_all() {
    std::vector<SeenSource> all;
    for (const auto& [item, source] : sources_)
        all.push_back(source);
    for (const int node : std::exchange(asking_, {})) {
        told_.insert(node);
        member_.relay(control::RelayChannel::staging, generation_, node,
                      failure_ ? node_word_failed(*failure_) : node_word_sources(all));
    }
    for (const auto& [node, text] : std::exchange(early_, {}))
        hear_node(node, text);
}

// Of what ranks use while it comes: to the stager, each as it comes.
std::function<void(const HandOver::Copy&)> StageIn::copies_of(int item) {
    if (!plan_.staging.items.at(static_cast<std::size_t>(item)).streams ||
        member_.node_rank() == kHead)
        return {};
    return [this, item](const HandOver::Copy& copy) {
        if (stager_)
            stager_->send(as_line(
                AgentWord{.came = {{.item = item, .copies = {{copy.original, copy.path}}}}}));
    };
}

HandOver& StageIn::hand_over_of(int item) {
    const auto found = handed_.find(item);
    if (found != handed_.end())
        return found->second;
    const std::string name = plan_.staging.items.at(static_cast<std::size_t>(item)).name;
    return handed_
        .try_emplace(item, io_, member_, address_,
                     HandOver::Subject{
                         .channel = control::RelayChannel::staging,
                         .label = "storage.stage_in",
                         .what = name + " comes",
                         .number = item,
                         .are_programs = false,
                         .on_progress =
                             [this, name, item](std::int64_t bytes) {
                                 show({.name = name, .bytes = bytes, .of = bytes_[item]});
                             },
                         .on_copy = copies_of(item),
                         .patience = plan_.staging.items.at(static_cast<std::size_t>(item)).streams
                                         ? std::optional(plan_.spec.storage.timeout)
                                         : std::nullopt})
        .first->second;
}

// On the head: what the first node wants, itself perhaps; it is the one that reads.
void StageIn::want(const WantedFiles& wanted) {
    HandOver& handed = hand_over_of(wanted.item);
    const auto ask = [wanted] {
        HandOver::Wanted files{
            .why_not = {}, .why_whole = "-", .files = {}, .cache = wanted.copies, .most_bytes = 0};
        files.most_bytes = std::numeric_limits<std::int64_t>::max();
        for (std::size_t i = 0; i < wanted.times.size(); ++i)
            files.coming.push_back(
                {wanted.paths[i], wanted.sizes[i], wanted.times[i], wanted.modes[i]});
        for (std::size_t i = 0; i < wanted.paths.size() && files.coming.empty(); ++i)
            files.files.push_back({wanted.paths[i], {{.offset = 0, .bytes = wanted.sizes[i]}}});
        return files;
    };
    if (handed.is_settled(generation_, ask, [this, item = wanted.item] { give_handed(item); }))
        give_handed(wanted.item);
}

void StageIn::give_handed(int item) {
    HandOver& handed = hand_over_of(item);
    for (const std::string& note : handed.take_notes())
        report_(WarningRaised{note});
    HandedFiles files{.item = item, .copies = {}};
    for (const HandOver::Copy& copy : handed.result().copies)
        files.copies.emplace_back(copy.original, copy.path);
    if (stager_)
        stager_->send(as_line(AgentWord{.handed = {std::move(files)}}));
}

std::vector<pid_t> StageIn::pids() const {
    std::vector<pid_t> pids;
    if (stager_ && stager_->pid() > 0)
        pids.push_back(stager_->pid());
    for (const auto& [item, handed] : handed_)
        if (handed.pid() > 0)
            pids.push_back(handed.pid());
    return pids;
}

int StageIn::started() const {
    int sum = started_;
    for (const auto& [item, handed] : handed_)
        sum += handed.started();
    return sum;
}

std::optional<HeldTree> StageIn::hold(const StagedData& data, std::string& why) const {
    if (data.is_shared())
        return SharedCache({plan_.staging.shared.folder, static_cast<uid_t>(data.shared_owner)})
            .hold(data.entry, why);
    StageCache cache(plan_.staging.scratch, plan_.spec.storage.limit_bytes.value_or(0));
    return cache.hold(data.entry);
}

// The stager holds it until we do.
void StageIn::take(const StagedData& data) {
    std::string why;
    auto held = hold(data, why);
    if (!held)
        return fail({exit_code::kCannotCreate,
                     "storage.stage_in: " +
                         (why.empty() ? data.path + " was removed again" : std::move(why)),
                     "somebody removes what is in the cache while jobs use it"});
    held_[data.name] = std::move(*held);
    if (held_.size() == 1)
        mark_all_used();
    report_(DataStaged{.name = data.name,
                       .path = data.path,
                       .bytes = data.bytes,
                       .files = data.files,
                       .read_bytes = data.read_bytes,
                       .unchecked_files = data.unchecked_files,
                       .was_here = data.was_here,
                       .is_shared = data.is_shared(),
                       .took = data.took});
    see_whether_all_began();
}

// Its time is kept from its last use on: also where this process is killed, and did not come to its
// end.
void StageIn::mark_all_used() {
    for (const auto& [name, held] : held_)
        mark_used(held);
    mark_.expires_after(kBetweenMarks);
    mark_.async_wait([this](const std::error_code& error) {
        if (!error)
            mark_all_used();
    });
}

void StageIn::take(const StreamBegun& stream) {
    coming_[stream.name] = stream.path;
    report_(DataComes{
        .name = stream.name, .path = stream.path, .bytes = stream.bytes, .files = stream.files});
    see_whether_all_began();
}

void StageIn::see_whether_all_began() {
    const auto& items = plan_.staging.items;
    if (std::all_of(items.begin(), items.end(), [this](const StagedItem& item) {
            return held_.contains(item.name) || coming_.contains(item.name);
        }))
        let_start();
}

// Not from within a handler of the stager.
void StageIn::let_start() {
    if (std::exchange(ranks_may_start_, true))
        return;
    asio::post(io_, [this, alive = std::weak_ptr(alive_)] {
        if (alive.expired())
            return;
        if (const auto then = std::exchange(then_, nullptr))
            then();
    });
}

// It goes with this process, or with the next use of the cache. What is in the site's cache needs
// none; of anything else the stager says why there is none.
void StageIn::make_streams_folder() try {
    const StageCache cache(plan_.staging.scratch, plan_.spec.storage.limit_bytes.value_or(0));
    streams_.emplace(cache.make_folder_for_copies());
    std::error_code error;  // without links: programs resolve paths, and look for them by this one
    const auto real = std::filesystem::canonical(streams_->path(), error);
    streams_path_ = error ? streams_->path().string() : real.string();
} catch (const ExitError&) {
    if (plan_.staging.shared.folder.empty() || plan_.staging.shared.fills)
        throw;
}

// Ranks that wait for a file hear of it once the head was told: what they do then follows from it.
void StageIn::tell_waiting(const StagingFailure& failure) const {
    if (!streams_)
        return;
    try {
        const std::string path = (streams_->path() / kStreamFailed).string(), part = path + ".part";
        write_all(open_file(part, O_WRONLY | O_CREAT | O_TRUNC, 0600).get(),
                  as_text(StreamFailure{failure.what, failure.hint}), part);
        if (::rename(part.c_str(), path.c_str()) != 0)
            throw SystemError(errno, "create " + path);
    } catch (const Error& error) {
        report_(WarningRaised{std::string("storage.stage_in: ranks that wait for data cannot be "
                                          "told why there is none: ") +
                              error.what()});
    }
}

void StageIn::show(const StagingProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_at_ < (ranks_may_start_ ? kBetweenLinesOfRanks : kBetweenLines))
        return;
    shown_at_ = now;
    report_(DataStaging{.name = progress.name, .bytes = progress.bytes, .of = progress.of});
}

void StageIn::fail(StagingFailure failure) {
    if (failure_)
        return settle();
    failure_ = std::move(failure);
    asio::post(io_, [this, ran = ranks_may_start_, alive = std::weak_ptr(alive_)] {
        if (alive.expired())
            return;
        if (ran)
            on_failure_(ExitError(failure_->exit_code, ErrorCode::invalid_argument, failure_->what,
                                  failure_->hint));
        tell_waiting(*failure_);
        if (streams_)  // readers there wait, too
            for (const int node : told_)
                member_.relay(control::RelayChannel::staging, generation_, node,
                              node_word_failed(*failure_));
        answer_all();
    });
    settle();
}

void StageIn::settle() {
    head_answer_.cancel();
    if (stager_)
        stager_->expect_nothing();
    const bool was_waiting = std::exchange(state_, State::settled) == State::waiting;
    if (!was_waiting)
        return;
    // Not from within a handler of the stager, which is not destroyed before its time.
    asio::post(io_, [this, alive = std::weak_ptr(alive_)] {
        if (alive.expired())
            return;
        if (handed_.empty() && offered_.empty())
            stager_.reset();
    });
    let_start();
}

void StageIn::give(std::vector<std::string>& environment) const {
    const auto set = [&](const std::string& variable, const std::string& value) {
        if (plan_.spec.trainer.env.contains(variable))
            return;
        std::erase_if(environment,
                      [&](const std::string& line) { return line.starts_with(variable + '='); });
        environment.push_back(variable + '=' + value);
    };
    // What has come by now stays where the first ranks have found it.
    for (const StagedItem& item : plan_.staging.items) {
        const auto held = held_.find(item.name);
        const auto coming = coming_.find(item.name);
        if (coming != coming_.end())
            set(item.variable, coming->second);
        else if (held != held_.end())
            set(item.variable, held->second.path.string());
    }
    if (!coming_.empty())
        set(env::kStreams, streams_path_);
}

}  // namespace autolaunch::launcher
