#include "report/parse_event.hpp"

#include "base/utc_time.hpp"
#include "base/whole_number.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace autolaunch::launcher {

namespace {

using JsonLine = nlohmann::json;

constexpr double kMostEventSeconds = 1e9;

template <class T>
std::optional<T> known(const JsonLine& line, const char* key) {
    const auto found = line.find(key);
    if (found == line.end() || found->is_null())
        return std::nullopt;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
        return whole_number<T>(*found);
    else
        return found->template get<T>();
}

template <class T>
T known_or(const JsonLine& line, const char* key, T otherwise) {
    return known<T>(line, key).value_or(std::move(otherwise));
}

std::chrono::milliseconds duration_in(const JsonLine& line, const char* key) {
    const double seconds = known_or(line, key, 0.0);
    if (!(seconds > 0) || seconds > kMostEventSeconds)
        return std::chrono::milliseconds(0);
    return std::chrono::milliseconds(std::llround(seconds * 1000));
}

RankExited parse_end(const JsonLine& line) {
    RankExited end;
    end.rank = whole_number<int>(line.at("rank"));
    end.local_rank = known_or(line, "local_rank", 0);
    end.pid = known_or(line, "pid", 0);
    end.exit_code = known<int>(line, "exit_code");
    end.signal = known<int>(line, "signal");
    end.core_dumped = known_or(line, "core_dumped", false);
    end.asked_to_stop = known_or(line, "asked_to_stop", false);
    end.ran = duration_in(line, "ran_seconds");
    end.last_step = known<std::int64_t>(line, "last_step");
    return end;
}

JobStarted parse_job(const JsonLine& line) {
    JobStarted job;
    job.job_name = known_or<std::string>(line, "job_name", "");
    job.run_id = known_or<std::string>(line, "run_id", "");
    job.run_dir = known_or<std::string>(line, "run_dir", "");
    job.hostname = known_or<std::string>(line, "hostname", "");
    job.node_count = known_or(line, "node_count", 1);
    job.world_size = known_or(line, "world_size", 1);
    job.max_restarts = known_or(line, "max_restarts", 0);
    job.ranks_per_node = known<int>(line, "ranks_per_node");
    job.spares = known_or<std::vector<std::string>>(line, "spares", {});
    job.binding = known_or<std::string>(line, "binding", "");
    job.preparation = duration_in(line, "preparation_seconds");
    job.requeue = known<int>(line, "requeue");
    return job;
}

GenerationFailed parse_failure(const JsonLine& line, int generation) {
    GenerationFailed failure;
    failure.generation = generation;
    failure.first = parse_end(line.at("first"));
    failure.hostname = known_or<std::string>(line, "hostname", "");
    failure.gpu = known<int>(line, "gpu");
    if (const auto others = line.find("others"); others != line.end() && others->is_array())
        for (const auto& other : *others)
            failure.others.push_back(parse_end(other));
    failure.stderr_path = known_or<std::string>(line, "stderr_path", "");
    failure.oom_kills = known<std::int64_t>(line, "oom_kills");
    failure.stopped_others_in = duration_in(line, "stopped_others_in_seconds");
    failure.restart_number = known<int>(line, "restart_number");
    failure.max_restarts = known_or(line, "max_restarts", 0);
    failure.checkpoint_step = known<std::int64_t>(line, "checkpoint_step");
    failure.flight_path = known_or<std::string>(line, "flight_path", "");
    failure.no_room = known_or<std::string>(line, "no_room", "");
    failure.cannot_resume = known_or<std::string>(line, "cannot_resume", "");
    failure.no_restart = known_or<std::string>(line, "no_restart", "");
    return failure;
}

StandstillNoticed parse_standstill(const JsonLine& line) {
    StandstillNoticed found;
    found.headline = known_or<std::string>(line, "what", "");
    found.silence = duration_in(line, "silence_seconds");
    found.usual = duration_in(line, "usual_seconds");
    found.sure = known_or(line, "sure", false);
    found.ranks = known_or<std::vector<int>>(line, "ranks", {});
    found.lines = known_or<std::vector<std::string>>(line, "lines", {});
    found.path = known_or<std::string>(line, "path", "");
    return found;
}

std::optional<Happening> parse_what(const std::string& name, const JsonLine& line, int generation) {
    if (name == "job_started")
        return parse_job(line);
    if (name == "generation_started")
        return GenerationStarted{.generation = generation,
                                 .startup = duration_in(line, "startup_seconds"),
                                 .ranks_bound = known_or(line, "ranks_bound", 0),
                                 .numa_nodes = known_or(line, "numa_nodes", 0),
                                 .gpus = known_or(line, "gpus", 0)};
    if (name == "queue_time_known")
        return QueueTimeKnown{.waited = duration_in(line, "waited_seconds")};
    if (name == "rank_started")
        return RankStarted{.rank = whole_number<int>(line.at("rank")),
                           .local_rank = known_or(line, "local_rank", 0),
                           .pid = known_or(line, "pid", 0),
                           .gpu = known<int>(line, "gpu"),
                           .stayed = known_or(line, "stayed", false),
                           .spare = known_or(line, "spare", false)};
    if (name == "step")
        return StepReported{.rank = whole_number<int>(line.at("rank")),
                            .step = whole_number<std::int64_t>(line.at("step")),
                            .total_steps = known<std::int64_t>(line, "total_steps"),
                            .tokens = known<std::int64_t>(line, "tokens"),
                            .loss = known<double>(line, "loss"),
                            .seconds = known<double>(line, "seconds"),
                            .input_seconds = known<double>(line, "input_seconds")};
    if (name == "checkpoint")
        return CheckpointPublished{.rank = whole_number<int>(line.at("rank")),
                                   .step = whole_number<std::int64_t>(line.at("step")),
                                   .path = known_or<std::string>(line, "path", ""),
                                   .stall_seconds = known_or(line, "stall_seconds", 0.0),
                                   .save_seconds = known<double>(line, "save_seconds"),
                                   .bytes = known<std::int64_t>(line, "bytes")};
    if (name == "stop_requested")
        return StopRequested{.reason = known_or<std::string>(line, "reason", ""),
                             .failed = known_or(line, "failed", false),
                             .detection = duration_in(line, "detection_seconds")};
    if (name == "rank_exited")
        return parse_end(line);
    if (name == "generation_failed")
        return parse_failure(line, generation);
    if (name == "node_lost")
        return NodeLost{.node = known_or<std::string>(line, "node", ""),
                        .ranks = line.contains("ranks") ? whole_numbers<int>(line.at("ranks"))
                                                        : std::vector<int>(),
                        .why = known_or<std::string>(line, "why", ""),
                        .stopped = known_or(line, "stopped", 0),
                        .stopped_others_in = duration_in(line, "stopped_others_in_seconds"),
                        .ran = duration_in(line, "ran_seconds"),
                        .goes_on = known_or(line, "goes_on", false)};
    if (name == "world_changed")
        return WorldChanged{.nodes = known_or(line, "nodes", 0),
                            .world_size = known_or(line, "world_size", 0),
                            .without = known_or<std::vector<std::string>>(line, "without", {}),
                            .instead = known_or<std::vector<std::string>>(line, "instead", {})};
    if (name == "node_joined")
        return NodeJoined{.node = known_or<std::string>(line, "node", ""),
                          .address = known_or<std::string>(line, "address", ""),
                          .ranks = known_or(line, "ranks", 0),
                          .when = known_or<std::string>(line, "when", "")};
    if (name == "asked")
        return JobAsked{.what = known_or<std::string>(line, "what", ""),
                        .node = known_or<std::string>(line, "node", ""),
                        .who = known_or<std::string>(line, "who", "")};
    if (name == "node_drained")
        return NodeDrained{known_or<std::string>(line, "node", "")};
    if (name == "job_hung") {
        JobHung hung;
        hung.found = parse_standstill(line);
        hung.restart_number = known<int>(line, "restart_number");
        hung.checkpoint_step = known<std::int64_t>(line, "checkpoint_step");
        return hung;
    }
    if (name == "standstill")
        return parse_standstill(line);
    if (name == "standstill_over")
        return StandstillOver{.lasted = duration_in(line, "lasted_seconds")};
    if (name == "stragglers")
        return StragglersSeen{.ranks = known_or<std::vector<int>>(line, "ranks", {}),
                              .lines = known_or<std::vector<std::string>>(line, "lines", {})};
    if (name == "waits")
        return WaitsMeasured{.ranks = known_or<std::vector<int>>(line, "ranks", {}),
                             .shares = known_or<std::vector<double>>(line, "shares", {})};
    if (name == "rank_signalled")
        return RankSignalled{.rank = whole_number<int>(line.at("rank")),
                             .signal = known_or(line, "signal", 0)};
    if (name == "head_changed")
        return HeadChanged{.node = known_or<std::string>(line, "node", ""),
                           .from = known_or<std::string>(line, "from", ""),
                           .term = known_or(line, "term", 0)};
    if (name == "spawn_failed")
        return SpawnFailed{.rank = known_or(line, "rank", 0),
                           .what = known_or<std::string>(line, "what", ""),
                           .hint = known_or<std::string>(line, "hint", ""),
                           .while_running = known_or(line, "while_running", false)};
    if (name == "warning")
        return WarningRaised{known_or<std::string>(line, "text", "")};
    if (name == "job_ended")
        return JobEnded{.exit_code = known_or(line, "exit_code", 0),
                        .outcome = known_or<std::string>(line, "outcome", ""),
                        .restarts = known_or(line, "restarts", 0),
                        .ran = duration_in(line, "ran_seconds")};
    return std::nullopt;
}

}  // namespace

std::optional<std::chrono::sys_time<std::chrono::milliseconds>> parse_event_time(
    std::string_view text) {
    constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd.dddZ";
    const auto time = text.size() == kForm.size() ? parse_utc(text) : std::nullopt;
    const auto moment = time ? on_clock(*time) : std::nullopt;
    if (!moment)
        return std::nullopt;
    return std::chrono::floor<std::chrono::milliseconds>(*moment);
}

std::optional<Event> parse_event(const nlohmann::json& line) {
    const auto at = parse_event_time(line.at("time").get_ref<const std::string&>());
    if (!at)
        throw nlohmann::json::other_error::create(501, "no time of an event", &line);
    const int generation = whole_number<int>(line.at("generation"));
    auto what = parse_what(line.at("event").get_ref<const std::string&>(), line, generation);
    if (!what)
        return std::nullopt;
    return Event{*at, generation, std::move(*what)};
}

}  // namespace autolaunch::launcher
