// Where the time of GPUs goes, on a fake NVML alone: a management library without a GPU plays two
// hours of eight GPUs whose use, heat and clocks are known second by second. What the sampler's
// reader makes of it goes through the samples' own text to the attribution, and 95 of 100 seconds
// have to be where they were.

#include "idle/attribute.hpp"
#include "idle/receipt.hpp"
#include "readings/gpu_reader.hpp"
#include "readings/node_reading.hpp"
#include "readings/sample_file.hpp"

#include "../write_file.hpp"
#include "processes.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace idle_fake_nvml_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::TemporaryFolder;

namespace {

constexpr int kGpus = 8, kSeconds = 7'200, kInterval = 10;
constexpr int kLaunch = 30, kFirstStep = 120, kFailure = 4'000, kGoesOn = 4'090, kLastStep = 7'100;
constexpr int kSavedAt = 3'750, kEndOfRankFive = 6'000, kProcessOfSeven = 2'000;
constexpr int kStallEvery = 300, kStall = 20;
constexpr double kUsualMegahertz = 1980;
constexpr unsigned kSoftwareThermal = 0x20;

JobTime at(int second) { return JobTime(std::chrono::seconds(1'800'000'000 + second)); }

std::string bdf(int gpu) { return fmt::format("0000:{:02x}:00.0", 16 + gpu); }

/// What a GPU does in a second.
struct Second {
    double busy = 1, megahertz = kUsualMegahertz;
    unsigned slowed = 0;
    int celsius = 62, processes = 1;
    double input = 0;  ///< share that its rank reports
    double wait = 0;   ///< share of collectives that its recorder shows
    GpuUseSeconds truth = {};
};

bool takes_steps(int t) {
    return (t >= kFirstStep && t < kFailure) || (t >= kGoesOn && t < kLastStep);
}
bool is_stall(int t) { return takes_steps(t) && t % kStallEvery < kStall && t >= kStallEvery; }

/// The machine and the job of one seed.
class Machine {
public:
    explicit Machine(unsigned seed) : random_(seed) {
        for (int t = 0; t < kSeconds; t += 200) {
            inputs_.push_back(share(0.1, 0.6));
            loads_.push_back(share(0.3, 0.7));
        }
        hot_from_ = std::uniform_int_distribution<int>(500, 2'000)(random_);
    }

    Second second(int gpu, int t) const {
        Second now;
        if (gpu == 6)
            return without_process();
        if (!takes_steps(t)) {
            now.busy = t < kFirstStep ? 0.1 : 0;
            now.truth.of(outside_steps(t)) = 1;
            return now;
        }
        if (gpu == 5 && t >= kEndOfRankFive)
            return ended();
        if (is_stall(t)) {
            now.busy = 0;
            now.truth.of(GpuUse::checkpoint) = 1;
            return now;
        }
        now = in_step(gpu, t);
        if (t >= kSavedAt && t < kFailure) {  // what a GPU does in vain is lost, idle or not
            now.truth = {};
            now.truth.of(GpuUse::lost_work) = 1;
        }
        return now;
    }

    double wait_of(int rank, int t) const {
        const double input = inputs_[static_cast<std::size_t>(t / 200)];
        return rank == 2 || rank == 3 ? 0.08 + input : 0.08;
    }

private:
    double share(double from, double to) {
        return std::uniform_real_distribution<double>(from, to)(random_);
    }
    static GpuUse outside_steps(int t) {
        if (t < kFirstStep || (t >= kGoesOn - 30 && t < kGoesOn))
            return GpuUse::start;
        return t < kGoesOn ? GpuUse::recovery : GpuUse::ended;
    }
    static Second without_process() {
        Second now{.busy = 0, .megahertz = 210, .celsius = 30, .processes = 0};
        now.truth.of(GpuUse::nobody) = 1;
        return now;
    }
    static Second ended() {
        Second now{.busy = 0, .megahertz = 210, .celsius = 40, .processes = 0};
        now.truth.of(GpuUse::ended) = 1;
        return now;
    }
    Second in_step(int gpu, int t) const;
    Second hot(int t) const;
    static double busy_in_steps(int t, double input);

    std::mt19937 random_;
    std::vector<double> inputs_, loads_;
    int hot_from_ = 0;
};

Second Machine::in_step(int gpu, int t) const {
    const double input = inputs_[static_cast<std::size_t>(t / 200)];
    Second now;
    switch (gpu) {
        case 1:  // its loader is slow, at the beginning of each step: many seconds are all idle
            now.input = input;
            now.busy = busy_in_steps(t, input);
            now.truth.of(GpuUse::input) = 1 - now.busy;
            break;
        case 2:  // it waits for rank 1 and idles meanwhile, as with gloo
            now.busy = 1 - input;
            now.truth.of(GpuUse::peer) = input;
            break;
        case 3:  // the same with NCCL, whose kernels run while they wait
            now.truth.of(GpuUse::peer) = input;
            now.truth.of(GpuUse::used) = 1 - input;
            return now;
        case 4:
            return hot(t);
        case 7:
            if (t < kProcessOfSeven)
                return without_process();
            now.busy = loads_[static_cast<std::size_t>(t / 200)];
            now.truth.of(GpuUse::unexplained) = 1 - now.busy;
            break;
        default:
            break;
    }
    now.truth.of(GpuUse::used) = now.busy;
    return now;
}

// Of a second of steps that take 7.3 s each and begin with a wait.
double Machine::busy_in_steps(int t, double input) {
    constexpr double kStep = 7.3;
    constexpr int kParts = 20;
    int busy = 0;
    for (int part = 0; part < kParts; ++part)
        busy += std::fmod(t + static_cast<double>(part) / kParts, kStep) >= input * kStep ? 1 : 0;
    return static_cast<double>(busy) / kParts;
}

// Half an hour of a failing fan: the heat climbs, the clock falls by up to a third, and comes back.
Second Machine::hot(int t) const {
    constexpr int kLong = 1'800;
    Second now;
    const double through = static_cast<double>(t - hot_from_) / kLong;
    if (through > 0 && through < 1) {
        const double curve = std::sin(through * 3.14159265);
        now.celsius = static_cast<int>(70 + 24 * curve);
        if (now.celsius >= 84) {
            now.slowed = kSoftwareThermal;
            now.megahertz = std::floor(kUsualMegahertz * (1 - (curve - 0.5) * 0.66));
        }
    }
    const double lost = 1 - now.megahertz / kUsualMegahertz;
    now.truth.of(GpuUse::throttled) = lost;
    now.truth.of(GpuUse::used) = 1 - lost;
    return now;
}

/// As fake_nvml.c reads it: a line where something changes.
std::string script_of(const Machine& machine) {
    std::string text = "driver 570.86.15\n";
    for (int gpu = 0; gpu < kGpus; ++gpu) {
        text +=
            fmt::format("gpu {} GPU-{} NVIDIA H100 80GB HBM3\nmemory 85520809984\n", bdf(gpu), gpu);
        std::array<std::string, 5> before;
        for (int t = 0; t < kSeconds; ++t) {
            const Second now = machine.second(gpu, t);
            const std::array<std::string, 5> facts = {
                fmt::format("use {} 10 1000000000", std::lround(now.busy * 100)),
                fmt::format("heat {0} 0 {0} 60", now.celsius), fmt::format("clocks {}", now.slowed),
                fmt::format("speed {:.0f} 2619", now.megahertz),
                now.processes > 0 ? "process 4711 1000000000" : "no_process"};
            for (std::size_t fact = 0; fact < facts.size(); ++fact)
                if (std::exchange(before[fact], facts[fact]) != facts[fact])
                    text += fmt::format("at {} {}\n", t, facts[fact]);
        }
    }
    return text;
}

/// What the sampler would have written.
std::string samples_of(const Machine& machine, const std::string& script) {
    const TemporaryFolder folder;
    write_file(folder.path() / "machine", script);
    ::setenv("FAKE_NVML_MACHINE", (folder.path() / "machine").c_str(), 1);
    std::vector<WatchedGpu> gpus;
    for (int gpu = 0; gpu < kGpus; ++gpu)
        gpus.push_back({bdf(gpu), "nvidia", "", "NVIDIA H100 80GB HBM3"});
    GpuReader reader(gpus, {.library = FAKE_NVML});
    void* const library = ::dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != nullptr);
    const auto set_time =
        reinterpret_cast<void (*)(double)>(::dlsym(library, "fake_nvml_set_time"));
    REQUIRE(static_cast<bool>(set_time));
    SampleHeader header{.node = "node1", .run_id = "1", .interval_seconds = kInterval};
    for (const WatchedGpu& gpu : gpus)
        header.gpus.push_back({gpu.bdf, "", gpu.model});
    std::string text = to_json_line(header);
    for (int t = kLaunch + 7; t < kSeconds; t += kInterval) {
        set_time(t);
        NodeReading reading{.time_ms = at(t).time_since_epoch().count(), .boot_ms = t * 1'000};
        reading.gpus = reader.read().gpus;
        REQUIRE(reading.gpus.size() == kGpus);
        AgentFacts facts;
        for (int rank = 0; rank < kGpus; ++rank) {
            if (rank == 6 || (rank == 5 && t >= kEndOfRankFive))
                continue;
            RankFacts fact{.rank = rank, .pid = 4'711, .gpu = bdf(rank)};
            fact.input_ratio = machine.second(rank, t).input;
            facts.ranks.push_back(fact);
        }
        text += to_json_line(make_sample(nullptr, reading, facts));
    }
    set_time(-1);
    ::dlclose(library);
    return text;
}

JobCourse course_of(const Machine& machine) {
    JobCourse course;
    course.spans = {{LedgerKind::launch, at(0), at(kLaunch), 0},
                    {LedgerKind::initialisation, at(kLaunch), at(kFirstStep), 0},
                    {LedgerKind::steps, at(kFirstStep), at(kSavedAt), 0},
                    {LedgerKind::lost_work, at(kSavedAt), at(kFailure), 0},
                    {LedgerKind::recovery, at(kFailure), at(kGoesOn - 30), 0},
                    {LedgerKind::initialisation, at(kGoesOn - 30), at(kGoesOn), 1},
                    {LedgerKind::steps, at(kGoesOn), at(kLastStep), 1},
                    {LedgerKind::idle, at(kLastStep), at(kSeconds), 1}};
    for (int t = kStallEvery; t < kLastStep; t += kStallEvery)
        if (is_stall(t) && is_stall(t + kStall - 1))
            course.add_stall(at(t + kStall + 40), kStall, kStall + 40);  // published later
    for (int t = 60; t < kLastStep; t += 60) {
        if (!takes_steps(t) || !takes_steps(t - 60))
            continue;
        std::vector<double> shares;
        for (int rank = 0; rank < 4; ++rank)
            shares.push_back(machine.wait_of(rank, t - 30));
        course.add_waits(at(t), at(t - 60), {0, 1, 2, 3}, shares);
    }
    course.ends.push_back({5, 1, at(kEndOfRankFive)});
    return course;
}

GpuUseSeconds truth_of(const Machine& machine, int gpu) {
    GpuUseSeconds truth;
    for (int t = 0; t < kSeconds; ++t)
        truth.add(machine.second(gpu, t).truth);
    return truth;
}

}  // namespace

TEST_CASE(
    "on a fake NVML with known heat and known causes, 95 of 100 seconds are where they were") {
    for (unsigned seed = 1; seed <= 3; ++seed) {
        const Machine machine(seed);
        NodeTrace trace = trace_of(parse_samples(samples_of(machine, script_of(machine))));
        REQUIRE(trace.gpus.size() == kGpus);
        JobGpuTime job{.gpus = attribute(course_of(machine), trace)};
        double wrong = 0, held = 0;
        for (int gpu = 0; gpu < kGpus; ++gpu) {
            const GpuUseSeconds truth = truth_of(machine, gpu);
            const GpuTime& told = job.gpus[static_cast<std::size_t>(gpu)];
            CAPTURE(seed);
            CAPTURE(gpu);
            CHECK(told.time.held() == doctest::Approx(kSeconds));
            double of_gpu = 0;
            for (std::size_t use = 0; use < kGpuUses; ++use)
                of_gpu += std::fabs(told.time.seconds.at(use) - truth.seconds.at(use)) / 2;
            CHECK(of_gpu <= 0.05 * kSeconds);
            wrong += of_gpu;
            held += kSeconds;
        }
        CHECK(wrong <= 0.05 * held);
        MESSAGE(fmt::format("seed {}: {:.2f}% right", seed, 100 * (1 - wrong / held)));
        CHECK(job.gpus[2].waited_for.size() == 1);
        CHECK(job.gpus[3].waited_for.begin()->first < 2);
        CHECK(job.gpus[4].throttled_by.count("thermal") == 1);
        CHECK(job.busy() == 7);
        const auto lines = receipt_of(job).lines();
        REQUIRE(lines.size() == 3);
        CHECK(lines[0].starts_with("gpus: asked 8 GPUs for 2 h"));
    }
}

}  // namespace idle_fake_nvml_test
