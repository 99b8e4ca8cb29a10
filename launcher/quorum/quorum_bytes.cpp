#include "quorum/quorum_bytes.hpp"

#include "control/wire_fields.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

// Where they are looked for: beside the types.
template <class T, class M>
concept IsA = std::same_as<std::remove_const_t<T>, M>;

auto fields(IsA<Term> auto& m) { return std::tie(m.number, m.node); }
auto fields(IsA<Voter> auto& m) { return std::tie(m.node, m.incarnation); }
auto fields(IsA<Electorate> auto& m) {
    return std::tie(m.voters, m.casting, m.has_witness, m.formed);
}
auto fields(IsA<RecordedNode> auto& m) { return std::tie(m.name, m.ranks, m.door); }

namespace succession {

// Without its record, which follows.
auto fields(IsA<Ask> auto& m) { return std::tie(m.term); }
auto fields(IsA<Answer> auto& m) {
    return std::tie(m.term, m.generation, m.accepted, m.promised, m.stamp);
}
auto fields(IsA<Beat> auto& m) { return std::tie(m.term, m.generation, m.stamp, m.echo, m.age); }
auto fields(IsA<Heard> auto& m) {
    return std::tie(m.term, m.promised, m.generation, m.stamp, m.echo);
}
auto fields(IsA<Vote> auto& m) {
    return std::tie(m.term, m.granted, m.promised, m.accepted.term, m.committed, m.stamp);
}
auto fields(IsA<Propose> auto& m) { return std::tie(m.term); }
auto fields(IsA<Begin> auto& m) { return std::tie(m.term); }

}  // namespace succession

namespace {

using control::FieldReader;
using control::FieldWriter;
using control::refuse_message;

void put_record(FieldWriter& writer, const GenerationRecord& record) {
    writer.put(record.generation);
    writer.put(record.last);
    writer.put(record.now);
    writer.put(record.nodes);
    writer.put(record.ranks_per_node);
    writer.put(record.order);
    writer.put(to_json(record.history));
    writer.put(record.gone);
    writer.put(record.kept);
    writer.put(record.unfit);
    writer.put(record.checkpoint_step);
    writer.put(record.input_spent);
    writer.put(record.restarts);
    writer.put(record.began_ms);
    writer.put(record.exit_code);
}

void check(const Electorate& electorate, std::size_t nodes) {
    int before = -1;
    for (const Voter& voter : electorate.voters) {
        if (voter.node <= before || static_cast<std::size_t>(voter.node) >= nodes)
            refuse_message("voters that are not those of a job");
        before = voter.node;
    }
}

void check(const std::vector<int>& of_nodes, std::size_t nodes) {
    for (const int node : of_nodes)
        if (node < 0 || static_cast<std::size_t>(node) >= nodes)
            refuse_message("a record of a node that it does not know");
}

RecordPointer get_record(FieldReader& reader) {
    auto record = std::make_shared<GenerationRecord>();
    std::string history;
    reader.get(record->generation);
    reader.get(record->last);
    reader.get(record->now);
    reader.get(record->nodes);
    reader.get(record->ranks_per_node);
    reader.get(record->order);
    reader.get(history);
    reader.get(record->gone);
    reader.get(record->kept);
    reader.get(record->unfit);
    reader.get(record->checkpoint_step);
    reader.get(record->input_spent);
    reader.get(record->restarts);
    reader.get(record->began_ms);
    reader.get(record->exit_code);
    auto known = restart_history_from(history);
    if (!known)
        refuse_message("a record whose history cannot be read");
    record->history = std::move(*known);
    const std::size_t nodes = record->nodes.size();
    check(record->last, nodes);
    check(record->now, nodes);
    check(record->order, nodes);
    check(record->gone, nodes);
    check(record->kept, nodes);
    if (record->ranks_per_node.size() > nodes)
        refuse_message("a record of more ranks than nodes");
    return record;
}

template <class T>
constexpr bool kMustHaveRecord =
    std::is_same_v<T, succession::Propose> || std::is_same_v<T, succession::Begin>;

template <class T>
RecordPointer* record_of(T& what) {
    if constexpr (std::is_same_v<T, succession::Vote>)
        return &what.accepted.record;
    else if constexpr (kMustHaveRecord<T>)
        return &what.record;
    else
        return nullptr;
}

template <class T>
void get_message(FieldReader& reader, succession::Message& message) {
    T what;
    reader.get(what);
    if (RecordPointer* const record = record_of(what)) {
        bool there = false;
        reader.get(there);
        if (there)
            *record = get_record(reader);
        else if (kMustHaveRecord<T>)
            refuse_message("a record that is missing");
    }
    message.what = std::move(what);
}

// The numbers are the protocol: the alternatives of Message keep their places.
template <std::size_t Index = 0>
void get_kind(std::uint8_t kind, FieldReader& reader, succession::Message& message) {
    using What = decltype(message.what);
    if constexpr (Index == std::variant_size_v<What>) {
        refuse_message("kind " + std::to_string(kind) + " of succession does not exist");
    } else if (kind == Index + 1) {
        get_message<std::variant_alternative_t<Index, What>>(reader, message);
    } else {
        get_kind<Index + 1>(kind, reader, message);
    }
}

}  // namespace

std::string encode_succession(const succession::Message& message) {
    std::string bytes;
    FieldWriter writer(bytes);
    writer.put(static_cast<std::uint8_t>(message.what.index() + 1));
    writer.put(message.from);
    writer.put(message.to);
    std::visit(
        [&](auto what) {
            writer.put(what);
            if (const RecordPointer* const record = record_of(what)) {
                writer.put(*record != nullptr);
                if (*record)
                    put_record(writer, **record);
            }
        },
        message.what);
    return bytes;
}

succession::Message decode_succession(std::string_view bytes) {
    FieldReader reader(bytes);
    succession::Message message;
    std::uint8_t kind = 0;
    reader.get(kind);
    reader.get(message.from);
    reader.get(message.to);
    get_kind(kind, reader, message);
    if (reader.left() > 0)
        refuse_message(std::to_string(reader.left()) + " bytes after a word on succession");
    return message;
}

}  // namespace autolaunch::launcher
