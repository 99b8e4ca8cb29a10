#include "control/control_message.hpp"

#include "control/wire_fields.hpp"

#include <autolaunch/error.hpp>

#include <tuple>
#include <type_traits>

namespace autolaunch::flight {

// Where they are looked for: beside the types.
template <class T, class M>
concept Is = std::same_as<std::remove_const_t<T>, M>;

auto fields(Is<RecordedRank> auto& m) { return std::tie(m.rank, m.ended, m.no_groups, m.groups); }
auto fields(Is<RecordedGroup> auto& m) {
    return std::tie(m.id, m.name, m.backend, m.size, m.place, m.in_use, m.collectives, m.lost,
                    m.torn, m.calls);
}
auto fields(Is<RecordedCall> auto& m) {
    return std::tie(m.sequence, m.kind, m.op, m.type, m.state, m.on_device, m.root, m.bytes,
                    m.enqueued_us, m.started_us, m.finished_us, m.label);
}

}  // namespace autolaunch::flight

namespace autolaunch::launcher {

auto fields(flight::Is<RankExited> auto& m) {
    return std::tie(m.rank, m.local_rank, m.pid, m.exit_code, m.signal, m.core_dumped,
                    m.asked_to_stop, m.ran, m.last_step);
}

auto fields(flight::Is<EndRecord> auto& m) {
    return std::tie(m.cause, m.certainty, m.rank, m.node, m.what, m.evidence, m.remedy, m.vain,
                    m.step, m.follows, m.alike, m.followers);
}

auto fields(flight::Is<RankActivity> auto& m) {
    return std::tie(m.rank, m.pid, m.doing, m.cpu_percent, m.what);
}

auto fields(flight::Is<NodeMeasures::Gpu> auto& m) {
    return std::tie(m.busy, m.celsius, m.milliwatts, m.memory_used_mib, m.memory_total_mib,
                    m.slowed);
}

auto fields(flight::Is<NodeMeasures> auto& m) {
    return std::tie(m.span_ms, m.cpu_busy, m.memory_free, m.throttled, m.io_stalled,
                    m.network_bytes, m.infiniband_bytes, m.silent_file_systems, m.troubles,
                    m.sampler_restarts, m.gpus);
}

}  // namespace autolaunch::launcher

namespace autolaunch::launcher::control {

// Every message's fields, in the order of the wire. One list serves both directions.
using flight::Is;

auto fields(Is<Join> auto& m) {
    return std::tie(m.protocol, m.version, m.node_name, m.hostname, m.ranks, m.node_rank,
                    m.topology_address, m.program_digest, m.spec_digest, m.environment_digest,
                    m.door, m.incarnation);
}
auto fields(Is<AskEnvironment> auto&) { return std::tie(); }
auto fields(Is<EnvironmentTable> auto& m) { return std::tie(m.variables); }
auto fields(Is<Refused> auto& m) { return std::tie(m.reason, m.hint); }
auto fields(Is<Welcome> auto& m) {
    return std::tie(m.self, m.run_name, m.nodes, m.ranks, m.now, m.doors, m.incarnations);
}

auto fields(Is<StartGeneration> auto& m) {
    return std::tie(m.generation, m.master_address, m.master_port, m.store_token, m.secret,
                    m.ranks_per_node, m.order);
}
auto fields(Is<StopRanks> auto& m) {
    return std::tie(m.generation, m.by_user, m.reason, m.signal, m.grace_ms);
}
auto fields(Is<LeaveGeneration> auto& m) {
    return std::tie(m.generation, m.reason, m.grace_ms, m.saves, m.renumbers);
}
auto fields(Is<NodeAdded> auto& m) { return std::tie(m.node, m.name, m.ranks); }
auto fields(Is<CheckNode> auto& m) {
    return std::tie(m.generation, m.request, m.addresses, m.secret);
}
auto fields(Is<Ready> auto&) { return std::tie(); }
auto fields(Is<LinkTried> auto& m) {
    return std::tie(m.peer, m.bytes, m.best_us, m.wrong, m.problem);
}
auto fields(Is<NodeChecked> auto& m) {
    return std::tie(m.generation, m.request, m.failures, m.unreached, m.links);
}
auto fields(Is<NodeMeasured> auto& m) { return std::tie(m.measures); }
auto fields(Is<Ask> auto& m) { return std::tie(m.what, m.argument); }
auto fields(Is<Answer> auto& m) { return std::tie(m.exit_code, m.text, m.hint); }
auto fields(Is<ConsoleText> auto& m) { return std::tie(m.to, m.text); }
auto fields(Is<FilePiece> auto& m) { return std::tie(m.bytes, m.covered, m.file_bytes, m.wrong); }
auto fields(Is<KillRanks> auto& m) { return std::tie(m.generation); }
auto fields(Is<Finish> auto& m) { return std::tie(m.exit_code, m.outcome, m.ends_step); }

auto fields(Is<AskFlight> auto& m) { return std::tie(m.generation, m.request); }

auto fields(Is<AskWhoIsHere> auto& m) { return std::tie(m.generation, m.request); }
auto fields(Is<GoOn> auto& m) { return std::tie(m.generation); }
auto fields(Is<Overslept> auto& m) { return std::tie(m.generation); }
auto fields(Is<Here> auto& m) { return std::tie(m.generation, m.request); }

auto fields(Is<AskActivity> auto& m) { return std::tie(m.generation, m.request, m.with_stacks); }
auto fields(Is<WriteStacks> auto& m) { return std::tie(m.generation, m.ranks); }
auto fields(Is<StacksWritten> auto& m) { return std::tie(m.generation, m.rank, m.path, m.problem); }
auto fields(Is<StepsOverdue> auto& m) {
    return std::tie(m.generation, m.rank, m.silence, m.usual, m.far, m.by_signs);
}
auto fields(Is<StepsAgain> auto& m) { return std::tie(m.generation); }
auto fields(Is<ActivityRead> auto& m) {
    return std::tie(m.generation, m.request, m.ranks, m.quiet);
}

auto fields(Is<GenerationRunning> auto& m) {
    return std::tie(m.generation, m.startup_us, m.ranks_bound, m.numa_nodes, m.gpus);
}
auto fields(Is<StartFailed> auto& m) {
    return std::tie(m.generation, m.rank, m.exit_code, m.restart_helps, m.what, m.hint);
}
auto fields(Is<RankFailed> auto& m) {
    return std::tie(m.generation, m.end, m.hostname, m.gpu, m.age_us, m.stderr_path, m.stdout_path,
                    m.error_file_path, m.stderr_tail, m.stdout_tail, m.error_text, m.oom_kills,
                    m.no_room, m.may_miss_words, m.cannot_resume, m.core, m.record);
}
auto fields(Is<RanksEnded> auto& m) {
    return std::tie(m.generation, m.every_rank_exited_zero, m.ends, m.checkpoint_step, m.age_us,
                    m.failures);
}
auto fields(Is<RanksGivenUp> auto& m) { return std::tie(m.generation, m.why); }
auto fields(Is<StopAsked> auto& m) { return std::tie(m.signal); }
auto fields(Is<NodeWarning> auto& m) { return std::tie(m.text); }
auto fields(Is<FlightAsked> auto&) { return std::tie(); }
auto fields(Is<InputSpent> auto&) { return std::tie(); }
auto fields(Is<FlightRead> auto& m) { return std::tie(m.generation, m.request, m.more, m.ranks); }
auto fields(Is<Fence> auto& m) { return std::tie(m.generation, m.name, m.nodes, m.blob); }
auto fields(Is<FenceDone> auto& m) { return std::tie(m.generation, m.name, m.more, m.blobs); }
auto fields(Is<Relay> auto& m) {
    return std::tie(m.channel, m.generation, m.source, m.destination, m.bytes);
}
auto fields(Is<Heartbeat> auto&) { return std::tie(); }
auto fields(Is<Succession> auto& m) { return std::tie(m.bytes); }
auto fields(Is<Follow> auto& m) { return std::tie(m.node, m.incarnation, m.term); }

namespace {

/// A message struct and its number on the wire.
template <class M, std::uint8_t Number>
struct Kind {
    using Struct = M;
    static constexpr std::uint8_t number = Number;
};

template <class... Kinds>
struct KindTable {
    template <class M>
    static constexpr std::uint8_t number_of =
        ((std::is_same_v<M, typename Kinds::Struct> ? Kinds::number : 0) + ...);

    static Message read(std::uint8_t number, FieldReader& reader) {
        std::optional<Message> message;
        (void)((number == Kinds::number &&
                (message = read_struct<typename Kinds::Struct>(reader), true)) ||
               ...);
        if (!message)
            refuse_message("type " + std::to_string(number) + " does not exist");
        return std::move(*message);
    }

private:
    template <class M>
    static Message read_struct(FieldReader& reader) {
        M message;
        reader.get(message);
        if constexpr (std::is_constructible_v<Command, M>) {
            return Command(std::move(message));
        } else if constexpr (std::is_constructible_v<Report, M>) {
            return Report(std::move(message));
        } else {
            return message;
        }
    }
};

// The numbers are the protocol: new messages take new ones.
using Table = KindTable<
    Kind<Join, 1>, Kind<AskEnvironment, 2>, Kind<EnvironmentTable, 3>, Kind<Refused, 4>,
    Kind<Welcome, 5>, Kind<Ask, 6>, Kind<Answer, 7>, Kind<ConsoleText, 8>, Kind<FilePiece, 9>,  //
    Kind<StartGeneration, 16>, Kind<StopRanks, 17>, Kind<KillRanks, 18>, Kind<Finish, 19>,
    Kind<AskFlight, 20>, Kind<AskWhoIsHere, 24>, Kind<GoOn, 25>, Kind<AskActivity, 26>,
    Kind<WriteStacks, 27>, Kind<GenerationRunning, 32>, Kind<StartFailed, 33>, Kind<RankFailed, 34>,
    Kind<RanksEnded, 35>, Kind<RanksGivenUp, 59>, Kind<StopAsked, 36>, Kind<NodeWarning, 37>,
    Kind<FlightAsked, 38>, Kind<FlightRead, 39>, Kind<InputSpent, 40>, Kind<Overslept, 44>,
    Kind<Here, 45>, Kind<StepsOverdue, 46>, Kind<StepsAgain, 47>, Kind<ActivityRead, 43>,
    Kind<StacksWritten, 42>,                                //
    Kind<Fence, 48>, Kind<FenceDone, 49>, Kind<Relay, 50>,  //
    Kind<LeaveGeneration, 60>, Kind<NodeAdded, 61>, Kind<CheckNode, 62>, Kind<Ready, 51>,
    Kind<NodeChecked, 52>, Kind<NodeMeasured, 58>, Kind<Heartbeat, 63>, Kind<Succession, 64>,
    Kind<Follow, 65>>;

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kIdleBufferBytes = 4096;  // kept by a reader that waits for the next message

template <class M>
void append(std::string& frame, const M& message) {
    static_assert(Table::number_of<M> != 0, "a message without a number");
    FieldWriter writer(frame);
    writer.put(Table::number_of<M>);
    writer.put(message);
}

template <class... Inner>
void append(std::string& frame, const std::variant<Inner...>& choice) {
    std::visit([&frame](const auto& message) { append(frame, message); }, choice);
}

}  // namespace

std::string encode(const Message& message) {
    std::string frame(kLengthBytes, '\0');
    append(frame, message);
    const std::size_t bytes = frame.size() - kLengthBytes;
    if (bytes > kFrameLimit)
        throw Error(ErrorCode::invalid_argument, "a control message of " + std::to_string(bytes) +
                                                     " bytes; the most is " +
                                                     std::to_string(kFrameLimit));
    std::string length;
    FieldWriter(length).put(static_cast<std::uint32_t>(bytes));
    frame.replace(0, kLengthBytes, length);
    return frame;
}

void MessageReader::feed(std::string_view bytes) { buffer_.append(bytes); }

std::optional<Message> MessageReader::next() {
    const std::string_view arrived = std::string_view(buffer_).substr(offset_);
    if (arrived.size() < kLengthBytes) {
        discard_read();
        return std::nullopt;
    }
    std::uint32_t length = 0;
    FieldReader(arrived).get(length);
    if (length == 0 || length > frame_limit_)
        refuse_message("a frame of " + std::to_string(length) + " bytes; the most is " +
                       std::to_string(frame_limit_));
    if (arrived.size() < kLengthBytes + length) {
        discard_read();
        return std::nullopt;
    }
    FieldReader reader(arrived.substr(kLengthBytes, length));
    std::uint8_t number = 0;
    reader.get(number);
    Message message = Table::read(number, reader);
    if (reader.left() > 0)
        refuse_message(std::to_string(reader.left()) + " bytes after type " +
                       std::to_string(number));
    offset_ += kLengthBytes + length;
    return message;
}

void MessageReader::discard_read() {
    buffer_.erase(0, offset_);
    offset_ = 0;
    if (buffer_.empty() && buffer_.capacity() > kIdleBufferBytes)
        buffer_.shrink_to_fit();
}

}  // namespace autolaunch::launcher::control
