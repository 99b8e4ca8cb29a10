// What a GPT's parameters, gradients and AdamW take on each rank, beside what plan_memory() says,
// under every strategy:
//     autolaunch --nproc-per-node 2 -- bench_fsdp_memory [layers hidden vocabulary]
// "allocated" is the engine's and the optimizer's own account; "resident" is what the kernel counts
// (Pss of /proc/self/smaps_rollup, shared pages in equal parts), averaged over the ranks.
#include "resident_memory.hpp"

#include <autolaunch/autolaunch.hpp>

#include <fmt/format.h>
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace al = autolaunch;
namespace fsdp = autolaunch::fsdp;

namespace {

using Units = std::vector<std::vector<fsdp::ParameterSpec>>;

Units gpt_units(std::int64_t layers, std::int64_t hidden, std::int64_t vocabulary) {
    Units units = {{{"wte", {vocabulary, hidden}}}};
    for (std::int64_t i = 0; i < layers; ++i)
        units.push_back({{"ln1", {hidden}},
                         {"attn.w", {hidden, 3 * hidden}},
                         {"attn.b", {3 * hidden}},
                         {"proj.w", {hidden, hidden}},
                         {"ln2", {hidden}},
                         {"mlp.w", {hidden, 4 * hidden}},
                         {"mlp.b", {4 * hidden}},
                         {"out.w", {4 * hidden, hidden}}});
    return units;
}

void train_step(fsdp::ShardedModel& model, fsdp::AdamW& optimizer) {
    for (const auto& unit : model.units())
        (void)unit->unshard();
    for (std::size_t i = model.units().size(); i-- > 0;) {
        auto parameters = model.units()[i]->unshard();
        model.units()[i]->grad(model.units()[i]->parameters().front().name);
        model.units()[i]->reduce_grads();
    }
    optimizer.step();
}

struct Measured {
    double allocated = 0, resident = 0;
};

Measured measure(al::Communicator& world, const Units& units,
                 const fsdp::ShardedModelOptions& options) {
    world.barrier();
    ::malloc_trim(0);  // what the model before left in the heap would be counted as there already
    const double before = resident_bytes();
    fsdp::ShardedModel model(world, options);
    for (std::size_t i = 0; i < units.size(); ++i)
        model.add_unit("u" + std::to_string(i), units[i]);
    model.finalize();
    fsdp::AdamW optimizer(model);
    for (int step = 0; step < 2; ++step)
        train_step(model, optimizer);
    Measured measured;
    measured.allocated = static_cast<double>(model.memory().total());
    world.barrier();
    measured.resident = world.all_reduce_value(resident_bytes() - before) / world.size();
    world.barrier();
    return measured;
}

}  // namespace

int main(int argc, char** argv) {
    const auto number = [&](int index, std::int64_t fallback) {
        return argc > index ? std::strtoll(argv[index], nullptr, 10) : fallback;
    };
    auto session = al::Session::from_environment();
    auto world = al::Communicator::world(session);
    const Units units = gpt_units(number(1, 8), number(2, 512), number(3, 16384));
    constexpr double kMi = 1 << 20;
    if (world.rank() == 0)
        fmt::print("{:<16} {:<6} {:>12} {:>12} {:>8} {:>12} {:>8}\n", "strategy", "param",
                   "planned MiB", "allocated", "diff", "resident", "diff");
    for (const auto strategy :
         {fsdp::ShardingStrategy::full_shard, fsdp::ShardingStrategy::shard_grad_op,
          fsdp::ShardingStrategy::shard_optimizer, fsdp::ShardingStrategy::no_shard})
        for (const auto type : {al::f32, al::bf16}) {
            fsdp::ShardedModelOptions options;
            options.strategy = strategy;
            options.precision.param = options.precision.reduce = type;
            fsdp::MemoryPlanOptions planned;
            planned.strategy = strategy;
            planned.precision = options.precision;
            planned.ranks = world.size();
            const auto said = static_cast<double>(fsdp::plan_memory(units, planned).total());
            const Measured found = measure(world, units, options);
            if (world.rank() == 0)
                fmt::print("{:<16} {:<6} {:>12.1f} {:>12.1f} {:>+7.2f}% {:>12.1f} {:>+7.2f}%\n",
                           fsdp::name_of(strategy), al::name_of(type), said / kMi,
                           found.allocated / kMi, (found.allocated / said - 1) * 100,
                           found.resident / kMi, (found.resident / said - 1) * 100);
        }
}
