// A training step of examples/gpt under ShardedModel, on each rank of a job:
//   fsdp_step_perf CONFIG.json              does what it is told; bench/fsdp_step starts it and
//   tells it fsdp_step_perf CONFIG.json WEIGHTS      writes the weights that training starts from:
//   f32, unit by unit
//
// Every rank reads the same commands, a line each, from its standard input; rank 0 answers each
// with a line of JSON:
//   check NAME    makes the contestant and takes its first steps: losses and memory
//   step NAME     a step, the step's calls alone, and the step with calls that do nothing; for
//   contestants that are to
//                 be idle also the same schedule with computation that leaves the CPUs alone
//   rates         what a thread multiplies
#include "base/file_io.hpp"
#include "fma_peak.hpp"
#include "resident_memory.hpp"
#include "step_contestant.hpp"

#include <gpt/matmul.hpp>
#include <gpt/vector_kernels.hpp>

#include <malloc.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace autolaunch;
using autolaunch::bench::StepContestant;
using autolaunch::bench::StepWork;
using nlohmann::json;

StepWork work_of(const json& config) {
    StepWork work;
    const json& model = config.at("model");
    work.model = {model.at("layers"), model.at("heads"), model.at("width"), model.at("context")};
    work.sequences = config.at("sequences");
    work.threads = config.at("threads");
    work.seed = config.at("seed");
    work.lr = config.at("lr");
    work.max_grad_norm = config.at("max_grad_norm");
    const std::string tokens = read_file(config.at("tokens").get<std::string>());
    work.tokens.assign(tokens.begin(), tokens.end());
    if (static_cast<std::int64_t>(tokens.size()) <= work.model.context)
        throw std::invalid_argument("the tokens are fewer than a window's");
    return work;
}

void write_weights(const StepWork& work, const std::string& path) {
    std::ofstream file(path, std::ios::binary);
    for (const auto& unit : gpt::unit_shapes(work.model))
        for (const auto& tensor : unit.tensors) {
            std::vector<float> values(static_cast<std::size_t>(tensor.element_count()));
            gpt::initial_values(work.model, work.seed, unit.name + "." + tensor.name, 0, values);
            file.write(reinterpret_cast<const char*>(values.data()),
                       static_cast<std::streamsize>(values.size() * sizeof(float)));
        }
    if (!file.flush())
        throw std::runtime_error("cannot write " + path);
}

/// Operations a second of this thread in a product whose matrices do not fit the caches.
double matmul_rate() {
    constexpr std::int64_t kExtent = 1024;
    std::vector<float> a(kExtent * kExtent, 0.5f), b(a), c(a);
    double best = 0;
    for (int i = 0; i < 4; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        gpt::multiply_add<float>({a.data(), kExtent, kExtent}, {b.data(), kExtent, kExtent},
                                 {c.data(), kExtent, kExtent});
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        best = std::max(best, 2.0 * kExtent * kExtent * kExtent / seconds);
    }
    return best;
}

fsdp::ShardedModelOptions options_of(const json& run, const Communicator& world) {
    fsdp::ShardedModelOptions options;
    const auto strategy = fsdp::sharding_strategy_from(run.at("strategy").get<std::string>());
    if (!strategy)
        throw std::invalid_argument(run.at("strategy").dump() + " is no strategy");
    options.strategy = *strategy;
    options.deterministic = run.value("deterministic", false);
    if (run.contains("overlap"))
        options.overlap = run["overlap"].get<bool>();
    // Two groups, so that there are calls within a group and between them where the ranks suffice.
    if (*strategy == fsdp::ShardingStrategy::hybrid_shard)
        options.shard_group = std::max(1, world.size() / 2);
    return options;
}

class Bench {
public:
    Bench(Communicator& world, const json& config)
        : world_(world), config_(config), work_(work_of(config)), pool_(work_.threads) {}

    json obey(const std::string& command) {
        if (command == "rates")
            return rates();
        const auto space = command.find(' ');
        const std::string verb = command.substr(0, space),
                          name = space < command.size() ? command.substr(space + 1) : "";
        const auto& runs = config_.at("runs");
        const auto run = std::find_if(runs.begin(), runs.end(),
                                      [&](const json& each) { return each.at("name") == name; });
        if (run == runs.end() || (verb != "check" && verb != "step"))
            throw std::invalid_argument("what to do with: " + command);
        return verb == "check" ? check(*run) : step(*run);
    }

private:
    json check(const json& run) {
        ::malloc_trim(
            0);  // what the contestant before left in the heap would be counted as there already
        world_.barrier();
        const double before = resident_bytes();
        const std::string name = run.at("name");
        StepWork& work = works_[name] = work_;
        work.model.layers = run.value("layers", work.model.layers);
        auto& contestant = contestants_[name];
        contestant = std::make_unique<StepContestant>(world_, options_of(run, world_), work, pool_);
        json result;
        for (int i = 0; i < config_.at("checked"); ++i)
            result["losses"].push_back(contestant->train());
        world_.barrier();
        result["resident"] = world_.all_reduce_value(resident_bytes() - before) / world_.size();
        result["state_bytes"] = contestant->memory().total();
        return result;
    }

    json step(const json& run) {
        StepContestant& contestant = *contestants_.at(run.at("name").get<std::string>());
        const auto times = contestant.measure();
        json result = {{"step_s", times.step},
                       {"silent_s", times.silent},
                       {"gather_s", times.alone.gather_s},
                       {"reduce_s", times.alone.reduce_s},
                       {"first_gather_s", times.alone.first_gather_s},
                       {"last_reduce_s", times.alone.last_reduce_s}};
        if (!run.value("idle", false))
            return result;
        const auto idle = contestant.measure_idle();
        result["idle_s"] = idle.step;
        result["idle_silent_s"] = idle.silent;
        return result;
    }

    json rates() {
        world_.barrier();  // all ranks at once, as in the steps
        const double fma = bench::fma_peak(), matmul = matmul_rate();
        std::int64_t parameters = 0;
        for (const auto& unit : gpt::unit_shapes(work_.model))
            for (const auto& tensor : unit.tensors)
                parameters += tensor.element_count();
        return {{"parameters", parameters},
                {"backend", world_.backend()},
                {"instructions", gpt::vector_kernels<float>().instruction_set},
                {"fma_peak", world_.all_reduce_value(fma) / world_.size()},
                {"matmul", world_.all_reduce_value(matmul) / world_.size()}};
    }

    Communicator& world_;
    json config_;
    StepWork work_;
    gpt::ThreadPool pool_;
    std::map<std::string, StepWork> works_;  // by contestant, which refer to them
    std::map<std::string, std::unique_ptr<StepContestant>> contestants_;
};

void run(int argc, char** argv) {
    if (argc != 2 && argc != 3)
        throw std::invalid_argument("usage: fsdp_step_perf CONFIG.json [WEIGHTS]");
    const json config = json::parse(read_file(argv[1]));
    if (argc == 3)
        return write_weights(work_of(config), argv[2]);
    ::prctl(PR_SET_TIMERSLACK, 1UL);  // nanoseconds: idle computation ends when it should
    auto session = Session::from_environment();
    auto world = Communicator::world(session, {.backend = "cpu"});
    Bench bench(world, config);
    for (std::string command; std::getline(std::cin, command);) {
        const json answer = bench.obey(command);
        if (world.rank() != 0)
            continue;
        std::printf("%s\n", answer.dump().c_str());
        std::fflush(stdout);
    }
}

}  // namespace

int main(int argc, char** argv) {
    try {
        run(argc, argv);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fsdp_step_perf: %s\n", error.what());
        return 2;
    }
}
