#include "run_report/record_builder.hpp"

#include "base/json_nesting.hpp"
#include "base/text.hpp"
#include "base/whole_number.hpp"
#include "report/ledger_entry.hpp"
#include "report/parse_event.hpp"
#include "report/units.hpp"
#include "run_report/lost_spans.hpp"
#include "secrets/secrets.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestText = 2'000;  // of a rank's words in the record
constexpr std::size_t kMostUnknown = 20;
constexpr double kMostSeconds = 1e9;  // a file may say anything
constexpr int kDeepest = 16;
constexpr int kPlanFormat = 1, kCertificateFormat = 1;

// Events that are known and have no part here.
const std::set<std::string> kPassedOver = {"message",        "flight",          "placement_drift",
                                           "gpu_placement",  "head_lost",       "time_limit_known",
                                           "stop_explained", "stop_budget",     "stacks",
                                           "data_staging",   "data_staging_out"};

std::chrono::milliseconds in_milliseconds(double seconds) {
    return std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

std::string shortened(std::string text) {
    if (text.size() > kLongestText)
        text = text.substr(0, kLongestText) + " …";
    return text;
}

// What we write is not deep; what others write may be as deep as it is long.
Json parse_shallow(std::string_view text) {
    if (!nests_at_most(text, kDeepest))
        throw Json::other_error::create(502, "too deep", nullptr);
    return Json::parse(text);
}

std::string text_in(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found == json.end() || !found->is_string() ? std::string()
                                                      : shortened(found->get<std::string>());
}

std::string describe_end(const RankExited& end) {
    std::string text = end.signal ? "was killed by " + signal_name(*end.signal)
                                  : fmt::format("exited with code {}", end.exit_code.value_or(0));
    if (end.last_step)
        text += fmt::format(" at step {}", *end.last_step);
    return text;
}

std::string describe_rank(const GenerationFailed& failure) {
    std::string who = fmt::format("rank {} ({}", failure.first.rank, failure.hostname);
    if (failure.gpu)
        who += fmt::format(", GPU {}", *failure.gpu);
    return who + fmt::format(", pid {})", failure.first.pid);
}

std::string from_checkpoint(const std::optional<std::int64_t>& step) {
    return step ? fmt::format(" from the checkpoint of step {}", *step) : std::string();
}

std::string describe_restart(const GenerationFailed& failure) {
    if (!failure.restart_number)
        return failure.no_restart.empty() ? "no restart" : "no restart: " + failure.no_restart;
    return fmt::format("restart {} of {}", *failure.restart_number, failure.max_restarts) +
           from_checkpoint(failure.checkpoint_step);
}

std::string describe_restart(const JobHung& hung) {
    return hung.restart_number ? fmt::format("restart {}", *hung.restart_number) +
                                     from_checkpoint(hung.checkpoint_step)
                               : "no restart";
}

RecordTime time_of(const Event& event) {
    return std::chrono::floor<std::chrono::milliseconds>(event.at);
}

std::string cpus_in(const Json& rank) {
    auto cpus = rank.contains("cpus") ? whole_numbers<int>(rank.at("cpus")) : std::vector<int>();
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return format_list(cpus);
}

}  // namespace

RecordBuilder::RecordBuilder(std::string run_dir, std::vector<std::string> secrets)
    : secrets_(std::move(secrets)) {
    record_.run_dir = std::move(run_dir);
}

void RecordBuilder::gap(std::string text) {
    if (record_.gaps.size() < kMostRecordGaps)
        record_.gaps.push_back(shortened(std::move(text)));
}

void RecordBuilder::warn(std::string text) {
    if (record_.warnings.size() < kMostWarnings)
        record_.warnings.push_back(shortened(std::move(text)));
}

// As to_json_line() begins such a line; any other form is parsed.
bool RecordBuilder::is_other_step(std::string_view text) const {
    constexpr std::string_view kStep = R"("event":"step","rank":)";
    const std::size_t found = text.substr(0, 120).find(kStep);
    if (!step_rank_ || found == std::string_view::npos)
        return false;
    const std::string_view digits = text.substr(found + kStep.size(), 10);
    long long rank = 0;
    return parse_integer(digits.substr(0, digits.find_first_not_of("0123456789")), rank) &&
           rank > *step_rank_;
}

void RecordBuilder::line(std::string_view text) {
    ++lines_;
    if (trim(text).empty() || is_other_step(text))
        return;
    try {
        see(parse_shallow(text));
    } catch (const nlohmann::json::exception&) {
        if (bad_lines_++ == 0)
            first_bad_ = fmt::format("line {}", lines_);
    }
}

void RecordBuilder::torn_line(const std::string& file, std::string_view text) {
    gap(fmt::format("{} ends within a line of {} bytes: whoever wrote it was killed, or goes on",
                    file, text.size()));
}

void RecordBuilder::begin_node(int node, const std::string& file) {
    node_ = node;
    node_file_ = file;
    node_is_torn_ = false;
}

// Steps are most of such a file, and those of the lowest rank are the head's.
void RecordBuilder::node_line(std::string_view text) try {
    constexpr std::array<std::string_view, 4> kTaken = {
        R"("event":"rank_started")", R"("event":"rank_exited")", R"("event":"head_lost")",
        R"("event":"warning")"};
    const std::string_view beginning = text.substr(0, 120);
    if (std::none_of(kTaken.begin(), kTaken.end(),
                     [&](std::string_view name) { return beginning.find(name) != beginning.npos; }))
        return;
    Json json = parse_shallow(text);
    mask_texts(json, secrets_);
    const std::string name = json.at("event").get<std::string>();
    if (name == "head_lost")
        return warn(fmt::format("node {} lost the head, {}: {}", node_, text_in(json, "node"),
                                text_in(json, "why")));
    const auto event = parse_event(json);
    if (!event)
        return;
    if (const auto* started = std::get_if<RankStarted>(&event->what)) {
        on(*event, *started);
        if (const auto rank = ranks_.find(started->rank); rank != ranks_.end())
            rank->second.node = fmt::format("node {}", node_);  // its plan has the name
    } else if (const auto* ended = std::get_if<RankExited>(&event->what)) {
        on(*event, *ended);
    } else if (const auto* warning = std::get_if<WarningRaised>(&event->what)) {
        on(*event, *warning);
    }
} catch (const nlohmann::json::exception&) {
    if (!std::exchange(node_is_torn_, true))
        gap(node_file_ + " has lines that cannot be understood: they are passed over");
}

void RecordBuilder::see(Json json) {
    const std::string name = json.at("event").get<std::string>();
    if (name != "step")  // which has no words in it
        mask_texts(json, secrets_);
    if (const auto event = parse_event(json))
        return take_in(*event);
    if (name == "generation_ended")
        return see_end_record(json);
    if (name == "data_left")
        return warn(fmt::format(
            "{} of {} stays there in {}: {}; `{}` copies it",
            text_in(json, "name").empty() ? "what its ranks have written" : text_in(json, "name"),
            text_in(json, "node"), text_in(json, "folder"), text_in(json, "why"),
            text_in(json, "command")));
    if (name == "data_comes" || name == "data_staged" || name == "data_staged_out")
        return see_data(name, json);
    if (kPassedOver.contains(name))
        return;
    const std::string shown = shortened(text_in(json, "event"));  // masked by now
    if (unknown_.size() < kMostUnknown || unknown_.contains(shown))
        ++unknown_[shown];
}

void RecordBuilder::add_data(std::string text) {
    if (record_.data.size() < kMostWarnings)
        record_.data.push_back(shortened(std::move(text)));
}

// Of the head's own node; of what was copied out, of all.
void RecordBuilder::see_data(const std::string& event, const Json& json) {
    const auto number = [&json](const char* key) {
        return std::max<std::int64_t>(0, whole_number<std::int64_t>(json.at(key)));
    };
    const std::string name = text_in(json, "name");
    const std::int64_t files = number("files");
    const std::string amount =
        fmt::format("{} in {} file{}", format_bytes(static_cast<std::uint64_t>(number("bytes"))),
                    files, files == 1 ? "" : "s");
    if (event == "data_comes") {
        if (coming_.size() < kMostUnknown)
            coming_[name] = {.amount = amount};
        return;
    }
    const double seconds = std::clamp(json.at("seconds").get<double>(), 0.0, kMostSeconds);
    const std::string took = format_duration(in_milliseconds(seconds));
    if (event == "data_staged_out")
        return add_data(fmt::format("{} of {}: {} copied to {} in {}", name, text_in(json, "node"),
                                    amount, text_in(json, "to"), took));
    if (const auto coming = coming_.extract(name))
        return add_data(fmt::format("{}: {} came while ranks ran, all of it in {}; {}", name,
                                    amount, took, coming.mapped().waited_words()));
    add_data(fmt::format("{}: {} before ranks started, {}{}", name, amount,
                         json.value("was_here", false) ? "on the node already, " : "in ", took));
}

std::string RecordBuilder::Coming::waited_words() const {
    return rank ? fmt::format("rank {} waited {} for input meanwhile", *rank,
                              format_duration(in_milliseconds(waited_seconds)))
                : std::string("no rank has reported how long it waited for input");
}

// Of who knows causes; the failure that it belongs to may come before it or after.
void RecordBuilder::see_end_record(const Json& json) {
    if (!json.contains("cause"))  // every rank has finished
        return;
    const int generation = whole_number<int>(json.at("generation"));
    ends_[generation] = json;
    if (ends_.size() > kMostFailures)
        ends_.erase(ends_.begin());
}

void RecordBuilder::take_in(const Event& event) {
    const RecordTime at = time_of(event);
    if (!record_.started)
        record_.started = at;
    seen_before_ = record_.last_seen;
    record_.last_seen = std::max(record_.last_seen.value_or(at), at);
    enter(book_, event);
    std::visit([&](const auto& what) { on(event, what); }, event.what);
}

void RecordBuilder::begin_span(RecordTime at, std::optional<LedgerKind> kind) {
    if (doing_ == kind)
        return;
    if (doing_ && at > since_) {
        if (record_.spans.size() < kMostSpans)
            record_.spans.push_back({*doing_, since_, at, generation_});
        else
            record_.spans.back().to = at;
    }
    doing_ = kind;
    since_ = at;
}

void RecordBuilder::on(const Event& event, const JobStarted& job) {
    const RecordTime at = time_of(event);
    if (!record_.outcome.empty() && record_.exit_code == 0) {  // another job in its folder
        RecordBuilder anew(record_.run_dir, secrets_);
        anew.record_.gaps = std::move(record_.gaps);
        anew.lines_ = lines_;
        anew.gap("an earlier job of this folder is left out");
        *this = std::move(anew);
        record_.started = record_.last_seen = at;
        enter(book_, event);
    }
    if (++attempts_ > 1 && record_.outcome.empty())
        note_killed_agent();
    record_.job_name = shortened(job.job_name);
    record_.run_id = shortened(job.run_id);
    record_.hostname = shortened(job.hostname);
    record_.binding = shortened(job.binding);
    record_.node_count = job.node_count;
    record_.world_size = job.world_size;
    record_.exit_code.reset();
    record_.outcome.clear();
    const RecordTime began = at - job.preparation;
    record_.started = std::min(record_.started.value_or(began), began);
    if (!doing_ && !record_.spans.empty() && job.requeue.value_or(0) > 0)
        doing_ = LedgerKind::queue;  // since the end of the attempt before
    begin_span(std::max(began, since_), LedgerKind::launch);
}

// It waited before the newest start, or since the end before that, which a span tells already.
void RecordBuilder::on(const Event&, const QueueTimeKnown& queue) {
    const bool is_first = record_.spans.empty() || record_.spans.front().kind == LedgerKind::launch;
    if (!record_.started || queue.waited.count() <= 0 || attempts_ != 1 || !is_first)
        return;
    const RecordTime began = *record_.started;
    record_.started = began - queue.waited;
    record_.spans.insert(record_.spans.begin(),
                         {LedgerKind::queue, *record_.started, began, generation_});
}

void RecordBuilder::on(const Event& event, const GenerationStarted&) {
    begin_span(time_of(event), LedgerKind::initialisation);
    generation_ = event.generation;
    step_rank_.reset();
    pace_since_.reset();
    pace_steps_ = 0;
    pace_tokens_ = 0;
}

void RecordBuilder::on(const Event& event, const RankStarted& started) {
    if (ranks_.size() >= kMostRanks && !ranks_.contains(started.rank))
        return;
    RecordRank& rank = ranks_[started.rank];
    rank = {.rank = started.rank, .local_rank = started.local_rank, .node = record_.hostname};
    rank.gpu = started.gpu;
    rank.pid = started.pid;
    generation_ = event.generation;
}

void RecordBuilder::on(const Event& event, const StepReported& step) {
    if (step_rank_ && step.rank > *step_rank_)
        return;
    const RecordTime at = time_of(event);
    if (doing_ == LedgerKind::initialisation) {
        const double seconds = std::clamp(step.seconds.value_or(0), 0.0, 1e6);
        begin_span(std::max(since_, at - in_milliseconds(seconds)), LedgerKind::steps);
    }
    step_rank_ = step.rank;
    for (auto& [name, coming] : coming_)
        if (step.input_seconds && *step.input_seconds >= 0) {
            coming.rank = step.rank;
            coming.waited_seconds =
                std::min(coming.waited_seconds + *step.input_seconds, kMostSeconds);
        }
    record_.last_step = step.step;
    if (step.total_steps)
        record_.total_steps = step.total_steps;
    if (!pace_since_) {
        pace_since_ = at;
        return;
    }
    ++pace_steps_;
    pace_tokens_ += static_cast<double>(step.tokens.value_or(0));
    if (pace_steps_ < pace_every_ || at <= *pace_since_)
        return;
    const double seconds = std::chrono::duration<double>(at - *pace_since_).count();
    RecordPace pace{.at = at, .step = step.step};
    pace.steps_per_second = static_cast<double>(pace_steps_) / seconds;
    if (step.tokens)
        pace.tokens_per_second = pace_tokens_ / seconds;
    pace.loss = step.loss;
    add_pace(pace);
    pace_since_ = at;
    pace_steps_ = 0;
    pace_tokens_ = 0;
}

// When there are too many, every second one goes, and the next ones stand for twice the steps.
void RecordBuilder::add_pace(const RecordPace& pace) {
    record_.pace.push_back(pace);
    if (record_.pace.size() < kMostPaces)
        return;
    std::vector<RecordPace> fewer;
    for (std::size_t i = 0; i + 1 < record_.pace.size(); i += 2) {
        RecordPace both = record_.pace[i + 1];
        const auto mean = [](double one, double other) { return (one + other) / 2; };
        both.steps_per_second = mean(both.steps_per_second, record_.pace[i].steps_per_second);
        if (both.tokens_per_second && record_.pace[i].tokens_per_second)
            both.tokens_per_second =
                mean(*both.tokens_per_second, *record_.pace[i].tokens_per_second);
        fewer.push_back(both);
    }
    record_.pace = std::move(fewer);
    pace_every_ *= 2;
}

void RecordBuilder::on(const Event& event, const WaitsMeasured& waits) {
    if (doing_ == LedgerKind::steps)
        record_.course.add_waits(time_of(event), since_, waits.ranks, waits.shares);
}

void RecordBuilder::on(const Event& event, const CheckpointPublished& saved) {
    record_.course.add_stall(time_of(event), saved.stall_seconds, saved.save_seconds);
    auto& list = record_.checkpoints;
    if (!list.empty() && list.back().step == saved.step) {
        const double more = saved.stall_seconds - list.back().stall_seconds;
        if (more > 0) {
            list.back().stall_seconds += more;
            record_.stall_seconds += more;
        }
        return;
    }
    ++record_.checkpoint_count;
    record_.stall_seconds += std::max(saved.stall_seconds, 0.0);
    if (list.size() == kMostCheckpoints)
        list.erase(list.begin());
    list.push_back({time_of(event), saved.step, std::max(saved.stall_seconds, 0.0)});
}

void RecordBuilder::on(const Event& event, const StopRequested& stop) {
    if (stop.failed && (doing_ == LedgerKind::steps || doing_ == LedgerKind::initialisation))
        begin_span(time_of(event), LedgerKind::recovery);
}

void RecordBuilder::on(const Event& event, const RankExited& end) {
    if (end.exit_code == 0 && !end.asked_to_stop && record_.course.ends.size() < kMostRanks)
        record_.course.ends.push_back({end.rank, event.generation, time_of(event)});
    const auto found = ranks_.find(end.rank);
    if (found == ranks_.end())
        return;
    found->second.end = describe_end(end);
    found->second.failed = is_failure(end);
}

void RecordBuilder::add_failure(RecordFailure failure) {
    if (record_.failures.size() == kMostFailures) {
        record_.failures.erase(record_.failures.begin() + 1);
        if (others_++ == 0)
            gap(fmt::format("more than {} failures: those in the middle are left out",
                            kMostFailures));
    }
    record_.failures.push_back(std::move(failure));
}

void RecordBuilder::on(const Event& event, const GenerationFailed& failed) {
    RecordFailure failure{.at = time_of(event), .generation = event.generation};
    failure.who = shortened(describe_rank(failed));
    failure.how = describe_end(failed.first);
    if (failed.oom_kills.value_or(0) > 0)
        failure.what = fmt::format(
            "the kernel's out-of-memory killer struck {} times in the job's "
            "cgroup",
            *failed.oom_kills);
    else
        failure.what = shortened(!failed.no_room.empty() ? failed.no_room : failed.cannot_resume);
    failure.follows = shortened(describe_restart(failed));
    failure.log = shortened(failed.stderr_path);
    for (const RankExited& other : failed.others) {
        const auto found = ranks_.find(other.rank);
        if (found != ranks_.end())
            found->second.end = describe_end(other);
    }
    add_failure(std::move(failure));
    begin_span(time_of(event),
               failed.restart_number ? std::optional(LedgerKind::recovery) : LedgerKind::idle);
}

void RecordBuilder::on(const Event& event, const NodeLost& lost) {
    RecordFailure failure{.at = time_of(event), .generation = event.generation};
    failure.cause = "node_lost";
    failure.who = shortened(lost.node);
    failure.how = fmt::format("was lost with {} rank{}", lost.ranks.size(),
                              lost.ranks.size() == 1 ? "" : "s");
    failure.what = shortened(lost.why);
    failure.follows = lost.goes_on ? "the job goes on without it" : "";
    add_failure(std::move(failure));
    begin_span(time_of(event), lost.goes_on ? LedgerKind::recovery : LedgerKind::idle);
}

// Ranks have other nodes now. A lost node's plan has the old ones: the others' are read later, or
// are for ranks that are not there any more.
void RecordBuilder::on(const Event&, const WorldChanged& world) {
    ranks_.clear();
    record_.node_count = world.nodes;
    record_.world_size = world.world_size;
    is_smaller_ = true;
}

void RecordBuilder::on(const Event& event, const JobHung& hung) {
    RecordFailure failure{.at = time_of(event), .generation = event.generation};
    failure.cause = "hang";
    failure.who = "the job";
    failure.how = "stood still";
    failure.what = shortened(hung.found.headline);
    for (const std::string& line : hung.found.lines)
        failure.what = shortened(failure.what + "; " + line);
    failure.follows = describe_restart(hung);
    add_failure(std::move(failure));
    begin_span(time_of(event),
               hung.restart_number ? std::optional(LedgerKind::recovery) : LedgerKind::idle);
}

void RecordBuilder::on(const Event& event, const SpawnFailed& failed) {
    RecordFailure failure{.at = time_of(event), .generation = event.generation};
    failure.cause = "cannot_start";
    failure.who = fmt::format("rank {}", failed.rank);
    failure.how = failed.while_running ? "lacks data that does not come" : "could not be started";
    failure.what = shortened(failed.what);
    failure.remedy = shortened(failed.hint);
    add_failure(std::move(failure));
}

void RecordBuilder::on(const Event&, const WarningRaised& warning) {
    if (warning.text.find(" events are missing here: ") != std::string::npos)
        gap(warning.text);
    else
        warn(warning.text);
}

// It did not come to its last event, and somebody has started the job again.
void RecordBuilder::note_killed_agent() {
    RecordFailure failure{.at = seen_before_.value_or(RecordTime{}), .generation = generation_};
    failure.cause = name_of(Cause::agent_killed);
    failure.certainty = name_of(Certainty::possible);
    failure.who = fmt::format("generation {}", generation_);
    failure.how = "has no end in the events";
    failure.what = "its agent was killed, or its node lost";
    add_failure(std::move(failure));
}

void RecordBuilder::on(const Event& event, const JobEnded& job) {
    begin_span(time_of(event), std::nullopt);
    record_.exit_code = job.exit_code;
    record_.outcome = shortened(job.outcome);
    constexpr int kMostRestarts = 1'000'000;  // a file may say anything
    record_.restarts =
        std::min(record_.restarts + std::clamp(job.restarts, 0, kMostRestarts), kMostRestarts);
}

// By the scheduler's name of the node, as its samples are, where the plan tells it.
void RecordBuilder::plan_gpus(const Json& plan, const std::string& hostname) {
    NodeTrace node{.node = hostname};
    if (const auto nodes = plan.find("nodes"); nodes != plan.end() && nodes->is_object()) {
        const auto names = nodes->find("names");
        const int own = whole_number_or(*nodes, "rank", 0);
        if (names != nodes->end() && names->is_array() && own >= 0 &&
            static_cast<std::size_t>(own) < names->size())
            if (const Json& told = (*names)[static_cast<std::size_t>(own)];
                told.is_string() && !told.get_ref<const std::string&>().empty())
                node.node = shortened(told.get<std::string>());
    }
    for (const Json& planned : plan.at("ranks"))
        if (planned.contains("gpu") && planned.at("gpu").is_object())
            node.add_gpu(text_in(planned.at("gpu"), "bdf"), whole_number<int>(planned.at("rank")),
                         text_in(planned.at("gpu"), "model"));
    if (const auto unused = plan.find("unused_gpus"); unused != plan.end() && unused->is_array())
        for (const Json& bdf : *unused)
            if (bdf.is_string())
                node.add_gpu(bdf.get<std::string>(), std::nullopt, {});
    if (!node.gpus.empty() && record_.planned_gpus.size() < kMostRanks)
        record_.planned_gpus.push_back({hostname, std::move(node)});
}

void RecordBuilder::plan(const std::string& name, std::string_view text) try {
    Json json = parse_shallow(text);
    mask_texts(json, secrets_);
    if (whole_number<int>(json.at("format")) > kPlanFormat)
        return gap(fmt::format("{}: its format {} is of a later version", name,
                               whole_number<int>(json.at("format"))));
    const std::string node = text_in(json, "hostname");
    plan_gpus(json, node);
    if (json.contains("nodes") && record_.node_names.empty())
        record_.node_names = json.at("nodes").value("names", std::vector<std::string>{});
    for (const Json& planned : json.at("ranks")) {
        const int number = whole_number<int>(planned.at("rank"));
        if (ranks_.size() >= kMostRanks && !ranks_.contains(number))
            break;
        RecordRank& rank = ranks_[number];
        rank.rank = number;
        rank.local_rank = whole_number_or(planned, "local_rank", 0);
        rank.node = node;
        rank.cpus = cpus_in(planned);
        rank.reason = text_in(planned, "reason");
        if (!rank.gpu && planned.contains("gpu") && planned.at("gpu").is_object())
            rank.gpu = whole_number_or(planned.at("gpu"), "ordinal", 0);
    }
} catch (const nlohmann::json::exception&) {
    gap(name + " is not what autolaunch writes: the placement of its ranks is missing");
}

void RecordBuilder::certificate(const std::string& name, std::string_view text) try {
    Json json = parse_shallow(text);
    mask_texts(json, secrets_);
    if (whole_number<int>(json.at("format")) > kCertificateFormat)
        return gap(fmt::format("{}: its format {} is of a later version", name,
                               whole_number<int>(json.at("format"))));
    RecordCertificate certificate{.file = name, .node = text_in(json, "node")};
    certificate.clean = json.at("clean").get<bool>();
    for (const Json& left : json.at("left"))
        if (certificate.left.size() < kMostWarnings)
            certificate.left.push_back(text_in(left, "kind") + " " + text_in(left, "what"));
    record_.certificates.push_back(std::move(certificate));
} catch (const nlohmann::json::exception&) {
    gap(name + " is not what autolaunch writes");
}

// What an event of its own says of an end.
void RecordBuilder::explain(RecordFailure& failure, const Json& end) {
    for (const auto& [key, into] :
         {std::pair{"cause", &failure.cause}, std::pair{"certainty", &failure.certainty},
          std::pair{"what", &failure.what}, std::pair{"remedy", &failure.remedy}})
        if (std::string text = text_in(end, key); !text.empty())
            *into = std::move(text);
    if (const auto evidence = end.find("evidence"); evidence != end.end() && evidence->is_array())
        for (const Json& sentence : *evidence)
            if (sentence.is_string() && failure.evidence.size() < kMostUnknown)
                failure.evidence.push_back(shortened(sentence.get<std::string>()));
    for (const auto& [key, words] : {std::pair{"alike", "other ranks failed the same way"},
                                     std::pair{"followers", "ranks failed because of it"}})
        if (const auto found = end.find(key); found != end.end())
            if (const auto count = whole_number_if_any<std::int64_t>(*found); count > 0)
                failure.evidence.push_back(fmt::format("{} {}", *count, words));
}

// Ends without a failure that was seen, such as a stop, come behind those with one.
void RecordBuilder::explain_ends() {
    for (RecordFailure& failure : record_.failures)
        if (const auto found = ends_.find(failure.generation); found != ends_.end()) {
            explain(failure, found->second);
            ends_.erase(found);
        }
    for (const auto& [generation, end] : ends_) {
        const auto at = parse_event_time(text_in(end, "time"));
        const auto found = end.find("rank");
        const auto rank =
            found == end.end() ? std::nullopt : whole_number_if_any<std::int64_t>(*found);
        RecordFailure failure{.at = at.value_or(RecordTime{}), .generation = generation};
        if (rank)
            failure.who = fmt::format("rank {}", *rank);
        else if (failure.who = text_in(end, "node"); failure.who.empty())
            failure.who = fmt::format("generation {}", generation);
        failure.how = "ended";
        explain(failure, end);
        add_failure(std::move(failure));
    }
}

RunRecord RecordBuilder::take() {
    if (record_.last_seen)
        begin_span(*record_.last_seen, std::nullopt);
    explain_ends();
    for (const auto& [number, rank] : ranks_)
        if (!is_smaller_ || number < record_.world_size)
            record_.ranks.push_back(rank);
    for (const auto& [name, coming] : coming_)
        add_data(fmt::format("{}: {} had not all come while ranks ran; {}", name, coming.amount,
                             coming.waited_words()));
    if (bad_lines_ > 0)
        gap(fmt::format("events.jsonl: {} cannot be understood, first {}; passed over",
                        bad_lines_ == 1 ? "1 line" : fmt::format("{} lines", bad_lines_),
                        first_bad_));
    for (const auto& [name, count] : unknown_)
        gap(fmt::format("{} events \"{}\" are not known to this version", count, name));
    if (record_.started && record_.outcome.empty())
        gap("the job's end is not recorded: it goes on, or autolaunch was killed");
    record_.ledger = book_.ledger();
    if (!record_.ledger.steps_reported)
        for (RecordSpan& span : record_.spans)
            if (span.kind == LedgerKind::initialisation)
                span.kind = LedgerKind::steps;
    mark_lost_work(record_);
    for (const std::string& missing : record_.ledger.gaps)
        gap(missing);
    return std::move(record_);
}

}  // namespace autolaunch::launcher
