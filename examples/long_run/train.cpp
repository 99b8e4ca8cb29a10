// What a run of days needs beside its loop: tied weights, random numbers that do not depend on the
// ranks, progress on the screen, checkpoints, and where the data goes on.
// docs/guides/long-runs.md goes through it.
//     long_run [steps] [folder for checkpoints] [file to learn]
//     long_run --memory
#include "network.hpp"

#include <autolaunch/autolaunch.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace long_run;
namespace al = autolaunch;
namespace fsdp = autolaunch::fsdp;

namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::int64_t kGlobalBatch = 48;  // rows of a step, of all ranks together

// [random]
// A random number of the run's seed and of what it is for: a parameter's element, or a row of the
// data. Not of the rank, and not of how many numbers were drawn before.
std::uint64_t random_of(std::uint64_t what, std::uint64_t which) {
    std::uint64_t bits = kSeed + what * 0x9e3779b97f4a7c15u + which * 0xbf58476d1ce4e5b9u;
    for (const std::uint64_t factor : {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu})
        bits = (bits ^ (bits >> 30)) * factor;  // splitmix64's steps
    return bits ^ (bits >> 31);
}
// [/random]

// [data]
al::data::TokenReader open_text(const std::string& path, const al::Communicator& world) {
    return al::data::TokenReader({.data = path,
                                  .format = al::data::Format::text,
                                  .length = kContext,
                                  .global_batch = kGlobalBatch,
                                  .rank = world.rank(),
                                  .world_size = world.size(),
                                  .order = al::data::Order::shuffled,
                                  .seed = kSeed});
}

// This rank's rows of the next global batch.
std::vector<Row> next_rows(al::data::TokenReader& text) {
    const auto character = [](std::int32_t byte) -> std::size_t {
        return byte > ' ' && byte <= '~' ? static_cast<std::size_t>(byte - ' ') : 0;
    };
    const auto batch = text.next();
    std::vector<Row> rows(static_cast<std::size_t>(batch->rows));
    for (std::size_t r = 0; r < rows.size(); ++r) {
        for (std::size_t i = 0; i < kContext; ++i)
            rows[r].context[i] = character(batch->inputs[r * kContext + i]);
        rows[r].target = character(batch->targets[r * kContext + kContext - 1]);
        // Augmentation: of a quarter of the rows a letter goes. By the row's number in the job.
        const std::uint64_t number = static_cast<std::uint64_t>(batch->first_row) + r;
        if (random_of(2, number) % 4 == 0)
            rows[r].context[random_of(3, number) % kContext] = 0;
    }
    return rows;
}
// [/data]

// [model]
fsdp::ShardedModel make_model(const al::Communicator& world,
                              const fsdp::ShardedModelOptions& options = {}) {
    fsdp::ShardedModel model(world, options);
    model.add_unit("embedding", {{"table", {kCharacters, kWidth}}});
    for (std::size_t layer = 0; layer < kLayers; ++layer)
        model.add_unit("h." + std::to_string(layer), {{"w", {kWidth, kWidth}}, {"b", {kWidth}}});
    model.finalize();
    return model;
}
// [/model]

void initialize(fsdp::ShardedModel& model) {
    model.initialize([](const std::string& name, std::span<const std::int64_t> shape,
                        std::int64_t first, std::span<float> values) {
        std::uint64_t of_name = 16;
        for (const char letter : name)
            of_name = of_name * 31 + static_cast<unsigned char>(letter);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::uint64_t bits = random_of(of_name, static_cast<std::uint64_t>(first) + i);
            const float in_unit = static_cast<float>(bits >> 40) / (1 << 24);  // [0, 1)
            values[i] = shape.size() < 2 ? 0 : 0.6f * (in_unit - 0.5f);
        }
    });
}

// [tied]
float forward_backward(fsdp::ShardedModel& model, const std::vector<Row>& rows, float weight) {
    fsdp::Unit& embedding = model.unit("embedding");
    const auto layer = [&](std::size_t i) -> fsdp::Unit& { return *model.units()[1 + i]; };
    Activations acts(rows.size());

    const auto tied = embedding.unshard();  // until the end: both of its uses look at it
    embed(tied["table"].data(), rows, acts);
    for (std::size_t i = 0; i < kLayers; ++i) {
        const auto params = layer(i).unshard();
        forward(params["w"].data(), params["b"].data(), i, acts);
    }
    const float loss =
        output(tied["table"].data(), embedding.grad("table").data(), weight, rows, acts);
    for (std::size_t i = kLayers; i-- > 0;) {
        const auto params = layer(i).unshard();
        backward(params["w"].data(), layer(i).grad("w").data(), layer(i).grad("b").data(), i, acts);
        layer(i).reduce_grads();
    }
    embed_backward(embedding.grad("table").data(), rows, acts);  // adds to what output() left
    embedding.reduce_grads();                                    // once, when both have added
    return loss;
}
// [/tied]

// [memory]
void show_memory(const al::Communicator& world) {
    for (const std::int64_t merge_below : {fsdp::ShardedModelOptions{}.merge_below, 0L}) {
        fsdp::ShardedModelOptions options;
        options.merge_below = merge_below;
        fsdp::ShardedModel model = make_model(world, options);
        for (const auto& unit : model.units()) {  // gradients' memory comes with the first of them
            (void)unit->grad(unit->parameters()[0].name);
            unit->reduce_grads();
        }
        const fsdp::ModelMemory memory = model.memory();
        if (world.rank() == 0)
            std::printf(
                "merge_below %lld: parameters %zu, gradients %zu, gathered %zu, whole "
                "gradients %zu, in all %zu bytes\n",
                static_cast<long long>(merge_below), memory.parameters, memory.gradients,
                memory.gathered, memory.whole_gradients, memory.total());
    }
}
// [/memory]

// [run]
int train(std::int64_t steps, const char* folder, const char* file) {
    auto session = al::Session::from_environment();
    auto world = al::Communicator::world(session, {.backend = "cpu"});
    fsdp::ShardedModel model = make_model(world);
    initialize(model);
    fsdp::AdamW optimizer(model, {.lr = 0.01});
    al::Checkpointer checkpoint(session, world,
                                {.directory = folder, .schedule = {.every_steps = 20}});

    std::int64_t step = 0;
    auto text = open_text(file, world);
    if (const auto found = checkpoint.load_latest(model, optimizer)) {
        step = found->step;
        text.restore(checkpoint.load_opaque(*found, "text").at(0));
        if (world.rank() == 0)
            std::printf("goes on after step %lld\n", static_cast<long long>(step));
    }

    const al::BatchShare share = al::share_batch(kGlobalBatch, 0, world.rank(), world.size());
    while (step < steps) {
        const auto begin = std::chrono::steady_clock::now();
        const float of_rank =
            forward_backward(model, next_rows(text), static_cast<float>(share.weight));
        optimizer.step({.max_grad_norm = 1.0});
        ++step;

        const double loss = world.all_reduce_value(static_cast<double>(of_rank)) / kGlobalBatch;
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        session.report_step({.step = step,
                             .total_steps = steps,
                             .loss = loss,
                             .tokens = kGlobalBatch,
                             .seconds = took.count()});
        if (world.rank() == 0)
            std::printf("step %lld loss %.6f\n", static_cast<long long>(step), loss);

        if (const auto save = checkpoint.should_save(step)) {
            checkpoint.save(step, model, optimizer,
                            {.opaque = {{.name = "text", .bytes = text.state()}}});
            if (save.stop())
                return 0;
        }
    }
    return 0;
}
// [/run]

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string_view(argv[1]) == "--memory") {
        auto session = al::Session::from_environment();
        show_memory(al::Communicator::world(session, {.backend = "cpu"}));
        return 0;
    }
    return train(argc > 1 ? std::atoll(argv[1]) : 60, argc > 2 ? argv[2] : "checkpoints",
                 argc > 3 ? argv[3] : "/usr/share/common-licenses/Apache-2.0");
}
