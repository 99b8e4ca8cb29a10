#include "top/job_model.hpp"

#include "base/json_nesting.hpp"
#include "base/text.hpp"
#include "base/whole_number.hpp"
#include "readings/sample.hpp"
#include "report/parse_event.hpp"
#include "report/units.hpp"
#include "secrets/secrets.hpp"
#include "top/step_line.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostRanks = 100'000, kMostNews = 8, kMostGaps = 20;
constexpr std::size_t kLongestText = 500;
constexpr std::size_t kMostNames = 100'000;
constexpr int kDeepest = 16;
constexpr auto kReadingsLast = std::chrono::seconds(15);     // and three intervals
constexpr std::int64_t kLatestSampleMs = 9'000'000'000'000;  // of the year 2255
constexpr double kSmoothing = 0.2;  // weight of the newest step in a rank's step time
constexpr double kNear = 0.075;     // of the time: as who waits for stragglers has it

std::string shortened(std::string text) {
    if (text.size() > kLongestText)
        text = text.substr(0, kLongestText) + " …";
    return text;
}

/// What a sentence says of this rank: those of standstills and stragglers begin with it.
std::string sentence_of(const std::vector<std::string>& lines, int rank) {
    const std::string beginning = fmt::format("rank {} ", rank);
    for (const std::string& line : lines)
        if (line.starts_with(beginning))
            return shortened(line.substr(beginning.size()));
    return {};
}

std::string describe_end(const RankExited& end) {
    if (end.signal)
        return "killed by " + signal_name(*end.signal);
    return fmt::format("exited with code {}", end.exit_code.value_or(0));
}

std::string describe_ranks(std::vector<int> ranks) {
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return (ranks.size() == 1 ? "rank " : "ranks ") + format_list(ranks);
}

template <class Number>
std::optional<double> as_double(const std::optional<Number>& number) {
    return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

std::optional<double> rate_of_hca(const NodeSample& sample, const std::string& name) {
    std::optional<double> rate;
    for (const InfinibandSample& port : sample.infiniband)
        if (port.device == name && (port.received_bytes || port.sent_bytes))
            rate = rate.value_or(0) + port.received_bytes.value_or(0) + port.sent_bytes.value_or(0);
    return rate;
}

RankReadings readings_of(const NodeSample& sample, const RankSample& rank,
                         const std::map<int, std::string>& hcas) {
    RankReadings readings;
    readings.rss_bytes = as_double(rank.resident_bytes);
    if (const auto hca = hcas.find(rank.rank); hca != hcas.end())
        readings.hca_bytes_per_second = rate_of_hca(sample, hca->second);
    for (const GpuSample& gpu : sample.gpus)
        if (rank.gpu && gpu.bdf == *rank.gpu) {
            if (gpu.busy_ratio)
                readings.gpu_percent = *gpu.busy_ratio * 100;
            readings.gpu_bytes = as_double(gpu.memory_used_bytes);
            readings.gpu_bytes_total = as_double(gpu.memory_total_bytes);
            readings.gpu_celsius = gpu.celsius;
        }
    return readings;
}

double median_of(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

const char* name_of(RankDoing doing) {
    switch (doing) {
        case RankDoing::starting:
            return "starting";
        case RankDoing::running:
            return "running";
        case RankDoing::stuck:
            return "stuck";
        case RankDoing::stopping:
            return "stopping";
        case RankDoing::done:
            return "done";
        case RankDoing::failed:
            return "failed";
        case RankDoing::lost:
            break;
    }
    return "lost";
}

JobModel::JobModel(std::string run_dir, std::vector<std::string> secrets)
    : run_dir_(std::move(run_dir)), secrets_(std::move(secrets)) {}

void JobModel::add_gap(std::string text) {
    text = shortened(std::move(text));
    if (gaps_.size() < kMostGaps && std::find(gaps_.begin(), gaps_.end(), text) == gaps_.end())
        gaps_.push_back(std::move(text));
}

// Names of nodes, and which HCA a rank has: what else is planned is `autolaunch plan`'s to show.
void JobModel::take_plan(int node, std::string_view text) try {
    if (!nests_at_most(text, kDeepest))
        throw Json::other_error::create(502, "too deep", nullptr);
    Json json = Json::parse(text);
    mask_texts(json, secrets_);
    const Json& nodes = json.at("nodes");
    const auto names = nodes.value("names", std::vector<std::string>{});
    for (std::size_t at = 0; at < names.size() && at < kMostNames; ++at)
        if (!names[at].empty())
            node_names_[static_cast<int>(at)] = shortened(names[at]);
    const int self = node == kHead ? whole_number_or<int>(nodes, "rank", 0) : node;
    if (!node_names_.contains(self))
        node_names_[self] = shortened(json.value("hostname", std::string()));
    if (node == kHead && !node_names_.contains(kHead))
        node_names_[kHead] = node_names_[self];
    for (const Json& rank : json.value("ranks", Json::array()))
        if (const auto hca = rank.find("hca");
            hca != rank.end() && hca->is_object() && hcas_.size() < kMostRanks)
            hcas_[whole_number<int>(rank.at("rank"))] = hca->value("name", std::string());
} catch (const nlohmann::json::exception&) {
    add_gap(node == kHead ? "plan.json is not what autolaunch writes: names of nodes are missing"
                          : fmt::format("plan.node-{}.json is not what autolaunch writes", node));
}

void JobModel::take_sample(std::string_view line) {
    if (!nests_at_most(line, kDeepest))
        return;
    const SampleLine parsed = parse_sample_line(line);
    const auto* sample = std::get_if<NodeSample>(&parsed);
    if (sample == nullptr || sample->time_ms < 0 || sample->time_ms > kLatestSampleMs)
        return;
    const auto lasts = kReadingsLast + std::chrono::milliseconds(std::llround(
                                           std::clamp(sample->span_seconds, 0.0, 3600.0) * 3000));
    for (const RankSample& rank : sample->ranks) {
        KnownRank* known = find(rank.rank);
        if (known == nullptr ||
            sample->generation.value_or(known->view.generation) < known->view.generation)
            continue;
        known->readings_until = ViewTime(std::chrono::milliseconds(sample->time_ms)) + lasts;
        known->view.readings = readings_of(*sample, rank, hcas_);
    }
}

void JobModel::take_event(int node, std::string_view line) {
    const std::int64_t number = ++lines_[node];
    if (trim(line).empty())
        return;
    if (const auto step = parse_step_line(line))
        return take_in(node, *step);
    try {
        if (!nests_at_most(line, kDeepest))
            throw Json::other_error::create(502, "too deep", nullptr);
        Json json = Json::parse(line);
        mask_texts(json, secrets_);
        if (const auto event = parse_event(json))
            take_in(node, *event);
    } catch (const nlohmann::json::exception&) {
        auto& [count, first] = bad_lines_[node];
        if (count++ == 0)
            first = number;
    }
}

void JobModel::take_in(int node, const Event& event) {
    const Now now{std::chrono::floor<std::chrono::milliseconds>(event.at), node, event.generation};
    last_heard_ = std::max(last_heard_.value_or(now.at), now.at);
    std::visit([&](const auto& what) { on(now, what); }, event.what);
}

std::string JobModel::node_name(int node) const {
    const auto found = node_names_.find(node);
    if (found != node_names_.end() && !found->second.empty())
        return found->second;
    return node == kHead ? job_.hostname : fmt::format("node {}", node);
}

JobModel::KnownRank* JobModel::find(int rank) {
    const auto found = ranks_.find(rank);
    return found == ranks_.end() ? nullptr : &found->second;
}

void JobModel::tell(const Now& now, std::string text) {
    const auto second = std::chrono::floor<std::chrono::seconds>(now.at);
    news_.push_back(fmt::format("{:%H:%M:%S} {}", second, shortened(std::move(text))));
    if (news_.size() > kMostNews)
        news_.pop_front();
}

void JobModel::on(const Now& now, const JobStarted& job) {
    if (ended_ && end_.exit_code == 0) {  // another job in its folder
        JobModel anew(run_dir_, secrets_);
        anew.node_names_ = std::move(node_names_);
        anew.gaps_ = std::move(gaps_);
        anew.lines_ = std::move(lines_);
        anew.bad_lines_ = std::move(bad_lines_);
        *this = std::move(anew);
        last_heard_ = now.at;
        add_gap("an earlier job of this folder is left out");
    }
    const bool is_requeued = started_.has_value();
    job_ = job;
    job_.job_name = shortened(job.job_name);
    job_.run_id = shortened(job.run_id);
    job_.hostname = shortened(job.hostname);
    node_count_ = job.node_count;
    world_size_ = job.world_size;
    if (!started_)
        started_ = now.at - job.preparation;
    ended_.reset();
    end_ = {};
    state_ = "starting";
    if (is_requeued)
        tell(now, "the job was started again");
}

void JobModel::on(const Now& now, const GenerationStarted&) {
    state_ = "running";
    cause_.clear();
    generation_ = now.generation;
    progress_.restart();
    if (now.generation > 0)
        tell(now, fmt::format("generation {} runs", now.generation));
}

void JobModel::on(const Now& now, const RankStarted& started) {
    if (started.rank < 0)
        return;
    if (ranks_.size() >= kMostRanks && !ranks_.contains(started.rank)) {
        ++ranks_left_out_;
        return;
    }
    KnownRank& known = ranks_[started.rank];
    known = {};
    known.started = now.at;
    known.view = {.rank = started.rank, .local_rank = started.local_rank};
    known.view.node = node_name(now.node);
    known.view.doing = RankDoing::running;
    known.view.generation = now.generation;
    known.view.pid = started.pid;
    known.view.gpu = started.gpu;
    generation_ = std::max(generation_, now.generation);
}

void JobModel::on(const Now& now, const StepReported& step) {
    progress_.add(step, now.at);  // which takes those of the lowest rank that reports
    KnownRank* known = find(step.rank);
    if (known == nullptr || now.generation < known->view.generation)
        return;
    RankView& view = known->view;
    std::optional<double> seconds = step.seconds;
    if (!seconds && known->stepped && view.step && step.step > *view.step)
        seconds = std::chrono::duration<double>(now.at - *known->stepped).count() /
                  (static_cast<double>(step.step) - static_cast<double>(*view.step));
    if (seconds && std::isfinite(*seconds) && *seconds >= 0)
        view.step_seconds = view.step_seconds
                                ? *view.step_seconds + kSmoothing * (*seconds - *view.step_seconds)
                                : *seconds;
    view.step = step.step;
    known->stepped = now.at;
    if (view.doing == RankDoing::stuck || view.doing == RankDoing::starting)
        view.doing = RankDoing::running;
    known->why_stuck.clear();
}

void JobModel::on(const Now& now, const CheckpointPublished& saved) {
    progress_.add(saved);
    checkpoint_at_ = now.at;
}

void JobModel::on(const Now& now, const StopRequested& stop) {
    state_ = "stopping";
    tell(now, "stopping: " + stop.reason);
}

void JobModel::on(const Now&, const RankSignalled& signalled) {
    KnownRank* known = find(signalled.rank);
    if (known != nullptr && known->view.doing <= RankDoing::stopping)
        known->view.doing = RankDoing::stopping;
}

void JobModel::on(const Now& now, const RankExited& end) {
    KnownRank* known = find(end.rank);
    const bool failed = !end.asked_to_stop && end.exit_code != 0;
    if (known != nullptr && now.generation >= known->view.generation) {
        known->view.doing = failed ? RankDoing::failed : RankDoing::done;
        known->view.note = describe_end(end);
        if (end.last_step)
            known->view.step = end.last_step;
        known->why_stuck.clear();
    }
    if (failed)
        tell(now, fmt::format("rank {} {}", end.rank, describe_end(end)));
}

void JobModel::go_on_or_end(bool restarts) {
    forget_stuck();
    state_ = restarts ? "between generations" : "stopping";
    restarts_ += restarts ? 1 : 0;
}

void JobModel::on(const Now& now, const GenerationFailed& failure) {
    go_on_or_end(failure.restart_number.has_value());
    const std::string where = failure.hostname.empty() ? "" : " (" + failure.hostname + ")";
    cause_ = fmt::format("rank {}{} {}", failure.first.rank, where, describe_end(failure.first));
    tell(now, fmt::format(
                  "rank {}{} {}; {}", failure.first.rank, where, describe_end(failure.first),
                  failure.restart_number ? fmt::format("restart {} of {}", *failure.restart_number,
                                                       failure.max_restarts)
                                         : "no restart"));
    if (KnownRank* known = find(failure.first.rank)) {
        known->view.doing = RankDoing::failed;
        known->view.note = describe_end(failure.first);
    }
}

void JobModel::on(const Now& now, const NodeLost& lost) {
    cause_ = shortened(lost.why);
    go_on_or_end(lost.goes_on);
    for (const int rank : lost.ranks)
        if (KnownRank* known = find(rank)) {
            known->view.doing = RankDoing::lost;
            known->view.note = shortened("with " + lost.node);
        }
    tell(now, lost.why.empty() ? lost.node + " was lost" : lost.why);
}

void JobModel::on(const Now& now, const WorldChanged& world) {
    node_count_ = world.nodes;
    world_size_ = world.world_size;
    tell(now,
         fmt::format("the job goes on with {} nodes and {} ranks", world.nodes, world.world_size));
}

void JobModel::on(const Now& now, const NodeJoined& joined) {
    tell(now, joined.node + " has joined, and takes part " + joined.when);
}

void JobModel::on(const Now& now, const NodeDrained& drained) {
    tell(now, drained.node + " is drained");
}

void JobModel::on(const Now& now, const HeadChanged& changed) {
    node_names_[kHead] = shortened(changed.node);
    tell(now, fmt::format("{} is head in place of {}", changed.node, changed.from));
}

void JobModel::on(const Now& now, const StandstillNoticed& found) {
    state_ = "stands still";
    for (const int rank : found.ranks)
        if (KnownRank* known = find(rank); known && known->view.doing <= RankDoing::stuck) {
            known->view.doing = RankDoing::stuck;
            known->why_stuck = sentence_of(found.lines, rank);
        }
    const std::string who = found.ranks.empty() ? "" : ", for " + describe_ranks(found.ranks);
    tell(now, "stands still" + who + ": " + found.headline);
}

void JobModel::forget_stuck() {
    for (auto& [number, known] : ranks_) {
        if (known.view.doing == RankDoing::stuck)
            known.view.doing = RankDoing::running;
        known.why_stuck.clear();
    }
}

void JobModel::on(const Now& now, const StandstillOver& over) {
    forget_stuck();
    if (state_ == "stands still")
        state_ = "running";
    tell(now, "goes on, after " + format_duration(over.lasted) + " without a step");
}

void JobModel::on(const Now& now, const JobHung& hung) {
    cause_ = shortened(hung.found.headline);
    go_on_or_end(hung.restart_number.has_value());
    tell(now, "ended because it stood still: " + hung.found.headline);
}

void JobModel::on(const Now& now, const StragglersSeen& seen) {
    for (const int rank : seen.ranks)
        if (KnownRank* known = find(rank)) {
            known->view.straggler = true;
            known->why_waited_for = sentence_of(seen.lines, rank);
        }
    if (!seen.ranks.empty())
        tell(now, "the others wait for " + describe_ranks(seen.ranks));
}

// Who waits as long as the others is no straggler any more.
void JobModel::on(const Now&, const WaitsMeasured& waits) {
    std::vector<double> shares;
    for (std::size_t at = 0; at < waits.ranks.size() && at < waits.shares.size(); ++at)
        if (KnownRank* known = find(waits.ranks[at]);
            known != nullptr && std::isfinite(waits.shares[at])) {
            known->view.wait_share = std::clamp(waits.shares[at], 0.0, 1.0);
            shares.push_back(*known->view.wait_share);
        }
    if (shares.empty())
        return;
    const double usual = median_of(std::move(shares));
    for (const int rank : waits.ranks)
        if (KnownRank* known = find(rank); known != nullptr && known->view.straggler &&
                                           known->view.wait_share.value_or(0) > usual - kNear) {
            known->view.straggler = false;
            known->why_waited_for.clear();
        }
}

void JobModel::on(const Now& now, const SpawnFailed& failed) {
    cause_ = shortened(failed.what);
    tell(now, failed.while_running
                  ? "data that ranks run on does not come: " + failed.what
                  : fmt::format("rank {} could not be started: {}", failed.rank, failed.what));
    if (KnownRank* known = find(failed.rank))
        known->view.doing = RankDoing::failed;
}

void JobModel::on(const Now& now, const WarningRaised& warning) {
    if (warning.text.find(" events are missing here: ") != std::string::npos)
        add_gap(warning.text);
    tell(now, "warning: " + warning.text);
}

void JobModel::on(const Now& now, const JobEnded& job) {
    forget_stuck();
    state_ = "ended";
    ended_ = now.at;
    end_ = job;
    end_.outcome = shortened(job.outcome);
    restarts_ = std::max(restarts_, job.restarts);
    tell(now, fmt::format("the job has ended: {} (exit code {})", job.outcome, job.exit_code));
}

JobView JobModel::view(ViewTime at) const {
    JobView view;
    view.job_name = job_.job_name;
    view.run_id = job_.run_id;
    view.run_dir = run_dir_;
    view.state = state_;
    view.at = at;
    view.started = started_;
    view.last_heard = last_heard_;
    view.ended = ended_;
    view.generation = generation_;
    view.restarts = restarts_;
    view.node_count = node_count_;
    view.world_size = world_size_;
    view.progress = progress_;
    view.checkpoint_at = checkpoint_at_;
    if (ended_)
        view.exit_code = end_.exit_code;
    view.outcome = end_.outcome;
    view.cause = cause_;
    for (const auto& [number, known] : ranks_) {
        if (number >= world_size_ && known.view.generation < generation_)
            continue;  // of a generation with more ranks
        RankView rank = known.view;
        const bool is_alive = rank.doing <= RankDoing::stopping;
        if (at > known.readings_until || !is_alive)
            rank.readings = {};
        if (is_alive)
            rank.silent_seconds = std::max(
                0.0,
                std::chrono::duration<double>(at - known.stepped.value_or(known.started)).count());
        if (rank.note.empty())
            rank.note = known.why_stuck.empty() ? known.why_waited_for : known.why_stuck;
        rank.straggler = rank.straggler && is_alive;
        view.ranks.push_back(std::move(rank));
    }
    view.news.assign(news_.begin(), news_.end());
    view.gaps = gaps_;
    for (const auto& [node, bad] : bad_lines_)
        view.gaps.push_back(fmt::format(
            "{}: {} cannot be understood, first line {}; passed over",
            node == kHead ? "events.jsonl" : fmt::format("events.node-{}.jsonl", node),
            bad.first == 1 ? "1 line" : fmt::format("{} lines", bad.first), bad.second));
    if (state_ == "running" && node_count_ > 1 &&
        view.ranks.size() < static_cast<std::size_t>(std::max(0, world_size_)))
        view.gaps.push_back(
            fmt::format("{} of {} ranks are not recorded in this folder: their "
                        "nodes have folders of their own",
                        static_cast<std::size_t>(world_size_) - view.ranks.size(), world_size_));
    if (ranks_left_out_ > 0)
        view.gaps.push_back(fmt::format("only {} ranks are shown", kMostRanks));
    return view;
}

}  // namespace autolaunch::launcher
