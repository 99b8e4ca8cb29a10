#include "session/session_protocol.hpp"

#include "base/json_nesting.hpp"

#include <autolaunch/error.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace autolaunch::session {
namespace {

using nlohmann::json;

constexpr int kDeepestLine = 16;  // ours are flat; what later versions add is ignored

/// JSON has no NaN and no infinity: they go as the words "nan", "inf" and "-inf".
json from_number(double value) {
    if (std::isnan(value))
        return "nan";
    if (std::isinf(value))
        return value > 0 ? "inf" : "-inf";
    return value;
}

double to_number(const json& value) {
    if (value.is_number())
        return value.get<double>();
    const auto& word = value.get_ref<const std::string&>();
    if (word == "nan")
        return std::numeric_limits<double>::quiet_NaN();
    if (word == "inf")
        return std::numeric_limits<double>::infinity();
    if (word == "-inf")
        return -std::numeric_limits<double>::infinity();
    throw Error(ErrorCode::corrupt, "session line: " + word.substr(0, 40) + " is no number");
}

json to_json(const Hello& hello) {
    json line = {{"type", "hello"},
                 {"protocol", hello.protocol},
                 {"rank", hello.rank},
                 {"local_rank", hello.local_rank},
                 {"generation", hello.generation},
                 {"pid", hello.pid}};
    if (hello.spares)
        line["spares"] = true;
    return line;
}
json to_json(const Step& step) {
    json line = {{"type", "step"}, {"step", step.step}};
    if (step.total_steps)
        line["total_steps"] = *step.total_steps;
    if (step.loss)
        line["loss"] = from_number(*step.loss);
    if (step.tokens)
        line["tokens"] = *step.tokens;
    if (step.seconds)
        line["seconds"] = from_number(*step.seconds);
    if (step.input_seconds)
        line["input_seconds"] = from_number(*step.input_seconds);
    return line;
}
json to_json(const Checkpoint& checkpoint) {
    json line = {{"type", "checkpoint"},
                 {"step", checkpoint.step},
                 {"path", checkpoint.path},
                 {"stall_seconds", from_number(checkpoint.stall_seconds)}};
    if (checkpoint.save_seconds)
        line["save_seconds"] = from_number(*checkpoint.save_seconds);
    if (checkpoint.bytes)
        line["bytes"] = *checkpoint.bytes;
    return line;
}
json to_json(const CheckpointDrained& drained) {
    return {{"type", "checkpoint_drained"}, {"step", drained.step},
            {"path", drained.path},         {"bytes", drained.bytes},
            {"copied", drained.copied},     {"seconds", from_number(drained.seconds)}};
}
json to_json(const CheckpointLoaded& loaded) {
    return {{"type", "checkpoint_loaded"}, {"step", loaded.step}, {"path", loaded.path}};
}
json to_json(const CheckpointDeleted& deleted) {
    return {{"type", "checkpoint_deleted"}, {"path", deleted.path}};
}
json to_json(const Message& message) { return {{"type", "message"}, {"text", message.text}}; }
json to_json(const Phase& phase) { return {{"type", "phase"}, {"name", phase.name}}; }
json to_json(const HandlesStop&) { return {{"type", "handles_stop"}}; }
json to_json(const HeardStop&) { return {{"type", "heard_stop"}}; }
json to_json(const CannotResume& resume) {
    return {{"type", "cannot_resume"}, {"reason", resume.reason}};
}
json to_json(const Recorder& recorder) {
    return {{"type", "recorder"}, {"layout", recorder.layout}};
}
json to_json(const PythonStacks& stacks) {
    return {{"type", "python_stacks"}, {"signal", stacks.signal}};
}
json to_json(const MemoryAsked& asked) {
    return {{"type", "memory"},
            {"group", asked.group},
            {"shard", asked.shard},
            {"slot", asked.slot},
            {"bytes", asked.bytes}};
}
json to_json(const MemoryAnswer& answer) {
    json line = {{"type", "memory"}, {"bytes", answer.bytes}};
    if (!answer.refused.empty())
        line.update({{"refused", answer.refused}, {"hint", answer.hint}});
    return line;
}
json to_json(const Stop& stop) {
    json line = {{"type", "stop"},
                 {"reason", stop.reason},
                 {"grace_seconds", from_number(stop.grace_seconds)}};
    if (stop.until > 0)
        line["until"] = from_number(stop.until);
    return line;
}
json to_json(const Rejoins& rejoins) {
    json line = {{"type", "rejoins"}, {"cannot", rejoins.cannot}};
    if (rejoins.renumbers)
        line["renumbers"] = true;
    return line;
}
json to_json(const HasLeft& left) {
    return {{"type", "has_left"}, {"generation", left.generation}};
}
json to_json(const LeaveGeneration& leave) {
    return {{"type", "leave"}, {"generation", leave.generation}, {"reason", leave.reason}};
}
// Of a NextGeneration, const or not.
auto numbers_of(auto& next) {
    using Number = std::pair<const char*, decltype((next.rank))>;
    return std::array<Number, 6>{
        Number("rank", next.rank),           Number("world_size", next.world_size),
        Number("node_rank", next.node_rank), Number("node_count", next.node_count),
        Number("role_rank", next.role_rank), Number("role_size", next.role_size)};
}
json to_json(const NextGeneration& next) {
    json line = {{"type", "generation"},
                 {"generation", next.generation},
                 {"socket", next.socket},
                 {"store", next.store},
                 {"store_token", next.store_token},
                 {"master_address", next.master_address},
                 {"master_port", next.master_port}};
    for (const auto& [name, number] : numbers_of(next))
        if (number >= 0)
            line[name] = number;
    return line;
}
json to_json(const Spare& spare) {
    json line = {{"type", "spare"}, {"state", spare.state}};
    if (!spare.cannot.empty())
        line["cannot"] = spare.cannot;
    return line;
}
json to_json(const BecomeRank& become) {
    return {{"type", "become"}, {"set", become.set}, {"unset", become.unset}};
}
json to_json(const CheckpointRequest&) { return {{"type", "checkpoint"}}; }

std::string dump(const json& line) {
    return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

/// Halves the only field that can be long until the line fits.
std::string dump_cut(json line, const char* long_field) {
    std::string text = dump(line);
    while (text.size() > kMaxLineBytes) {
        auto& field = line[long_field].get_ref<std::string&>();
        field.resize(field.size() / 2);
        text = dump(line);
    }
    return text;
}

struct Formatter {
    template <typename T>
    std::string operator()(const T& message) const {
        return dump(to_json(message));
    }
    std::string operator()(const Checkpoint& message) const {
        return dump_cut(to_json(message), "path");
    }
    std::string operator()(const CheckpointLoaded& message) const {
        return dump_cut(to_json(message), "path");
    }
    std::string operator()(const CheckpointDrained& message) const {
        return dump_cut(to_json(message), "path");
    }
    std::string operator()(const CheckpointDeleted& message) const {
        return dump_cut(to_json(message), "path");
    }
    std::string operator()(const Message& message) const {
        return dump_cut(to_json(message), "text");
    }
    std::string operator()(const Phase& message) const {
        return dump_cut(to_json(message), "name");
    }
    std::string operator()(const CannotResume& message) const {
        return dump_cut(to_json(message), "reason");
    }
    std::string operator()(const Rejoins& message) const {
        return dump_cut(to_json(message), "cannot");
    }
    std::string operator()(const Spare& message) const {
        return message.cannot.empty() ? dump(to_json(message))
                                      : dump_cut(to_json(message), "cannot");
    }
    std::string operator()(const LeaveGeneration& message) const {
        return dump_cut(to_json(message), "reason");
    }
    std::string operator()(const Stop& message) const {
        return dump_cut(to_json(message), "reason");
    }
};

std::int64_t to_integer(const json& value) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
        throw Error(ErrorCode::corrupt, "session line: a number is too large");
    }
    if (!value.is_number_integer())
        throw Error(ErrorCode::corrupt, "session line: a number is not whole");
    return value.get<std::int64_t>();
}

int to_small(const json& value) {
    const std::int64_t number = to_integer(value);
    if (number < 0 || number > std::numeric_limits<int>::max()) {
        throw Error(ErrorCode::corrupt, "session line: a number is out of range");
    }
    return static_cast<int>(number);
}

template <typename T, typename Convert>
std::optional<T> optional_field(const json& line, const char* name, Convert convert) {
    const auto found = line.find(name);
    if (found == line.end() || found->is_null())
        return std::nullopt;
    return convert(*found);
}

NextGeneration parse_next(const json& fields) {
    const auto text = [&](const char* name) { return fields.at(name).get<std::string>(); };
    NextGeneration next{.generation = to_small(fields.at("generation")),
                        .socket = text("socket"),
                        .store = text("store"),
                        .store_token = text("store_token"),
                        .master_address = text("master_address"),
                        .master_port = to_small(fields.at("master_port"))};
    for (const auto& [name, number] : numbers_of(next))
        if (fields.contains(name))
            number = to_small(fields.at(name));
    return next;
}

/// Runs `read` on the parsed line; all of nlohmann's complaints become Error{corrupt}.
template <typename Read>
auto with_json(std::string_view line, Read read) {
    if (!nests_at_most(line, kDeepestLine))
        throw Error(ErrorCode::corrupt, "session line: nested too deeply");
    try {
        const json parsed = json::parse(line);
        return read(parsed, parsed.at("type").template get<std::string>());
    } catch (const json::exception& error) {
        throw Error(ErrorCode::corrupt, std::string("session line: ") + error.what());
    }
}

}  // namespace

std::string format(const RankMessage& message) { return std::visit(Formatter{}, message); }
std::string format(const AgentMessage& message) { return std::visit(Formatter{}, message); }

std::optional<RankMessage> parse_rank_line(std::string_view line) {
    return with_json(
        line, [](const json& fields, const std::string& type) -> std::optional<RankMessage> {
            if (type == "hello") {
                return Hello{to_small(fields.at("protocol")),   to_small(fields.at("rank")),
                             to_small(fields.at("local_rank")), to_small(fields.at("generation")),
                             to_small(fields.at("pid")),        fields.value("spares", false)};
            }
            if (type == "step") {
                return Step{to_integer(fields.at("step")),
                            optional_field<std::int64_t>(fields, "total_steps", to_integer),
                            optional_field<double>(fields, "loss", to_number),
                            optional_field<std::int64_t>(fields, "tokens", to_integer),
                            optional_field<double>(fields, "seconds", to_number),
                            optional_field<double>(fields, "input_seconds", to_number)};
            }
            if (type == "checkpoint") {
                return Checkpoint{to_integer(fields.at("step")),
                                  fields.at("path").get<std::string>(),
                                  to_number(fields.at("stall_seconds")),
                                  optional_field<double>(fields, "save_seconds", to_number),
                                  optional_field<std::int64_t>(fields, "bytes", to_integer)};
            }
            if (type == "checkpoint_drained")
                return CheckpointDrained{
                    to_integer(fields.at("step")), fields.at("path").get<std::string>(),
                    to_integer(fields.at("bytes")), to_integer(fields.at("copied")),
                    to_number(fields.at("seconds"))};
            if (type == "checkpoint_loaded")
                return CheckpointLoaded{to_integer(fields.at("step")),
                                        fields.at("path").get<std::string>()};
            if (type == "checkpoint_deleted")
                return CheckpointDeleted{fields.at("path").get<std::string>()};
            if (type == "message")
                return Message{fields.at("text").get<std::string>()};
            if (type == "phase")
                return Phase{fields.at("name").get<std::string>()};
            if (type == "handles_stop")
                return HandlesStop{};
            if (type == "heard_stop")
                return HeardStop{};
            if (type == "cannot_resume")
                return CannotResume{fields.at("reason").get<std::string>()};
            if (type == "recorder")
                return Recorder{to_small(fields.at("layout"))};
            if (type == "python_stacks")
                return PythonStacks{to_small(fields.at("signal"))};
            if (type == "memory")
                return MemoryAsked{fields.at("group").get<std::string>(),
                                   to_small(fields.at("shard")), to_small(fields.at("slot")),
                                   to_integer(fields.at("bytes"))};
            if (type == "rejoins")
                return Rejoins{fields.value("cannot", ""), fields.value("renumbers", false)};
            if (type == "has_left")
                return HasLeft{to_small(fields.at("generation"))};
            if (type == "spare")
                return Spare{fields.at("state").get<std::string>(), fields.value("cannot", "")};
            return std::nullopt;
        });
}

std::optional<AgentMessage> parse_agent_line(std::string_view line) {
    return with_json(
        line, [](const json& fields, const std::string& type) -> std::optional<AgentMessage> {
            if (type == "stop") {
                return Stop{fields.at("reason").get<std::string>(),
                            to_number(fields.at("grace_seconds")),
                            fields.contains("until") ? to_number(fields.at("until")) : 0};
            }
            if (type == "checkpoint")
                return CheckpointRequest{};
            if (type == "memory")
                return MemoryAnswer{to_integer(fields.at("bytes")), fields.value("refused", ""),
                                    fields.value("hint", "")};
            if (type == "leave")
                return LeaveGeneration{to_small(fields.at("generation")),
                                       fields.at("reason").get<std::string>()};
            if (type == "generation")
                return parse_next(fields);
            if (type == "become")
                return BecomeRank{fields.at("set").get<std::map<std::string, std::string>>(),
                                  fields.at("unset").get<std::vector<std::string>>()};
            return std::nullopt;
        });
}

bool take_line(std::string& buffer, std::string& line) {
    const std::size_t end = buffer.find('\n');
    if (end == std::string::npos ? buffer.size() >= kMaxLineBytes : end >= kMaxLineBytes) {
        throw Error(ErrorCode::corrupt,
                    "session line: longer than " + std::to_string(kMaxLineBytes) + " bytes");
    }
    if (end == std::string::npos)
        return false;
    line.assign(buffer, 0, end);
    buffer.erase(0, end + 1);
    return true;
}

}  // namespace autolaunch::session
