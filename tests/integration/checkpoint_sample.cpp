// Saves a checkpoint whose content can be told from names alone, for tests of what others read.
//
//     checkpoint_sample RANKS DIRECTORY STEP [ADD]
//
// forks the ranks, which save a model cut by full_shard, its AdamW's moments, and tensors of other
// types cut anywhere, some of them frozen. Element i of the tensor named n is (7 i + ADD + the sum
// of n's bytes) mod 251: exact in every type here.
#include "../conformance/forked_ranks.hpp"
#include "checkpoint/checkpoint_engine.hpp"
#include "comm/self/self_backend.hpp"
#include "comm/shm/shm_backend.hpp"

#include <autolaunch/fsdp/adamw.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace autolaunch;
using namespace autolaunch::fsdp;

namespace {

std::int64_t g_add = 0;

std::int64_t value_of(const std::string& name, std::int64_t element) {
    std::int64_t sum = g_add;
    for (const char letter : name)
        sum += static_cast<unsigned char>(letter);
    return (7 * element + sum) % 251;
}

void store(DataType type, std::byte* to, std::int64_t value) {
    const auto put = [&](auto number) { std::memcpy(to, &number, sizeof number); };
    switch (type) {
        case DataType::f32:
            return put(static_cast<float>(value));
        case DataType::bf16:
            return put(bfloat16(static_cast<float>(value)));
        case DataType::f16:
            return put(float16(static_cast<float>(value)));
        case DataType::i64:
            return put(value);
        default:
            return put(static_cast<std::uint8_t>(value));
    }
}

/// A tensor of which each rank holds an equal run of elements, whatever its rows are.
struct RaggedTensor {
    RaggedTensor(std::string name, DataType type, std::vector<std::int64_t> shape,
                 Communicator& world)
        : tensor{std::move(name), type, std::move(shape), {}, false} {
        const std::int64_t elements = ParameterSpec{tensor.name, tensor.shape}.element_count();
        const std::int64_t begin = elements * world.rank() / world.size();
        const std::int64_t end = elements * (world.rank() + 1) / world.size();
        memory.resize(static_cast<std::size_t>(end - begin) * size_of(type));
        if (end > begin)
            tensor.pieces = {{begin, end - begin, memory.data()}};
    }
    std::vector<std::byte> memory;
    StateTensor tensor;
};

void save(Communicator& world, const std::filesystem::path& directory, std::int64_t step) {
    ShardedModel model(world, {.strategy = ShardingStrategy::full_shard, .precision = {}});
    model.add_unit("wte", {{"w", {64, 24}}});
    model.add_unit("h.0", {{"w", {31, 24}}, {"b", {31}}, {"scale", {}}, {"conv", {5, 7, 6, 4}}});
    model.finalize();
    AdamW optimizer(model, {.lr = 1e-2, .decays = {}});
    std::vector<RaggedTensor> others;
    others.emplace_back("bf16.cube", bf16, std::vector<std::int64_t>{5, 7, 6}, world);
    others.emplace_back("f16.plane", f16, std::vector<std::int64_t>{9, 5}, world);
    others.emplace_back("ids", i64, std::vector<std::int64_t>{41}, world);
    others.emplace_back("bytes", u8, std::vector<std::int64_t>{3, 50}, world);
    for (auto& other : others)
        other.tensor.frozen = other.tensor.type != bf16;
    State state = model.state();
    for (auto& tensor : optimizer.state())
        state.push_back(std::move(tensor));
    for (auto& other : others)
        state.push_back(other.tensor);
    for (auto& tensor : state)
        for (auto& piece : tensor.pieces)
            for (std::int64_t i = 0; i < piece.count; ++i)
                store(tensor.type, piece.data + static_cast<std::size_t>(i) * size_of(tensor.type),
                      value_of(tensor.name, piece.offset + i));
    CheckpointEngine(make_posix_storage(), world, {directory, 3}, {})
        .save(step, state, {"{\"epoch\":1}"});
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4)
        return std::fputs("usage: checkpoint_sample RANKS DIRECTORY STEP [ADD]\n", stderr), 2;
    if (argc > 4)
        g_add = std::atoll(argv[4]);
    const int ranks = std::atoi(argv[1]);
    conformance::Broadcast address(ranks - 1);
    const auto statuses = conformance::run_forked_ranks(ranks, [&](int rank) {
        const ShmRendezvous rendezvous{
            [&](const std::string& text) { address.publish(text); },
            [&](std::chrono::milliseconds limit) { return address.fetch(limit); }};
        Communicator world = ranks == 1 ? Communicator(std::make_shared<SelfBackend>())
                                        : Communicator(ShmBackend::create(
                                              rendezvous, rank, ranks, std::chrono::seconds(60)));
        save(world, argv[2], std::atoll(argv[3]));
    });
    for (const int status : statuses)
        if (status != 0)
            return 1;
    return 0;
}
