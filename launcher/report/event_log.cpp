#include "report/event_log.hpp"

#include "base/file_io.hpp"
#include "base/owned_folder.hpp"
#include "base/text.hpp"
#include "secrets/secrets.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <type_traits>
#include <utility>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

double seconds(std::chrono::milliseconds duration) {
    return static_cast<double>(duration.count()) / 1000;
}

std::string format_time(std::chrono::system_clock::time_point at) {
    const auto since_epoch = std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch());
    const auto whole = std::chrono::floor<std::chrono::seconds>(since_epoch);
    const std::tm utc = fmt::gmtime(static_cast<std::time_t>(whole.count()));
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                       utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                       (since_epoch - whole).count());
}

template <class T>
void set_if_known(Json& json, const char* key, const std::optional<T>& value) {
    if (value)
        json[key] = *value;
}

void set_if_any(Json& json, const char* key, const std::string& value) {
    if (!value.empty())
        json[key] = value;
}

Json exit_fields(const RankExited& exit) {
    Json json = {{"rank", exit.rank}, {"local_rank", exit.local_rank}, {"pid", exit.pid}};
    set_if_known(json, "exit_code", exit.exit_code);
    set_if_known(json, "signal", exit.signal);
    if (exit.signal)
        json["core_dumped"] = exit.core_dumped;
    json["asked_to_stop"] = exit.asked_to_stop;
    json["ran_seconds"] = seconds(exit.ran);
    set_if_known(json, "last_step", exit.last_step);
    return json;
}

// One overload an event: its name and its fields.
std::pair<const char*, Json> describe(const JobStarted& e) {
    Json json = {{"job_name", e.job_name},        {"run_id", e.run_id},
                 {"run_dir", e.run_dir},          {"hostname", e.hostname},
                 {"node_count", e.node_count},    {"world_size", e.world_size},
                 {"max_restarts", e.max_restarts}};
    set_if_known(json, "ranks_per_node", e.ranks_per_node);
    if (!e.spares.empty())
        json["spares"] = e.spares;
    set_if_any(json, "joined", e.joined);
    json.update({{"binding", e.binding}, {"nccl", e.nccl}, {"warnings", e.warnings}});
    json["preparation_seconds"] = seconds(e.preparation);
    set_if_known(json, "requeue", e.requeue);
    return {"job_started", json};
}
std::pair<const char*, Json> describe(const GenerationStarted& e) {
    return {"generation_started",
            {{"startup_seconds", seconds(e.startup)},
             {"ranks_bound", e.ranks_bound},
             {"numa_nodes", e.numa_nodes},
             {"gpus", e.gpus}}};
}
std::pair<const char*, Json> describe(const TimeLimitKnown& e) {
    Json json = {{"ends_at", format_time(e.ends_at)}, {"seconds_left", e.left.count()}};
    if (e.changed)
        json["changed"] = true;
    if (e.over_time.count() > 0)
        json["over_time_seconds"] = e.over_time.count();
    return {"time_limit_known", json};
}
std::pair<const char*, Json> describe(const QueueTimeKnown& e) {
    return {"queue_time_known", {{"waited_seconds", seconds(e.waited)}}};
}
std::pair<const char*, Json> describe(const StopBudgetKnown& e) {
    return {"stop_budget",
            {{"save_seconds", seconds(e.save)},
             {"saves", e.saves},
             {"fits", e.fits},
             {"text", e.text}}};
}
std::pair<const char*, Json> describe(const RankStarted& e) {
    Json json = {{"rank", e.rank}, {"local_rank", e.local_rank}, {"pid", e.pid}};
    set_if_known(json, "gpu", e.gpu);
    if (e.stayed)
        json["stayed"] = true;
    if (e.spare)
        json["spare"] = true;
    return {"rank_started", json};
}
std::pair<const char*, Json> describe(const StepReported& e) {
    Json json = {{"rank", e.rank}, {"step", e.step}};
    set_if_known(json, "total_steps", e.total_steps);
    set_if_known(json, "tokens", e.tokens);
    set_if_known(json, "loss", e.loss);
    set_if_known(json, "seconds", e.seconds);
    set_if_known(json, "input_seconds", e.input_seconds);
    return {"step", json};
}
std::pair<const char*, Json> describe(const CheckpointPublished& e) {
    Json json = {
        {"rank", e.rank}, {"step", e.step}, {"path", e.path}, {"stall_seconds", e.stall_seconds}};
    set_if_known(json, "save_seconds", e.save_seconds);
    set_if_known(json, "bytes", e.bytes);
    return {"checkpoint", json};
}
std::pair<const char*, Json> describe(const CheckpointDrained& e) {
    return {"checkpoint_drained",
            {{"rank", e.rank},
             {"step", e.step},
             {"path", e.path},
             {"bytes", e.bytes},
             {"copied", e.copied},
             {"seconds", e.seconds}}};
}
std::pair<const char*, Json> describe(const CheckpointLoaded& e) {
    return {"checkpoint_loaded", {{"rank", e.rank}, {"step", e.step}, {"path", e.path}}};
}
std::pair<const char*, Json> describe(const CheckpointDeleted& e) {
    return {"checkpoint_deleted", {{"rank", e.rank}, {"path", e.path}}};
}
std::pair<const char*, Json> describe(const MessageReported& e) {
    return {"message", {{"rank", e.rank}, {"text", e.text}}};
}
std::pair<const char*, Json> describe(const StopRequested& e) {
    Json json = {{"reason", e.reason}};
    if (e.grace)
        json["grace_seconds"] = seconds(*e.grace);
    if (e.failed)
        json.update({{"failed", true}, {"detection_seconds", seconds(e.detection)}});
    return {"stop_requested", json};
}
std::pair<const char*, Json> describe(const StopExplained& e) {
    Json json = {{"origin", e.origin}, {"evidence", e.evidence}};
    if (e.left)
        json["seconds_left"] = e.left->count();
    json["grace_seconds"] = seconds(e.grace);
    return {"stop_explained", json};
}
std::pair<const char*, Json> describe(const RankSignalled& e) {
    return {"rank_signalled", {{"rank", e.rank}, {"signal", e.signal}}};
}
std::pair<const char*, Json> describe(const RankExited& e) {
    return {"rank_exited", exit_fields(e)};
}
std::pair<const char*, Json> describe(const GenerationFailed& e) {
    Json json = {{"first", exit_fields(e.first)}, {"hostname", e.hostname}};
    set_if_known(json, "gpu", e.gpu);
    json["others"] = Json::array();
    for (const auto& other : e.others)
        json["others"].push_back(exit_fields(other));
    set_if_any(json, "stderr_path", e.stderr_path);
    set_if_any(json, "stdout_path", e.stdout_path);
    set_if_any(json, "error_file_path", e.error_file_path);
    set_if_known(json, "oom_kills", e.oom_kills);
    json["stopped_others_in_seconds"] = seconds(e.stopped_others_in);
    set_if_known(json, "restart_number", e.restart_number);
    json["max_restarts"] = e.max_restarts;
    set_if_known(json, "checkpoint_step", e.checkpoint_step);
    set_if_any(json, "flight_path", e.flight_path);
    set_if_any(json, "no_room", e.no_room);
    set_if_any(json, "cannot_resume", e.cannot_resume);
    if (e.restart_held_back)
        json["restart_held_back"] = true;
    if (e.input_spent)
        json["input_spent"] = true;
    set_if_any(json, "restart_account", e.restart_account);
    if (e.restart_delay.count() > 0)
        json["restart_delay_seconds"] = seconds(e.restart_delay);
    set_if_any(json, "no_restart", e.no_restart);
    set_if_any(json, "core", e.core);
    return {"generation_failed", json};
}
std::pair<const char*, Json> describe(const GenerationEnded& e) {
    Json json = Json::object();
    set_if_any(json, "next", e.next);
    set_if_known(json, "exit_code", e.exit_code);
    set_if_any(json, "no_requeue", e.no_requeue);
    if (!e.record)
        return {"generation_ended", json};
    const EndRecord& record = *e.record;
    json["cause"] = name_of(record.cause);
    json["certainty"] = name_of(record.certainty);
    if (record.rank >= 0)
        json["rank"] = record.rank;
    set_if_any(json, "node", record.node);
    set_if_any(json, "what", record.what);
    json["evidence"] = record.evidence;
    set_if_any(json, "remedy", record.remedy);
    set_if_any(json, "vain", record.vain);
    set_if_known(json, "step", record.step);
    json.update({{"alike", record.alike}, {"followers", record.followers}});
    return {"generation_ended", json};
}
std::pair<const char*, Json> describe(const NodeLost& e) {
    Json json = {{"node", e.node},
                 {"ranks", e.ranks},
                 {"why", e.why},
                 {"stopped", e.stopped},
                 {"stopped_others_in_seconds", seconds(e.stopped_others_in)},
                 {"ran_seconds", seconds(e.ran)},
                 {"goes_on", e.goes_on}};
    set_if_any(json, "flight_path", e.flight_path);
    return {"node_lost", json};
}
std::pair<const char*, Json> describe(const WorldChanged& e) {
    return {"world_changed",
            {{"nodes", e.nodes},
             {"world_size", e.world_size},
             {"without", e.without},
             {"instead", e.instead}}};
}
std::pair<const char*, Json> describe(const NodeJoined& e) {
    return {"node_joined",
            {{"node", e.node}, {"address", e.address}, {"ranks", e.ranks}, {"when", e.when}}};
}
std::pair<const char*, Json> describe(const JobAsked& e) {
    Json json = {{"what", e.what}, {"who", e.who}};
    set_if_any(json, "node", e.node);
    return {"asked", std::move(json)};
}
std::pair<const char*, Json> describe(const NodeDrained& e) {
    return {"node_drained", {{"node", e.node}}};
}
std::pair<const char*, Json> describe(const FlightShown& e) {
    Json json = {{"reason", e.reason}, {"lines", e.lines}};
    set_if_any(json, "path", e.path);
    return {"flight", json};
}
std::pair<const char*, Json> describe(const StandstillNoticed& e) {
    Json json = {{"what", e.headline},
                 {"silence_seconds", seconds(e.silence)},
                 {"usual_seconds", seconds(e.usual)},
                 {"sure", e.sure},
                 {"ranks", e.ranks},
                 {"lines", e.lines},
                 {"flight", e.flight}};
    set_if_any(json, "path", e.path);
    return {"standstill", json};
}
std::pair<const char*, Json> describe(const StacksShown& e) {
    Json json = {{"rank", e.rank}};
    set_if_any(json, "node", e.node);
    set_if_any(json, "path", e.path);
    set_if_any(json, "problem", e.problem);
    return {"stacks", json};
}
std::pair<const char*, Json> describe(const StandstillOver& e) {
    return {"standstill_over", {{"lasted_seconds", seconds(e.lasted)}}};
}
std::pair<const char*, Json> describe(const StragglersSeen& e) {
    return {"stragglers", {{"ranks", e.ranks}, {"lines", e.lines}}};
}
std::pair<const char*, Json> describe(const WaitsMeasured& e) {
    Json shares = Json::array();
    for (const double share : e.shares)
        shares.push_back(std::round(share * 1000) / 1000);
    return {"waits", {{"ranks", e.ranks}, {"shares", std::move(shares)}}};
}
std::pair<const char*, Json> describe(const JobHung& e) {
    Json json = describe(e.found).second;
    json.update({{"stacks", e.stacks},
                 {"stopped", e.stopped},
                 {"stopped_in_seconds", seconds(e.stopped_in)}});
    set_if_known(json, "restart_number", e.restart_number);
    set_if_known(json, "checkpoint_step", e.checkpoint_step);
    set_if_any(json, "restart_account", e.restart_account);
    if (e.restart_delay.count() > 0)
        json["restart_delay_seconds"] = seconds(e.restart_delay);
    set_if_any(json, "no_restart", e.no_restart);
    return {"job_hung", json};
}
std::pair<const char*, Json> describe(const HeadLost& e) {
    return {"head_lost", {{"node", e.node}, {"why", e.why}}};
}
std::pair<const char*, Json> describe(const HeadChanged& e) {
    return {"head_changed", {{"node", e.node}, {"from", e.from}, {"term", e.term}}};
}
std::pair<const char*, Json> describe(const SpawnFailed& e) {
    Json json = {{"rank", e.rank}, {"what", e.what}};
    set_if_any(json, "hint", e.hint);
    if (e.while_running)
        json["while_running"] = true;
    return {"spawn_failed", json};
}
std::pair<const char*, Json> describe(const PlacementDrifted& e) {
    return {"placement_drift", {{"rank", e.rank}, {"what", e.what}}};
}
std::pair<const char*, Json> describe(const PythonPreloaded& e) {
    Json json = {{"pid", e.pid}, {"modules", e.modules}, {"seconds", seconds(e.took)}};
    if (!e.late.empty())
        json["late"] = e.late;
    if (e.copies > 0)
        json["copies"] = e.copies;
    return {"python_preloaded", json};
}
std::pair<const char*, Json> describe(const DataStaging& e) {
    return {"data_staging", {{"name", e.name}, {"bytes", e.bytes}, {"of", e.of}}};
}
std::pair<const char*, Json> describe(const DataComes& e) {
    return {"data_comes",
            {{"name", e.name}, {"path", e.path}, {"bytes", e.bytes}, {"files", e.files}}};
}
std::pair<const char*, Json> describe(const DataStaged& e) {
    return {"data_staged",
            {{"name", e.name},
             {"path", e.path},
             {"bytes", e.bytes},
             {"files", e.files},
             {"read_bytes", e.read_bytes},
             {"was_here", e.was_here},
             {"shared", e.is_shared},
             {"unchecked_files", e.unchecked_files},
             {"seconds", seconds(e.took)}}};
}
std::pair<const char*, Json> describe(const DataStagingOut& e) {
    return {"data_staging_out",
            {{"node", e.node}, {"name", e.name}, {"bytes", e.bytes}, {"of", e.of}}};
}
std::pair<const char*, Json> describe(const DataStagedOut& e) {
    return {"data_staged_out",
            {{"node", e.node},
             {"name", e.name},
             {"to", e.to},
             {"bytes", e.bytes},
             {"files", e.files},
             {"found_files", e.found_files},
             {"seconds", seconds(e.took)}}};
}
std::pair<const char*, Json> describe(const DataLeft& e) {
    return {"data_left",
            {{"node", e.node},
             {"name", e.name},
             {"to", e.to},
             {"folder", e.folder},
             {"bytes", e.bytes},
             {"files", e.files},
             {"why", e.why},
             {"hint", e.hint},
             {"command", e.command},
             {"exit_code", e.exit_code}}};
}
std::pair<const char*, Json> describe(const SpareReady& e) {
    return {"spare_ready",
            {{"local_rank", e.local_rank}, {"pid", e.pid}, {"seconds", seconds(e.took)}}};
}
std::pair<const char*, Json> describe(const GpuPlacementKnown& e) {
    if (!e.cannot_tell.empty())
        return {"gpu_placement", {{"cannot_tell", e.cannot_tell}}};
    return {"gpu_placement", {{"as_planned", e.as_planned}, {"elsewhere", e.elsewhere}}};
}
std::pair<const char*, Json> describe(const WarningRaised& e) {
    return {"warning", {{"text", e.text}}};
}
std::pair<const char*, Json> describe(const JobEnded& e) {
    return {"job_ended",
            {{"exit_code", e.exit_code},
             {"outcome", e.outcome},
             {"restarts", e.restarts},
             {"ran_seconds", seconds(e.ran)}}};
}

// As torchelastic's event "torchelastic.worker.status.<STATE>" has them, in its order.
Json torchelastic_fields(const RankExited& end, const Event& event, const WorkerContext& workers) {
    const auto role = workers.roles.find(end.rank);
    const bool is_well = end.exit_code == 0;
    Json json = {{"run_id", workers.run_id},
                 {"global_rank", end.rank},
                 {"group_rank", workers.group_rank},
                 {"worker_id", std::to_string(end.pid)},
                 {"role", role == workers.roles.end() ? "default" : role->second},
                 {"hostname", workers.hostname},
                 {"state", is_well ? "SUCCEEDED" : "FAILED"},
                 {"total_run_time", std::chrono::duration_cast<std::chrono::seconds>(
                                        std::chrono::steady_clock::now() - workers.began)
                                        .count()},
                 {"rdzv_backend", "autolaunch"}};
    if (!is_well)
        json["raw_error"] = end.signal ? "killed by " + signal_name(*end.signal)
                                       : "exit code " + std::to_string(end.exit_code.value_or(0));
    json["agent_restarts"] = event.generation;
    json["duration_ms"] = end.ran.count();
    return json;
}

}  // namespace

std::string to_json_line(const Event& event, std::span<const std::string> secrets,
                         const WorkerContext* workers) {
    return std::visit(
        [&event, secrets, workers](const auto& what) {
            auto [name, fields] = describe(what);
            if constexpr (std::is_same_v<std::decay_t<decltype(what)>, RankExited>)
                if (workers != nullptr)
                    fields.update(torchelastic_fields(what, event, *workers));
            mask_texts(fields, secrets);
            const std::string rest = fields.dump(-1, ' ', false, Json::error_handler_t::replace);
            return fmt::format("{{\"time\":\"{}\",\"generation\":{},\"event\":\"{}\"{}{}",
                               format_time(event.at), event.generation, name,
                               fields.empty() ? "" : ",", rest.substr(1));
        },
        event.what);
}

EventLog::EventLog(const std::filesystem::path& path, std::vector<std::string> secrets)
    : path_(path),
      fd_(OwnedFolder::make(path.parent_path()).append(path.filename())),
      secrets_(std::move(secrets)) {}

void EventLog::end_torn_line() {
    struct stat facts {};
    char last = '\n';
    const bool has_any = ::fstat(fd_.get(), &facts) == 0 && facts.st_size > 0;
    const int reading = has_any ? ::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    const UniqueFd closed_in_the_end(reading);
    if (reading >= 0 && ::pread(reading, &last, 1, facts.st_size - 1) == 1 && last != '\n')
        write_line({});
}

// Readers see whole lines: of one that found no room for its end nothing stays. Nobody else writes.
bool EventLog::write_line(const std::string& line) {
    struct stat before {};
    const bool size_known = ::fstat(fd_.get(), &before) == 0;
    if (size_known && before.st_nlink == 0) {  // what is written goes nowhere, without an error
        why_lost_ = path_.string() + " was removed";
        return false;
    }
    try {
        write_all(fd_.get(), line + '\n', path_.string());
        return true;
    } catch (const SystemError& error) {
        why_lost_ = error.what();
        struct stat after {};
        const bool has_part =
            size_known && ::fstat(fd_.get(), &after) == 0 && after.st_size > before.st_size;
        if (has_part && ::ftruncate(fd_.get(), before.st_size) != 0)
            why_lost_ += ", and a part of a line stays";
        return false;
    }
}

EventLog::Outcome EventLog::append(const Event& event) {
    const bool gap = lost_in_a_row_ > 0;
    if (gap) {
        const WarningRaised warning{std::to_string(lost_in_a_row_) +
                                    " events are missing here: " + why_lost_};
        if (!write_line(to_json_line({event.at, event.generation, warning}, secrets_)))
            return lose_one(), Outcome::lost;
    }
    lost_in_a_row_ = 0;
    if (write_line(to_json_line(event, secrets_, workers_ ? &*workers_ : nullptr)))
        return gap ? Outcome::recorded_again : Outcome::recorded;
    lose_one();
    return gap ? Outcome::lost : Outcome::lost_first;
}

void EventLog::lose_one() {
    ++lost_;
    ++lost_in_a_row_;
}

}  // namespace autolaunch::launcher
