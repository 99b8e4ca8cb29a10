// Where the time of GPUs goes: rules, sums and words.

#include "idle/attribute.hpp"
#include "idle/receipt.hpp"
#include "stopping/job_comment.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <random>
#include <string>
#include <vector>

namespace gpu_time_test {

using namespace autolaunch::launcher;
using nlohmann::json;

namespace {

JobTime at(int second) { return JobTime(std::chrono::seconds(1'800'000'000 + second)); }

GpuMoment moment(int second, float busy, int rank = 0) {
    GpuMoment one{.at = at(second), .busy = busy};
    one.rank = rank;
    one.processes = 1;
    return one;
}

GpuTrace trace(std::vector<GpuMoment> moments, std::vector<int> ranks = {0}) {
    return {.bdf = "0000:17:00.0",
            .model = "H100",
            .ranks = std::move(ranks),
            .moments = std::move(moments)};
}

std::vector<GpuMoment> every_ten_seconds(int from, int to, const GpuMoment& like) {
    std::vector<GpuMoment> moments;
    for (int second = from; second < to; second += 10) {
        moments.push_back(like);
        moments.back().at = at(second);
    }
    return moments;
}

JobCourse steps(int from, int to) {
    JobCourse course;
    course.spans = {{LedgerKind::steps, at(from), at(to), 0}};
    return course;
}

GpuTime cut(const JobCourse& course, const GpuTrace& gpu) {
    return attribute(course, {.node = "node1", .gpus = {gpu}}).at(0);
}

GpuTime with(GpuUse use, double share, int rank, const std::string& bdf) {
    GpuTime gpu{.node = "node1", .bdf = bdf};
    if (rank >= 0)
        gpu.ranks = {rank};
    gpu.time.of(use) = 3600 * share;
    gpu.time.of(GpuUse::used) += 3600 * (1 - share);
    return gpu;
}

}  // namespace

TEST_CASE("a sample stands for the time about it, and for no more") {
    // 100 s of steps, one sample at 50 s: it reaches 15 s either way.
    const GpuTime gpu = cut(steps(0, 100), trace({moment(50, 0.5F)}));
    CHECK(gpu.time.of(GpuUse::used) == doctest::Approx(15));
    CHECK(gpu.time.of(GpuUse::unexplained) == doctest::Approx(15));
    CHECK(gpu.time.of(GpuUse::unmeasured) == doctest::Approx(70));
    const GpuTime none = cut(steps(0, 100), trace({}));
    CHECK(none.time.of(GpuUse::unmeasured) == doctest::Approx(100));
    CHECK_FALSE(none.is_measured());
}

TEST_CASE("what was seen idle is input's as far as the rank has waited for it, and no further") {
    GpuMoment like = moment(0, 0.6F);
    like.input = 0.3F;
    const auto gpu = cut(steps(0, 1000), trace(every_ten_seconds(5, 1000, like)));
    CHECK(gpu.time.of(GpuUse::input) == doctest::Approx(300));
    CHECK(gpu.time.of(GpuUse::unexplained) == doctest::Approx(100));
    like.input = 0.7F;  // the CPU waited while the GPU still worked
    const auto capped = cut(steps(0, 1000), trace(every_ten_seconds(5, 1000, like)));
    CHECK(capped.time.of(GpuUse::input) == doctest::Approx(400));
    CHECK(capped.time.of(GpuUse::used) == doctest::Approx(600));
}

TEST_CASE("who waits least in collectives is waited for, also by a GPU that looks busy") {
    JobCourse course = steps(0, 1000);
    course.add_waits(at(1000), at(0), {0, 1, 2}, {0.5, 0.1, 0.12});
    const auto spins = cut(course, trace(every_ten_seconds(5, 1000, moment(0, 1, 0))));
    CHECK(spins.time.of(GpuUse::peer) == doctest::Approx(400));
    CHECK(spins.time.of(GpuUse::used) == doctest::Approx(600));
    REQUIRE(spins.waited_for.size() == 1);
    CHECK(spins.waited_for.at(1) == doctest::Approx(400));
    const auto healthy = cut(course, trace(every_ten_seconds(5, 1000, moment(0, 1, 2)), {2}));
    CHECK(healthy.time.of(GpuUse::peer) == 0);
}

TEST_CASE("a clock that is held down loses its part; without a usual one nobody knows how much") {
    GpuMoment hot = moment(0, 1);
    hot.slowed_by = "thermal";
    hot.sm_hertz = 1.2e9F;
    GpuMoment cool = moment(0, 1);
    cool.sm_hertz = 1.6e9F;
    std::vector<GpuMoment> moments = every_ten_seconds(5, 500, hot);
    for (const GpuMoment& one : every_ten_seconds(505, 1000, cool))
        moments.push_back(one);
    const auto gpu = cut(steps(0, 1000), trace(moments));
    CHECK(gpu.time.of(GpuUse::throttled) == doctest::Approx(125));
    CHECK(gpu.throttled_by.at("thermal") == doctest::Approx(125));
    const auto always = cut(steps(0, 1000), trace(every_ten_seconds(5, 1000, hot)));
    CHECK(always.time.of(GpuUse::throttled) == 0);
    CHECK(always.clock_unknown.at("thermal") == doctest::Approx(1000));
    CHECK(loss_of_clock({"power_cap", "sync"}).empty());  // as GPUs work under load
}

TEST_CASE("a stall is a checkpoint's, and what a sample saw in it says nothing of the steps") {
    JobCourse course = steps(0, 100);
    course.add_stall(at(60), 10, std::nullopt);
    course.add_stall(at(60), 8, std::nullopt);  // another rank's word of the same
    std::vector<GpuMoment> moments = every_ten_seconds(5, 100, moment(0, 1));
    moments[5].busy = 0;  // at 55 s
    const auto gpu = cut(course, trace(moments));
    CHECK(gpu.time.of(GpuUse::checkpoint) == doctest::Approx(10));
    CHECK(gpu.time.of(GpuUse::used) == doctest::Approx(90));
    JobCourse beside = steps(0, 100);
    beside.add_stall(at(90), 5, 60.0);  // begun at 30 s, written beside the training
    REQUIRE(beside.stalls.size() == 1);
    CHECK(beside.stalls[0].from == at(30));
    CHECK(beside.stalls[0].to == at(35));
}

TEST_CASE("nobody's GPU is nobody's from the start, a rank's that is not used while it is not") {
    JobCourse course;
    course.spans = {{LedgerKind::queue, at(-500), at(0), 0},
                    {LedgerKind::launch, at(0), at(50), 0},
                    {LedgerKind::steps, at(50), at(100), 0}};
    GpuMoment like = moment(0, 0);
    like.rank.reset();
    const auto nobody = cut(course, trace(every_ten_seconds(55, 100, like), {}));
    CHECK(nobody.time.of(GpuUse::nobody) == doctest::Approx(100));
    CHECK(nobody.time.held() == doctest::Approx(100));  // the queue held nothing
    GpuMoment unused = moment(0, 0);
    unused.processes = 0;
    const auto of_rank = cut(course, trace(every_ten_seconds(55, 100, unused)));
    CHECK(of_rank.time.of(GpuUse::start) == doctest::Approx(50));
    CHECK(of_rank.time.of(GpuUse::nobody) == doctest::Approx(50));
    CHECK_FALSE(of_rank.is_busy());
}

TEST_CASE("uses sum to the time that the GPU was held, whatever came") {
    std::mt19937 random(7);
    const auto number = [&](int from, int to) {
        return std::uniform_int_distribution<int>(from, to)(random);
    };
    for (int round = 0; round < 300; ++round) {
        JobCourse course;
        int t = 0, held = 0;
        for (int span = number(0, 8); span > 0; --span) {
            const int length = number(1, 400);
            const auto kind =
                static_cast<LedgerKind>(number(0, static_cast<int>(kLedgerKinds) - 1));
            course.spans.push_back({kind, at(t), at(t + length), number(0, 2)});
            held += kind == LedgerKind::queue ? 0 : length;
            t += length;
        }
        for (int stall = number(0, 5); stall > 0; --stall)
            course.add_stall(at(number(-50, t + 50)), number(0, 90), number(0, 200));
        for (int window = 0; window < t; window += 60)
            if (number(0, 2) > 0)
                course.add_waits(at(window + 60), at(window), {0, 1},
                                 {number(0, 100) / 100.0, number(0, 100) / 100.0});
        for (int end = number(0, 2); end > 0; --end)
            course.ends.push_back({number(0, 1), number(0, 2), at(number(0, t + 1))});
        std::vector<GpuMoment> moments;
        for (int second = number(0, 50); second < t; second += number(1, 90)) {
            GpuMoment one = moment(second, static_cast<float>(number(0, 100)) / 100, number(0, 1));
            if (number(0, 3) == 0)
                one.busy.reset();
            if (number(0, 1) == 0)
                one.input = static_cast<float>(number(0, 100)) / 100;
            one.processes = number(0, 1);
            one.sm_hertz = static_cast<float>(number(1000, 2000)) * 1e6F;
            one.slowed_by = number(0, 2) == 0 ? "thermal" : "";
            moments.push_back(one);
        }
        const auto times =
            attribute(course, {.node = "n", .gpus = {trace(moments, {number(0, 1)})}},
                      static_cast<std::size_t>(number(0, 20)));
        CAPTURE(round);
        CHECK(times[0].time.held() == doctest::Approx(held));
        double drawn = 0;
        for (const GpuUseSeconds& part : times[0].course)
            drawn += part.held();
        if (!times[0].course.empty())
            CHECK(drawn == doctest::Approx(held));
        for (const double seconds : times[0].time.seconds)
            CHECK(seconds >= 0);
        double waited = 0;
        for (const auto& [rank, seconds] : times[0].waited_for)
            waited += seconds;
        CHECK(waited == doctest::Approx(times[0].time.of(GpuUse::peer)));
    }
}

TEST_CASE("windows of waits stay bounded, and cover the same time") {
    JobCourse course = steps(0, 4'000'000);
    std::vector<int> ranks(10'000);
    std::vector<double> shares(10'000, 0.1);
    for (int rank = 0; rank < 10'000; ++rank)
        ranks[static_cast<std::size_t>(rank)] = rank;
    for (int window = 0; window < 1'000; ++window)
        course.add_waits(at(window * 60 + 60), at(0), ranks, shares);
    CHECK(course.waits.size() <= kMostWaitNumbers / 10'000);
    CHECK(course.waits.front().from == at(0));
    for (std::size_t window = 1; window < course.waits.size(); ++window)
        CHECK(course.waits[window].from == course.waits[window - 1].to);
}

TEST_CASE("the receipt says what was asked for, where it idled, and what to change") {
    JobGpuTime job;
    for (int gpu = 0; gpu < 5; ++gpu)
        job.gpus.push_back(
            with(GpuUse::input, 0.31, gpu, "0000:0" + std::to_string(gpu) + ":00.0"));
    for (int gpu = 5; gpu < 8; ++gpu)
        job.gpus.push_back(with(GpuUse::nobody, 1, -1, "0000:0" + std::to_string(gpu) + ":00.0"));
    const auto lines = receipt_of(job).lines();
    REQUIRE(lines.size() == 3);
    CHECK(lines[0] == "gpus: asked 8 GPUs for 60 min 0 s, 5 busy · used 43% of 8 GPU hours");
    CHECK(lines[1] == "idle: 38% nobody's process · 19% input");
    CHECK(
        lines[2].starts_with("change: 3 GPUs on node1 had nobody's process: ask for 5, or start a "
                             "rank on each; input held "));
    const std::string comment = receipt_of(job).comment(kMostComment);
    CHECK(comment.starts_with(
        "asked 8 GPUs for 60 min 0 s, 5 busy, used 43% of 8 GPU hours; idle: "));
    CHECK(comment.size() <= kMostComment);
    CHECK(comment.find('\n') == std::string::npos);
    CHECK(receipt_of({}).lines().empty());
    CHECK(receipt_of({}).comment(kMostComment).empty());
}

TEST_CASE("who is waited for is named with what holds it up itself") {
    JobGpuTime job;
    job.gpus = {with(GpuUse::peer, 0.3, 0, "a"), with(GpuUse::input, 0.35, 1, "b")};
    job.gpus[0].waited_for[1] = job.gpus[0].time.of(GpuUse::peer);
    const std::string change = receipt_of(job).change;
    CHECK(change.find("most of it for rank 1 on node1, which itself lost 35% to: input") !=
          std::string::npos);
}

TEST_CASE("a job whose GPUs nobody measured is not told how busy they were") {
    JobGpuTime job;
    GpuTime gpu{.node = "node1", .bdf = "a", .ranks = {0}};
    gpu.time.of(GpuUse::unmeasured) = 100;
    job.gpus = {gpu};
    CHECK(receipt_of(job).asked.ends_with(", how many were busy was not measured"));
    const json told = json::parse(gpu_time_json(job));
    CHECK(told["busy"].is_null());
    CHECK(told["gpus"][0]["busy"].is_null());
    CHECK(told["seconds"]["unmeasured"] == 100);
    CHECK(told["held_seconds"] == 100);
}

TEST_CASE("a comment of the user's own is told from none") {
    CHECK_FALSE(has_comment("JobId=1 Comment=(null) AdminComment=x"));
    CHECK_FALSE(has_comment("JobId=1 JobName=x"));
    CHECK(has_comment("JobId=1 Comment=mine Partition=p"));
}

}  // namespace gpu_time_test
