// Checkpoints of models on (fake) GPUs: saved while training goes on, loaded, and against the same
// training on the CPU.
#include "checkpoint/checkpoint_engine.hpp"
#include "fsdp_gpu_ranks.hpp"

#include <autolaunch/fsdp/adamw.hpp>

#include <optional>

namespace fsdp_gpu_checkpoint_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;

namespace {

constexpr std::int64_t kSteps = 5;
using Values =
    std::vector<std::vector<float>>;  // by step: parameters, as the steps before left them

ShardedModelOptions options_of(DataType param) {
    ShardedModelOptions options = unmerged();
    options.precision.param = param;
    return options;
}

/// A model, its optimizer, and its checkpoints.
struct Job {
    Job(Communicator& world, const ShardedModelOptions& options,
        const std::filesystem::path& directory, const Computation& where)
        : tiny(world, options, where),
          optimizer(tiny.model, {.lr = 1e-2, .weight_decay = 0.1}),
          engine(make_posix_storage(), world, {directory, static_cast<int>(kSteps) + 1}, {}) {}

    bool is_rounded() { return tiny.model.options().precision.param == bf16; }
    void step(std::int64_t number) {
        const auto batch = static_cast<std::size_t>(number);
        is_rounded() ? tiny.backward<bfloat16>(batch, 4) : tiny.backward(batch, 4);
        StepOptions how{
            .max_grad_norm = 0.5, .on_nonfinite = NonFinite::apply, .measure_norm = false};
        how.micro_batches =
            12 / tiny.model.world().size();  // the same average on any number of ranks
        optimizer.step(how, tiny.computation.stream);
    }
    State state() { return joined(tiny.model.state(), optimizer.state()); }
    State state_to_save() { return joined(tiny.model.state_to_save(), optimizer.state_to_save()); }
    void load(std::int64_t step) {
        const auto found = engine.latest(step + 1);
        expect(found && found->step == step, "the step is there");
        engine.load(*found, state());
        tiny.model.refresh_parameters();
        optimizer.set_step_count(step);
    }
    std::vector<float> parameters() {
        std::vector<float> values(TinyModel::kParameters);
        is_rounded() ? tiny.copy_parameters<bfloat16>(values.data())
                     : tiny.copy_parameters(values.data());
        return values;
    }

    TinyModel tiny;
    AdamW optimizer;
    CheckpointEngine engine;
};

/// Parameters after 0, 1, … steps of one CPU; the gradients' sums are exact in any order.
Values parameters_on_one_cpu(const ShardedModelOptions& options) {
    const TemporaryDirectory scratch;
    Shared<float> all((kSteps + 1) * TinyModel::kParameters);
    on_ranks(1, [&](Communicator& world) {
        Job job(world, options, scratch.path(), {});
        for (std::int64_t step = 0; step <= kSteps; ++step) {
            if (step > 0)
                job.step(step);
            const auto values = job.parameters();
            std::copy(values.begin(), values.end(), all.data() + step * std::ssize(values));
        }
    });
    Values values;
    for (std::int64_t step = 0; step <= kSteps; ++step) {
        const float* begin = all.data() + step * static_cast<std::int64_t>(TinyModel::kParameters);
        values.emplace_back(begin, begin + TinyModel::kParameters);
    }
    return values;
}

/// Every checkpoint is what one CPU had after that many steps, and training goes on from it as if
/// it had not stopped.
void check_checkpoints(Communicator& world, const ShardedModelOptions& options,
                       const std::filesystem::path& directory, const Computation& where,
                       const Values& expected) {
    for (std::int64_t saved = 1; saved < kSteps; ++saved) {
        Job job(world, options, directory, where);
        job.load(saved);
        const std::string name = "checkpoint " + std::to_string(saved);
        expect(same_bits(job.parameters(), expected[static_cast<std::size_t>(saved)]),
               name + " is of its step");
        for (std::int64_t step = saved + 1; step <= kSteps; ++step)
            job.step(step);
        expect(same_bits(job.parameters(), expected.back()), "training goes on from " + name);
    }
}

enum class Waiting { until_copied, not_at_all };

void train_and_save(Communicator& world, Trainee& trainee, const ShardedModelOptions& options,
                    const std::filesystem::path& directory, Waiting waiting) {
    Job job(world, options, directory, trainee.computation());
    for (std::int64_t step = 1; step <= kSteps; ++step) {
        if (waiting == Waiting::until_copied)
            job.engine.wait_copied();
        job.step(step);
        if (step == kSteps)
            break;
        job.engine.finish();  // the copies of the save before are read no longer
        job.engine.save_async(step, job.state_to_save(), {});
    }
    job.engine.finish();
}

}  // namespace

// A copy that does not wait for the optimizer, a writer that does not wait for the copy, and a step
// that does not wait for the one before: each saves a mixture of steps, which the delays make sure
// of.
TEST_CASE("a save beside training holds its step, whenever streams get to their work") {
    for (const DataType param : {f32, bf16}) {
        const ShardedModelOptions options = options_of(param);
        const Values expected = parameters_on_one_cpu(options);
        CHECK(expected[0] != expected[1]);
        for (const Waiting waiting : {Waiting::until_copied, Waiting::not_at_all}) {
            for (const int copy_us : {0, 30'000}) {
                CAPTURE(copy_us);
                const TemporaryDirectory directory;
                on_gpus(2, [&](Communicator& world, Trainee& trainee) {
                    trainee.control().jitter_us = copy_us > 0 ? 100 : 1000;
                    trainee.control().copy_out_us = copy_us;
                    train_and_save(world, trainee, options, directory.path(), waiting);
                });
                on_gpus(2, [&](Communicator& world, Trainee& trainee) {
                    trainee.control().jitter_us = 300;
                    check_checkpoints(world, options, directory.path(), trainee.computation(),
                                      expected);
                });
                if (copy_us > 0)
                    continue;
                on_ranks(3, [&](Communicator& world) {  // on other ranks, and of CPUs
                    check_checkpoints(world, options, directory.path(), {}, expected);
                });
            }
        }
    }
}

TEST_CASE("beginning to save does not wait for the GPU") {
    on_gpus(1, [](Communicator& world, Trainee& trainee) {
        const TemporaryDirectory directory;
        Job job(world, unmerged(), directory.path(), trainee.computation());
        job.state();  // takes the memory
        job.step(1);
        std::atomic<bool> go{false};
        trainee.run([&] { go.wait(false); });
        job.step(2);
        const State state = job.state_to_save();
        expect(state.front().arrival != nullptr, "the state is on its way");
        job.step(3);
        go = true;
        go.notify_all();
        for (const StateTensor& tensor : state)
            if (tensor.arrival)
                tensor.arrival->wait();
        trainee.synchronize();
    });
}

TEST_CASE(
    "a save that is not asynchronous, and one of a model that goes on at once, are whole, too") {
    const ShardedModelOptions options = options_of(bf16);
    const Values expected = parameters_on_one_cpu(options);
    const TemporaryDirectory directory;
    on_gpus(2, [&](Communicator& world, Trainee& trainee) {
        trainee.control().jitter_us = 500;
        Job job(world, options, directory.path(), trainee.computation());
        for (std::int64_t step = 1; step <= kSteps; ++step) {
            job.step(step);
            if (step < kSteps)
                job.engine.save(step, step % 2 == 0 ? job.state_to_save() : job.state(), {});
        }
        expect(same_bits(job.parameters(), expected.back()), "saving changes nothing");
        check_checkpoints(world, options, directory.path(), trainee.computation(), expected);
    });
}

}  // namespace fsdp_gpu_checkpoint_test
