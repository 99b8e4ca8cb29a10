#include "checkpoint/memory/memory_copies.hpp"

#include "base/affinity.hpp"
#include "base/hash.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/format/json.hpp"
#include "checkpoint/state_rules.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace autolaunch::memory {

namespace {

// A message on the wire; a copy is many of them.
constexpr std::size_t kMessageBytes = 256 << 20;

void send_all(Communicator& world, std::span<const std::byte> bytes, int peer) {
    for (std::size_t at = 0; at < bytes.size(); at += kMessageBytes)
        world.send(bytes.data() + at, std::min(kMessageBytes, bytes.size() - at), DataType::u8,
                   peer);
}

void receive_all(Communicator& world, std::span<std::byte> bytes, int peer) {
    for (std::size_t at = 0; at < bytes.size(); at += kMessageBytes)
        world.recv(bytes.data() + at, std::min(kMessageBytes, bytes.size() - at), DataType::u8,
                   peer);
}

// Beyond some threads memory is the limit. The CPUs that this rank may use are often those of its
// neighbours, too.
int helpful_threads(int local_ranks) {
    constexpr int kMost = 4;
    const auto cpus = affinity_of(0);
    return std::clamp((cpus ? static_cast<int>(cpus->size()) : 1) / std::max(1, local_ranks), 1,
                      kMost);
}

std::string text_of(const std::vector<Copy>& copies) {
    std::string text(copies.size() * sizeof(Copy), '\0');
    if (!copies.empty())
        std::memcpy(text.data(), copies.data(), text.size());
    return text;
}

std::vector<Copy> copies_of(const std::string& text) {
    std::vector<Copy> copies(text.size() / sizeof(Copy));
    if (!copies.empty())
        std::memcpy(copies.data(), text.data(), copies.size() * sizeof(Copy));
    return copies;
}

CheckpointInfo memory_checkpoint(std::int64_t step, std::string extra) {
    CheckpointInfo info;
    info.step = step;
    info.path = "memory";
    info.extra = std::move(extra);
    info.in_memory = true;
    return info;
}

}  // namespace

// What every rank says of its copy before it begins.
struct MemoryCopies::Statement {
    std::int64_t step = 0;
    std::int64_t sequence = 0;  // the next that it has not used
    std::uint64_t used_bytes = 0;
};

MemoryCopies::MemoryCopies(std::unique_ptr<SlotFiles> files, Communicator world,
                           CopyOptions options)
    : files_(std::move(files)), world_(std::move(world)), options_(std::move(options)) {}

// Once: who is on which node, and so who keeps whose second copy.
void MemoryCopies::meet() {
    if (keepers_)
        return;
    const bool keeps = options_.peers && files_->outlive_us();
    const std::int32_t mine = keeps ? options_.node_rank : -1;
    std::vector<std::int32_t> nodes(static_cast<std::size_t>(world_.size()));
    world_.all_gather(&mine, nodes.data(), 1, DataType::i32).wait();
    const bool all_keep =
        std::none_of(nodes.begin(), nodes.end(), [](int node) { return node < 0; });
    keepers_ = choose_keepers(all_keep ? nodes : std::vector<std::int32_t>(nodes.size(), 0));
}

std::string MemoryCopies::describe() {
    meet();
    if (!files_->outlive_us())
        return "in the ranks' own processes and end with them: no agent of autolaunch started them";
    if (keepers_->front() >= 0)
        return "by each node's agent, and a second time on the next node";
    return std::string("by the node's agent; none on another node: ") +
           (options_.peers ? "there is one node only" : "memory_peers is false");
}

std::vector<int> MemoryCopies::kept_shards() const {
    std::vector<int> kept;
    for (std::size_t shard = 0; shard < keepers_->size(); ++shard)
        if ((*keepers_)[shard] == world_.rank())
            kept.push_back(static_cast<int>(shard));
    return kept;
}

MemoryCopies::Entries& MemoryCopies::look(int shard) {
    const auto found = slots_.find(shard);
    if (found != slots_.end())
        return found->second;
    Entries entries;
    for (int slot = 0; slot < kSlots; ++slot) {
        const SlotFile there = files_->open(shard, slot, 0);
        if (there.file)
            entries[static_cast<std::size_t>(slot)].slot.emplace(there.file, there.bytes);
    }
    return slots_[shard] = std::move(entries);
}

SlotStates MemoryCopies::states(int shard) {
    SlotStates states;
    Entries& entries = look(shard);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const auto header = entries[i].slot ? entries[i].slot->header() : std::nullopt;
        if (header && header->shard == shard && header->world_size == world_.size())
            states[i] = header->name();
    }
    return states;
}

Slot* MemoryCopies::find(int shard, const SaveName& name) {
    const SlotStates there = states(shard);
    for (std::size_t i = 0; i < there.size(); ++i)
        if (there[i] == name)
            return &*slots_.at(shard)[i].slot;
    return nullptr;
}

Slot& MemoryCopies::slot_for_writing(int shard, std::uint64_t used_bytes) {
    const int index = slot_to_write(states(shard), complete_);
    Entry& entry = slots_.at(shard)[static_cast<std::size_t>(index)];
    if (!entry.ours || entry.slot->bytes() < used_bytes) {
        const SlotFile file = files_->open(shard, index, round_to_page(used_bytes));
        entry.slot.emplace(file.file, file.bytes);
        entry.ours = true;
    }
    return *entry.slot;
}

// Every rank has come here: so every rank has finished the save before, and its older slot may be
// written.
std::vector<MemoryCopies::Statement> MemoryCopies::exchange_statements(const Statement& mine) {
    std::vector<Statement> all(static_cast<std::size_t>(world_.size()));
    world_.all_gather(&mine, all.data(), sizeof mine, DataType::u8).wait();
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        if (all[rank].step != all[0].step)
            throw Error(ErrorCode::mismatch, "rank " + std::to_string(rank) + " saves step " +
                                                 std::to_string(all[rank].step) + ", rank 0 step " +
                                                 std::to_string(all[0].step));
    return all;
}

CheckpointInfo MemoryCopies::save(std::int64_t step, const fsdp::State& state,
                                  const SaveOptions& options) {
    const int rank = world_.rank();
    meet();
    CopyPieces pieces;
    CopyPlan plan;
    together(world_, [&] {
        if (step < 0)
            throw Error(ErrorCode::invalid_argument,
                        "step " + std::to_string(step) + " is negative");
        if (!nlohmann::json::accept(options.extra))
            throw Error(ErrorCode::invalid_argument, "SaveOptions::extra is not JSON text");
        require_valid(state);
        require_valid(options.opaque);
        pieces = plan_copy(state, options, rank, world_.size());
        plan = {{step, options_.generation, 0},
                rank,
                world_.size(),
                pieces.bytes,
                pieces.contents.encode()};
        for (const auto& there : states(rank))
            if (there && there->generation == options_.generation)
                plan.name.sequence = std::max(plan.name.sequence, there->sequence + 1);
    });
    const auto statements = exchange_statements({step, plan.name.sequence, plan.used_bytes()});
    for (const Statement& other : statements)
        plan.name.sequence = std::max(plan.name.sequence, other.sequence);

    Slot* own = nullptr;
    std::map<int, Slot*> kept;
    together(world_, [&] {
        for (const int shard : kept_shards()) {
            kept[shard] =
                &slot_for_writing(shard, statements[static_cast<std::size_t>(shard)].used_bytes);
            kept[shard]->begin_receiving();
        }
        own = &slot_for_writing(rank, plan.used_bytes());
        own->begin(plan);
        std::vector<Run> runs;
        for (std::size_t i = 0; i < pieces.memory.size(); ++i) {
            const SavedRun& run = pieces.contents.runs[i];
            runs.push_back(
                {pieces.memory[i], static_cast<std::uint64_t>(run.count) * size_of(run.type)});
        }
        own->copy(runs, options_.threads);
        own->finish();
    });
    if (const int keeper = (*keepers_)[static_cast<std::size_t>(rank)]; keeper >= 0) {
        world_.group_start();
        send_all(world_, own->sendable(plan.used_bytes()), keeper);
        for (const auto& [shard, slot] : kept)
            receive_all(world_,
                        slot->receivable(statements[static_cast<std::size_t>(shard)].used_bytes),
                        shard);
        world_.group_end().wait();
    }
    together(world_, [&] {
        for (const auto& [shard, slot] : kept) {
            if (!slot->check_received(plan.name, shard,
                                      statements[static_cast<std::size_t>(shard)].used_bytes))
                throw Error(ErrorCode::corrupt,
                            "the copy of rank " + std::to_string(shard) + " came here damaged");
            slot->commit();
        }
        own->commit();
    });
    complete_ = plan.name;
    choice_.reset();
    if (rank == 0 && options_.note && !std::exchange(told_, true))
        options_.note("copies of the state in memory are kept " + describe());
    return memory_checkpoint(step, broadcast_text(world_, options.extra, 0));
}

std::vector<Copy> MemoryCopies::gather_copies() {
    std::vector<Copy> mine;
    together(world_, [&] {
        std::vector<int> shards = kept_shards();
        shards.push_back(world_.rank());
        for (const int shard : shards)
            for (const auto& name : states(shard))
                if (name)
                    mine.push_back(
                        {*name, shard, world_.rank(), find(shard, *name)->header()->used_bytes});
    });
    std::vector<Copy> all;
    for (const std::string& theirs : gather_texts(world_, text_of(mine), 0)) {
        const auto copies = copies_of(theirs);
        all.insert(all.end(), copies.begin(), copies.end());
    }
    return all;
}

// Rank 0 alone has the copies; every rank gets what it chooses.
std::optional<Restore> MemoryCopies::choose(const std::vector<Copy>& copies, std::int64_t before) {
    std::optional<Restore> choice;
    if (world_.rank() == 0)
        choice = choose_restore(copies, world_.size(), before);
    auto chosen =
        copies_of(broadcast_text(world_, choice ? text_of(choice->copies) : std::string(), 0));
    if (chosen.empty())
        return std::nullopt;
    const SaveName name = chosen.front().name;
    return Restore{name, std::move(chosen)};
}

// By shard, on all ranks: 1 where the copy that was chosen is not what was saved.
std::vector<std::uint8_t> MemoryCopies::find_damaged(const Restore& choice) {
    std::vector<std::uint8_t> damaged(choice.copies.size());
    for (const Copy& copy : choice.copies) {
        if (copy.holder != world_.rank())
            continue;
        Slot* const slot = find(copy.shard, copy.name);
        const auto header = slot ? slot->header() : std::nullopt;
        const bool good = header && slot->verify_data(*header, options_.threads);
        if (slot != nullptr && !good)
            slot->discard();  // or it would be found beside the good one that is fetched
        damaged[static_cast<std::size_t>(copy.shard)] = good ? 0 : 1;
        if (!good && options_.note)
            options_.note("the copy in memory of rank " + std::to_string(copy.shard) +
                          "'s state of step " + std::to_string(copy.name.step) +
                          " is damaged and not used");
    }
    world_.all_reduce(std::span<std::uint8_t>(damaged), ReduceOp::max).wait();
    return damaged;
}

std::optional<CheckpointInfo> MemoryCopies::latest(std::int64_t before) {
    if (!options_.looks)
        return std::nullopt;
    meet();
    std::vector<Copy> copies = gather_copies();
    while ((choice_ = choose(copies, before))) {
        const auto damaged = find_damaged(*choice_);
        bool any = false;
        for (const Copy& copy : choice_->copies) {
            if (damaged[static_cast<std::size_t>(copy.shard)] == 0)
                continue;
            std::erase(copies, copy);
            any = true;
        }
        if (!any)
            break;
    }
    if (!choice_)
        return std::nullopt;
    const Copy& first = choice_->copies.front();
    std::string extra;
    if (first.holder == world_.rank()) {
        Slot* const slot = find(first.shard, first.name);
        extra = Contents::decode(slot->text(*slot->header())).extra;
    }
    return memory_checkpoint(choice_->name.step, broadcast_text(world_, extra, first.holder));
}

// Shards that are not on their rank's own node come from where they are, into a slot there; the
// next restart finds them.
void MemoryCopies::fetch_missing() {
    const int rank = world_.rank();
    complete_ = choice_->name;
    Slot* own = nullptr;
    const Copy mine = choice_->copies[static_cast<std::size_t>(rank)];
    std::vector<std::pair<int, Slot*>> wanted;
    bool any = false;
    together(world_, [&] {
        for (const Copy& copy : choice_->copies) {
            any = any || copy.holder != copy.shard;
            if (copy.holder != copy.shard && copy.holder == rank)
                wanted.emplace_back(copy.shard, find(copy.shard, copy.name));
        }
        if (mine.holder == rank)
            return;
        own = &slot_for_writing(rank, mine.used_bytes);
        own->begin_receiving();
    });
    if (!any)
        return;
    if (own != nullptr || !wanted.empty()) {
        world_.group_start();
        for (const auto& [shard, slot] : wanted)
            send_all(world_,
                     slot->sendable(choice_->copies[static_cast<std::size_t>(shard)].used_bytes),
                     shard);
        if (own != nullptr)
            receive_all(world_, own->receivable(mine.used_bytes), mine.holder);
        world_.group_end().wait();
    }
    together(world_, [&] {
        if (own == nullptr)
            return;
        if (!own->check_received(mine.name, rank, mine.used_bytes))
            throw Error(ErrorCode::corrupt,
                        "the copy of this rank's state came damaged from rank " +
                            std::to_string(mine.holder));
        own->commit();
        if (!own->verify_data(*own->header(), options_.threads))
            throw Error(ErrorCode::corrupt,
                        "the copy of this rank's state came damaged from rank " +
                            std::to_string(mine.holder));
    });
    for (Copy& copy : choice_->copies)
        copy.holder = copy.shard;
}

Contents MemoryCopies::own_contents(const Slot*& slot) {
    slot = find(world_.rank(), choice_->name);
    if (slot == nullptr)
        throw Error(ErrorCode::corrupt,
                    "the copy of this rank's state is gone since latest() found it");
    return Contents::decode(slot->text(*slot->header()));
}

std::vector<std::string> MemoryCopies::fill(const fsdp::State& state, const LoadOptions& options) {
    std::vector<std::int32_t> owners(state.size(), -1);
    std::vector<std::uint8_t> missing;
    together(world_, [&] {
        require_valid(state);
        const Slot* slot = nullptr;
        FillPlan plan = plan_fill(own_contents(slot), state);
        const auto data = slot->data(*slot->header());
        for (const auto& run : plan.runs) {
            if (run.position > data.size() || run.bytes > data.size() - run.position)
                throw Error(ErrorCode::corrupt, "a copy in memory names bytes that it has not");
            std::memcpy(run.to, data.data() + run.position, run.bytes);
        }
        for (std::size_t i = 0; i < state.size(); ++i)
            if (plan.owned[i] != 0)
                owners[i] = world_.rank();
        missing = std::move(plan.missing);
    });
    world_.all_reduce(std::span<std::int32_t>(owners), ReduceOp::max).wait();
    for (std::size_t i = 0; i < state.size(); ++i)
        if (state[i].replicated && owners[i] < 0)
            missing[i] = 1;
    world_.all_reduce(std::span<std::uint8_t>(missing), ReduceOp::max).wait();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < state.size(); ++i) {
        if (missing[i] != 0)
            names.push_back(state[i].name);
        if (owners[i] < 0)
            continue;
        const auto& piece = state[i].pieces.front();
        world_
            .broadcast(piece.data, static_cast<std::size_t>(piece.count), state[i].type, owners[i])
            .wait();
    }
    if (!names.empty() && !options.allow_missing)
        throw Error(ErrorCode::mismatch, "the copy in memory has no tensor named " + names.front());
    return names;
}

void MemoryCopies::require_found(const CheckpointInfo& checkpoint) const {
    if (!choice_ || choice_->name.step != checkpoint.step)
        throw Error(
            ErrorCode::invalid_argument,
            "latest() has not found a copy in memory of step " + std::to_string(checkpoint.step),
            "load what latest() returned, before the next save");
}

std::vector<std::string> MemoryCopies::load(const CheckpointInfo& checkpoint,
                                            const fsdp::State& state, const LoadOptions& options) {
    require_found(checkpoint);
    require_equal(world_, state.size(), "the ranks load states of different tensors");
    fetch_missing();
    return fill(state, options);
}

std::vector<std::string> MemoryCopies::load_opaque(const CheckpointInfo& checkpoint,
                                                   const std::string& name) {
    require_found(checkpoint);
    fetch_missing();
    // What every rank says: a mark, and its bytes.
    std::string mine = "-";
    together(world_, [&] {
        const Slot* slot = nullptr;
        const Contents contents = own_contents(slot);
        const auto own = contents.own_opaque.find(name), shared = contents.shared_opaque.find(name);
        if (own != contents.own_opaque.end())
            mine = "o" + own->second;
        if (shared != contents.shared_opaque.end())
            mine = "s" + shared->second;
    });
    std::vector<std::string> values;
    for (const std::string& theirs : exchange_texts(world_, mine))
        if (theirs.front() != '-')
            values.push_back(theirs.substr(1));
    return values;
}

// Checkpointers with different directories are different: their copies must not be taken for one
// another's.
std::unique_ptr<MemoryCopies> make_copies(const RankInfo& rank, const std::filesystem::path& socket,
                                          Communicator world, const CheckpointOptions& options,
                                          std::function<void(const std::string&)> note) {
    const std::string directory = options.directory.string();
    const std::string group = hex64(hash64(directory.data(), directory.size()));
    session::Hello hello;
    hello.rank = rank.rank;
    hello.local_rank = rank.local_rank;
    hello.generation = rank.generation;
    hello.pid = static_cast<int>(::getpid());
    auto files = socket.empty() ? make_process_slot_files(group)
                                : make_agent_slot_files(socket, hello, group);
    return std::make_unique<MemoryCopies>(
        std::move(files), std::move(world),
        CopyOptions{.generation = rank.generation,
                    .node_rank = rank.node_rank,
                    .looks = options.memory,
                    .peers = options.memory_peers,
                    .threads = helpful_threads(rank.local_world_size),
                    .note = std::move(note)});
}

}  // namespace autolaunch::memory
