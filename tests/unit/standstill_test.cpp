#include "progress/standstill.hpp"
#include "progress/python_place.hpp"
#include "progress/rank_activity.hpp"
#include "progress/step_watch.hpp"
#include "standstill/rank_stacks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace standstill_test {

using namespace autolaunch::launcher;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

const StepWatch::Moment kStart{};

StepWatch watch_of(int steps, milliseconds each) {
    StepWatch watch;
    for (int step = 0; step <= steps; ++step)
        watch.step(0, kStart + step * each);
    return watch;
}

RankActivity does(int rank, Doing doing, const std::string& what = "") {
    return {.rank = rank, .pid = 100 + rank, .doing = doing, .cpu_percent = 99, .what = what};
}

StandstillFacts facts_of(std::vector<RankActivity> activities, std::vector<int> in_collective) {
    return {.overdue = {.rank = 0, .silence = milliseconds(6100), .usual = milliseconds(300)},
            .activities = std::move(activities),
            .in_collective = std::move(in_collective)};
}

/// Looks at it as an agent does, from `from` until `until`; the moment at which a step was overdue
/// first.
std::optional<StepWatch::Moment> first_overdue(const StepWatch& watch, StepWatch::Moment from,
                                               StepWatch::Moment until) {
    for (auto now = from; now < until; now += milliseconds(200))
        if (watch.look(now))
            return now;
    return std::nullopt;
}

}  // namespace

TEST_CASE("nothing is overdue before it is known what is usual") {
    const auto watch = watch_of(int(StepWatch::kLeastSteps) - 1, seconds(1));
    CHECK_FALSE(watch.look(kStart + hours(10)));
    CHECK_FALSE(StepWatch().look(kStart + hours(10)));
}

TEST_CASE("a step is overdue after three usual ones and half a second") {
    const auto watch = watch_of(20, milliseconds(300));
    const auto last = kStart + 20 * milliseconds(300);
    CHECK_FALSE(watch.look(last + milliseconds(1400)));
    const auto overdue = watch.look(last + milliseconds(1401));
    REQUIRE(overdue);
    CHECK(overdue->usual == milliseconds(300));
    CHECK(overdue->silence == milliseconds(1401));
    CHECK_FALSE(overdue->far);
    CHECK(watch.look(last + StepWatch::kShortestFar + milliseconds(1))->far);
}

TEST_CASE("a slow first step teaches nothing") {
    StepWatch watch;
    watch.step(0, kStart + seconds(60));
    for (int step = 1; step <= 10; ++step)
        watch.step(0, kStart + seconds(60 + step));
    CHECK(watch.usual() == seconds(1));
    CHECK(watch.near_limit() == milliseconds(3500));
}

TEST_CASE("a phase of its own is waited for, and teaches nothing") {
    auto watch = watch_of(20, seconds(1));
    const auto last = kStart + seconds(20);
    watch.phase(0, true, last + milliseconds(100));
    CHECK_FALSE(watch.look(last + hours(1)));
    watch.phase(0, false, last + hours(1));
    CHECK_FALSE(watch.look(last + hours(1) + seconds(3)));
    CHECK(watch.look(last + hours(1) + seconds(4)));
    watch.step(0, last + hours(1) + seconds(4));
    CHECK(watch.near_limit() == milliseconds(3500));
}

TEST_CASE("a pause that ended by itself is not told of another time") {
    auto watch = watch_of(20, seconds(1));
    watch.step(0, kStart + seconds(40));  // 20 s
    for (int step = 1; step <= 300; ++step)
        watch.step(0, kStart + seconds(40 + step));
    CHECK_FALSE(watch.look(kStart + seconds(340 + 25)));
    CHECK(watch.look(kStart + seconds(340 + 31)));
}

TEST_CASE("what shows that a rank moves, and its end, count") {
    auto watch = watch_of(20, seconds(1));
    watch.alive(0, kStart + seconds(29));
    CHECK_FALSE(watch.look(kStart + seconds(30)));
    watch.alive(7, kStart + seconds(29));  // which has done no step
    watch.ended(0);
    CHECK_FALSE(watch.look(kStart + hours(1)));
}

TEST_CASE("a job stands still when nobody is left who could go on") {
    const auto still = does(3, Doing::still, "reads /data/7.bin");
    const auto found = judge_standstill(facts_of({does(0, Doing::working), still}, {0}));
    CHECK(found.sure);
    CHECK(found.ranks == std::vector{3});
    CHECK(found.lines == std::vector<std::string>{"rank 3 (pid 103) reads /data/7.bin"});
    CHECK(found.headline == "no step for 6.1 s, where one takes 0.3 s");
    // All wait in collectives, each for another one.
    CHECK(
        judge_standstill(facts_of({does(0, Doing::working), does(1, Doing::still)}, {0, 1})).sure);
}

TEST_CASE("a rank that works, or that a disk holds, may come to its next step") {
    for (const Doing doing : {Doing::working, Doing::blocked})
        CHECK_FALSE(judge_standstill(facts_of({does(0, Doing::still), does(1, doing)}, {0})).sure);
    auto silent = facts_of({does(0, Doing::still)}, {});
    silent.silent_nodes = 1;
    CHECK_FALSE(judge_standstill(silent).sure);
    CHECK(judge_standstill(silent).lines.back() == "1 node has not answered in time");
    CHECK_FALSE(judge_standstill(facts_of({}, {})).sure);
}

TEST_CASE("who is stopped is named, also within a collective, and not before 5 s") {
    auto facts = facts_of({does(0, Doing::working), does(1, Doing::stopped, "is stopped")}, {0, 1});
    CHECK(judge_standstill(facts).sure);
    CHECK(judge_standstill(facts).ranks == std::vector{1});
    facts.overdue.silence = milliseconds(3000);
    CHECK_FALSE(judge_standstill(facts).sure);
}

TEST_CASE("of many ranks four are told of") {
    std::vector<RankActivity> all;
    for (int rank = 4095; rank >= 0; --rank)
        all.push_back(does(rank, Doing::still));
    const auto found = judge_standstill(facts_of(all, {}));
    CHECK(found.ranks.size() == 4096);
    CHECK(found.lines.size() == 4);
    CHECK(found.lines.front() == "rank 0 (pid 100) stands still");
    CHECK(found.lines.back() == "and 4093 other ranks");
}

TEST_CASE("work is CPU time and bytes; a watchdog's glances are none") {
    const ActivityLook first{kStart, milliseconds(1000), 5000};
    const auto after = [&](int cpu, std::uint64_t bytes) {
        return ActivityLook{kStart + seconds(1), milliseconds(1000 + cpu), 5000 + bytes};
    };
    CHECK(compare_looks(first, after(10, 100), 'S').doing == Doing::still);
    CHECK(compare_looks(first, after(100, 0), 'R').doing == Doing::working);
    CHECK(compare_looks(first, after(100, 0), 'R').cpu_percent == 10);
    CHECK(compare_looks(first, after(0, 1 << 20), 'S').doing == Doing::working);
    CHECK(compare_looks(first, after(0, 0), 'R').doing == Doing::working);
    CHECK(compare_looks(first, after(0, 0), 'D').doing == Doing::blocked);
    CHECK(compare_looks(first, after(0, 1 << 20), 'D').doing == Doing::working);
    CHECK(compare_looks(first, after(0, 0), 'T').doing == Doing::stopped);
    CHECK(compare_looks(first, after(0, 0), 't').doing == Doing::traced);
    auto scarce = after(900, 0);
    CHECK(compare_looks(first, scarce, 'R').what.empty());
    scarce.waited = milliseconds(400);
    CHECK(compare_looks(first, scarce, 'R').what ==
          "waited for a CPU for 40 % of it: others compute on its cores");
    scarce.throttled = milliseconds(70);
    CHECK(compare_looks(first, scarce, 'R').what ==
          "was throttled by its cgroup for 7 % of the time, and waited for a CPU for 40 % of it: "
          "others compute on its cores");
    // Pages that were not in memory, and files that were not in the page cache.
    auto faults = after(900, 0);
    faults.major_faults = 49;
    faults.disk_bytes = (4 << 20) - 1;
    CHECK(compare_looks(first, faults, 'R').what.empty());
    faults.major_faults = 300;
    CHECK(compare_looks(first, faults, 'R').what ==
          "waited for 300 pages a second that were not in memory (major faults)");
    faults.disk_bytes = 40 << 20;
    CHECK(compare_looks(first, faults, 'R').what ==
          "waited for 300 pages a second that were not in memory (major faults), and read 40 MiB a "
          "second from disk, not from the page cache");
    // A child ended between the looks, and took its time along.
    CHECK(compare_looks(after(900, 1 << 20), first, 'S').cpu_percent == 0);
}

TEST_CASE("a GPU that is slowed down, or has fewer lanes than its peers, tells why a rank lags") {
    std::vector<GpuPace> gpus{{.rank = 4, .link_width = 16}, {.rank = 5, .link_width = 16}};
    CHECK(describe_gpu_pace(4, gpus).empty());
    CHECK(describe_gpu_pace(9, gpus).empty());  // it has none
    gpus[0].link_width = 4;
    CHECK(describe_gpu_pace(4, gpus) == "has a GPU with 4 PCIe lanes, others have 16");
    CHECK(describe_gpu_pace(5, gpus).empty());
    gpus[0].slowed_reasons = 0x40;
    CHECK(describe_gpu_pace(4, gpus) ==
          "has a GPU whose clock is slowed down: too hot, and has a GPU with 4 PCIe lanes, others "
          "have 16");
    gpus[1].slowed_reasons = 0x80;
    CHECK(describe_gpu_pace(5, gpus) ==
          "has a GPU whose clock is slowed down: its power supply's brake");
    gpus[1].slowed_reasons = 0x4;  // software's limit of power is how GPUs work
    CHECK(describe_gpu_pace(5, gpus).empty());
    gpus[0] = {.rank = 4};  // nothing is known of it
    CHECK(describe_gpu_pace(4, gpus).empty());
}

TEST_CASE("by a limit of ours a job is ended when that is sure, far, and nobody's wish") {
    const auto facts = facts_of({does(0, Doing::working), does(1, Doing::still)}, {0});
    auto overdue = facts.overdue;
    const auto ends = [&](const Standstill& found, bool told = false) {
        return ends_generation(found, overdue, seconds(300), told);
    };
    const auto sure = judge_standstill(facts);
    overdue.far = true;
    overdue.silence = seconds(299);
    CHECK_FALSE(ends(sure));
    CHECK_FALSE(ends(sure, true));
    overdue.silence = seconds(300);
    CHECK(ends(sure));
    overdue.far = false;
    CHECK_FALSE(ends(sure));
    overdue.far = true;
    const auto works = judge_standstill(facts_of({does(1, Doing::working)}, {}));
    CHECK_FALSE(ends(works));
    CHECK(ends(works, true));
    auto held = facts_of({does(1, Doing::stopped)}, {});
    CHECK(judge_standstill(held).sure);
    CHECK_FALSE(ends(judge_standstill(held)));
    CHECK(ends(judge_standstill(held), true));
    held.activities = {does(1, Doing::traced)};
    CHECK(judge_standstill(held).sure);
    CHECK_FALSE(ends(judge_standstill(held), true));
}

TEST_CASE("who is in torch's collectives by its Python stack waits, as by a recorder") {
    constexpr char kThreads[] =
        "Thread 0x00007f1 (most recent call first):\n"
        "  File \"/usr/lib/python3.11/threading.py\", line 324 in wait\n\n"
        "Current thread 0x00007f2 (most recent call first):\n";
    const std::string user =
        "  File \"/home/me/my run/train.py\", line 40 in train\n"
        "  File \"/home/me/my run/train.py\", line 60 in <module>\n";
    const std::string torch =
        "  File \"/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", line "
        "2810 "
        "in all_reduce\n"
        "  File \"/v/lib/python3.11/site-packages/torch/distributed/c10d_logger.py\", line 81 in "
        "wrapper\n";
    CHECK(python_place(kThreads + torch + user) ==
          PythonPlace{.collective = "all_reduce", .place = "train (train.py:40)"});
    // DistributedDataParallel waits for the others' gradients in C++, within backward.
    const std::string backward =
        "  File \"/v/lib/python3.11/site-packages/torch/autograd/graph.py\", line 1113 in "
        "_engine_run_backward\n"
        "  File \"/v/lib/python3.11/site-packages/torch/autograd/__init__.py\", line 395 in "
        "backward\n"
        "  File \"/v/lib/python3.11/site-packages/torch/_tensor.py\", line 623 in backward\n";
    CHECK(python_place(kThreads + backward + user) ==
          PythonPlace{.collective = {}, .place = "train (train.py:40)", .in_backward = true});
    const std::string loader =
        "  File \"/usr/lib/python3.11/selectors.py\", line 415 in select\n"
        "  File \"/v/lib/python3.11/site-packages/torch/utils/data/dataloader.py\", line 1293 in "
        "_try_get_data\n";
    CHECK(python_place(kThreads + loader + user) ==
          PythonPlace{.collective = {}, .place = "train (train.py:40)", .awaits_children = true});
    CHECK_FALSE(python_place(kThreads + user + backward + user).in_backward);  // a hook of theirs
    CHECK(python_place(kThreads + user) ==
          PythonPlace{.collective = {}, .place = "train (train.py:40)"});
    CHECK(python_place(kThreads +
                       ("  File \"/usr/lib/python3.11/queue.py\", line 171 in get\n" + user)) ==
          PythonPlace{.collective = {}, .place = "train (train.py:40)"});
    for (const char* other : {"", "x", "Current thread (most recent call first):\n  File \"",
                              "(most recent call first):\n  File \"a\", line 3\n"})
        CHECK(python_place(other) == PythonPlace{});

    std::vector<RankActivity> all;
    for (int rank = 0; rank < 8; ++rank)
        all.push_back(does(rank, Doing::waits, "in all_reduce, called in train (train.py:40)"));
    auto found = judge_standstill(facts_of(all, {}));
    CHECK(found.sure);
    CHECK(found.ranks.empty());
    CHECK(found.lines ==
          std::vector<std::string>{"ranks 0-7 wait in all_reduce, called in train (train.py:40)"});
    all[3] = does(3, Doing::still, "sleeps, in load (data.py:7)");
    all[5] = does(5, Doing::waits, "in barrier, called in save (train.py:80)");
    found = judge_standstill(facts_of(all, {}));
    CHECK(found.sure);
    CHECK(found.ranks == std::vector{3});
    CHECK(found.lines == std::vector<std::string>{
                             "rank 3 (pid 103) sleeps, in load (data.py:7)",
                             "ranks 0-2,4,6-7 wait in all_reduce, called in train (train.py:40)",
                             "rank 5 waits in barrier, called in save (train.py:80)"});
}

TEST_CASE("the rank that does not do what most do is named first, whatever that is") {
    auto facts = facts_of({does(0, Doing::still, "waits for a lock, in step (t.py:9)"),
                           does(1, Doing::still, "opens a file, in load (t.py:4)"),
                           does(2, Doing::still, "waits for a lock, in step (t.py:9)")},
                          {});
    CHECK(judge_standstill(facts).ranks == std::vector{1, 0, 2});
    CHECK(judge_standstill(facts).lines.front() ==
          "rank 1 (pid 101) opens a file, in load (t.py:4)");
    // All wait, one of them elsewhere; of two and two nobody is odd.
    std::vector<RankActivity> all;
    for (int rank = 0; rank < 4; ++rank)
        all.push_back(does(rank, Doing::waits, "in backward, called in step (t.py:9)"));
    CHECK(judge_standstill(facts_of(all, {})).ranks.empty());
    all[2].what = "in broadcast, called in step (t.py:7)";
    CHECK(judge_standstill(facts_of(all, {})).ranks == std::vector{2});
    CHECK(judge_standstill(facts_of(all, {})).lines ==
          std::vector<std::string>{"rank 2 waits in broadcast, called in step (t.py:7)",
                                   "ranks 0-1,3 wait in backward, called in step (t.py:9)"});
    all[3].what = all[2].what;
    CHECK(judge_standstill(facts_of(all, {})).ranks.empty());
}

TEST_CASE("a limit that was told counts from the first step on, and however long steps take") {
    StepWatch watch;
    watch.tell_limit(seconds(30));
    CHECK_FALSE(watch.look(kStart + hours(1)));  // it may load and compile
    watch.step(0, kStart + hours(1));
    CHECK_FALSE(watch.look(kStart + hours(1) + seconds(30)));
    const auto overdue = watch.look(kStart + hours(1) + seconds(31));
    REQUIRE(overdue);
    CHECK(overdue->far);
    CHECK(judge_standstill({.overdue = *overdue, .activities = {}}).headline ==
          "no step for 31.0 s");
    auto slow = watch_of(20, seconds(20));
    slow.tell_limit(seconds(30));
    CHECK(slow.look(kStart + seconds(400 + 31))->far);
    slow.phase(0, true, kStart + seconds(401));
    CHECK_FALSE(slow.look(kStart + hours(2)));
}

TEST_CASE("time in which nobody looked is no silence") {
    auto watch = watch_of(20, seconds(1));
    watch.forgive(hours(1));  // the agent was stopped
    CHECK_FALSE(watch.look(kStart + hours(1) + seconds(20)));
    watch.step(0, kStart + hours(1) + seconds(21));
    CHECK(watch.near_limit() == milliseconds(3500));
}

namespace {

enum class Pause { none, garbage, compiles, saves, evaluates, declared, stopped, agent_stopped };

/// A job whose ranks step together, for a day: what an agent and the head see of it, by a clock of
/// its own. Every pause is one that ends by itself.
class Soak {
public:
    explicit Soak(unsigned seed) : random_(seed), usual_(between(200, 8000)) {}

    /// Pauses that were looked at; `false_alarms` counts what was said of them.
    int run(hours time) {
        for (int rank = 0; rank < kRanks; ++rank)
            watch_.step(rank, now_ = kStart + 20 * usual_);
        for (steps_ = 1; now_ < kStart + time; ++steps_)
            step(next_pause());
        return looked_at_;
    }
    /// Then nothing ends it; how long that took to be named.
    milliseconds hang() {
        const auto since = now_;
        for (auto at = now_; at < now_ + hours(1); at += milliseconds(200))
            if (const auto overdue = watch_.look(at))
                if (judge(*overdue, Doing::still).sure)
                    return std::chrono::duration_cast<milliseconds>(at - since) + seconds(1);
        return hours(1);
    }
    milliseconds usual() const { return watch_.usual(); }

    int false_alarms = 0, would_end = 0;

private:
    static constexpr int kRanks = 3;

    milliseconds between(int from, int to) {
        return milliseconds(std::uniform_int_distribution<int>(from, to)(random_));
    }
    bool one_in(int times) { return std::uniform_int_distribution<int>(1, times)(random_) == 1; }

    Pause next_pause() {
        if (steps_ % 1000 == 0)
            return Pause::declared;
        if (steps_ % 400 == 0)
            return Pause::evaluates;
        if (steps_ % 100 == 0)
            return Pause::saves;
        if (one_in(60))
            return Pause::garbage;
        if (one_in(500))
            return one_in(2) ? Pause::stopped : Pause::agent_stopped;
        return steps_ < 50 && one_in(10) ? Pause::compiles : Pause::none;
    }

    milliseconds length(Pause pause) {
        switch (pause) {
            case Pause::garbage:
                return between(100, 3000);
            case Pause::compiles:
                return std::min<milliseconds>(20 * usual_, seconds(50));
            case Pause::saves:
                return between(1000, 30'000);
            case Pause::evaluates:
                return between(20'000, 50'000);
            case Pause::declared:
                return between(60'000, 1'200'000);
            case Pause::stopped:
                return seconds(3);
            case Pause::agent_stopped:
                return between(5000, 600'000);
            case Pause::none:
                break;
        }
        return milliseconds(0);
    }

    void step(Pause pause) {
        const milliseconds more = length(pause);
        if (pause == Pause::declared)
            watch_.phase(0, true, now_), watch_.phase(1, true, now_), watch_.phase(2, true, now_);
        if (pause == Pause::agent_stopped)
            now_ += more, watch_.forgive(more);
        const auto until = now_ +
                           usual_ * std::uniform_int_distribution<int>(85, 140)(random_) / 100 +
                           (pause == Pause::agent_stopped ? milliseconds(0) : more);
        // Nothing is overdue before the limit: nobody needs to look.
        const auto limit = watch_.knows_enough() ? watch_.near_limit() : until - now_;
        for (auto at = now_ + limit; at < until; at += milliseconds(200))
            if (const auto overdue = watch_.look(at))
                notice(*overdue, pause);
        now_ = until;
        for (int rank = 0; rank < kRanks; ++rank) {
            if (pause == Pause::declared)
                watch_.phase(rank, false, now_);
            watch_.step(rank, now_);
        }
    }

    Standstill judge(const StepWatch::Overdue& overdue, Doing doing) {
        return judge_standstill(
            {.overdue = overdue,
             .activities = {does(0, Doing::working), does(1, Doing::working), does(2, doing)},
             .in_collective = {0, 1}});
    }
    void notice(const StepWatch::Overdue& overdue, Pause pause) {
        ++looked_at_;
        const auto found = judge(overdue, pause == Pause::stopped ? Doing::stopped
                                          : pause == Pause::saves ? Doing::blocked
                                                                  : Doing::working);
        false_alarms += static_cast<int>(found.sure || overdue.far);
        would_end += static_cast<int>(ends_generation(found, overdue, minutes(5), false));
    }

    std::mt19937 random_;
    milliseconds usual_;
    StepWatch watch_;
    StepWatch::Moment now_ = kStart;
    int steps_ = 0, looked_at_ = 0;
};

}  // namespace

// An agent looks every 200 ms; what is overdue is judged by what the ranks do then.
TEST_CASE("days of training with all that pauses raise no false alarm, and a hang is named") {
    for (unsigned seed = 1; seed <= 4; ++seed) {
        CAPTURE(seed);
        Soak soak(seed);
        CHECK(soak.run(hours(24)) > 0);
        CHECK(soak.false_alarms == 0);
        CHECK(soak.would_end == 0);
    }
}

TEST_CASE("a hang is named within three usual steps and two seconds, where steps are even") {
    for (const int usual : {50, 300, 1000, 20'000}) {
        // An agent looks every 200 ms: the moment at which the head is told.
        const auto watch = watch_of(50, milliseconds(usual));
        const auto last = kStart + 50 * milliseconds(usual);
        const auto seen = first_overdue(watch, last, last + hours(1));
        REQUIRE(seen);
        constexpr milliseconds kBetweenLooks(800 + 400);  // then it is asked for stacks
        CHECK(*seen + kBetweenLooks <= last + 3 * milliseconds(usual) + seconds(2));
    }
}

TEST_CASE("ranks that report no steps are given minutes, and nothing ends them by itself") {
    StepWatch watch({.least_steps = 20, .shortest_far = minutes(5), .only_far = true});
    for (int sign = 0; sign <= 19; ++sign)
        watch.step(0, kStart + sign * seconds(2));
    CHECK_FALSE(watch.look(kStart + hours(9)));  // too little is known
    watch.step(0, kStart + seconds(40));
    CHECK_FALSE(watch.look(kStart + seconds(40) + minutes(5)));
    auto overdue = watch.look(kStart + seconds(41) + minutes(5));
    REQUIRE(overdue);
    overdue->by_signs = true;
    StandstillFacts facts{.overdue = *overdue, .activities = {does(0, Doing::still)}};
    facts.quiet = overdue->silence;
    const auto found = judge_standstill(facts);
    CHECK(found.sure);
    CHECK(found.headline ==
          "nothing was printed, read, written or sent for 301.0 s, where something comes every 2.0 "
          "s");
    CHECK_FALSE(ends_generation(found, *overdue, minutes(5), false));
    CHECK(ends_generation(found, *overdue, minutes(5), true));
    facts.activities.push_back(does(1, Doing::awaits_data));
    CHECK(judge_standstill(facts).moves_elsewhere);
    facts.activities.pop_back();
    facts.quiet = seconds(3);  // on another node
    CHECK(judge_standstill(facts).moves_elsewhere);
    CHECK_FALSE(ends_generation(judge_standstill(facts), *overdue, minutes(5), true));
    watch.alive(0, kStart + minutes(6));  // bytes
    CHECK_FALSE(watch.look(kStart + minutes(10)));
}

TEST_CASE(
    "among ranks that spin, the one that does not is named first, and once with what it lacks") {
    StandstillFacts facts;
    facts.overdue = {.rank = 0,
                     .silence = seconds(20),
                     .usual = milliseconds(300),
                     .far = true,
                     .by_signs = true};
    for (const int rank : {0, 1, 2}) {
        RankActivity activity;
        activity.rank = rank;
        activity.pid = 100 + rank;
        activity.doing = rank == 1 ? Doing::still : Doing::working;
        activity.cpu_percent = rank == 1 ? 0 : 22;
        activity.what = rank == 1 ? "waits for a signal" : "waited for a CPU for 76 % of it";
        facts.activities.push_back(activity);
    }
    const Standstill found = judge_standstill(facts);
    CHECK(found.ranks == std::vector<int>{1, 0, 2});
    CHECK(found.lines ==
          std::vector<std::string>{
              "rank 1 (pid 101) waits for a signal",
              "rank 0 (pid 100) works (22% of a CPU), waited for a CPU for 76 % of it",
              "rank 2 (pid 102) works (22% of a CPU), waited for a CPU for 76 % of it"});
}

TEST_CASE("of what gdb prints, the stacks with symbols are taken where it came to their end") {
    const std::string plain = "Thread 1\n#0  0x1 in poll ()\n#1  0x2 in ?? () from libbig.so\n";
    const std::string mark = "-- with the symbols of all libraries:\n";
    const std::string late = "(the libraries' symbols took too long)\n";
    const std::string full = "Thread 1\n#0  0x1 in poll ()\n#1  0x2 in big_wait ()\n";
    CHECK(best_stacks(plain + mark + full, true) == full);
    CHECK(best_stacks(plain + mark + "Thread 1\n#0  0x1 in", false) == plain + late);
    CHECK(best_stacks(plain + mark, true) == plain + late);
    CHECK(why_no_stacks(plain, true, 2).empty());
    CHECK(why_no_stacks("PID 7 - process\nTID 7:\n", true, 0) ==
          "no native stacks: the debugger found none");
    CHECK(why_no_stacks("", false, 1) == "no native stacks: the debugger did not answer in time");
    CHECK(why_no_stacks("", true, 2).find("only root may trace") != std::string::npos);
    CHECK(why_no_stacks("", true, 3).find("nobody may trace") != std::string::npos);
    CHECK(best_stacks(plain, false) == plain);
    CHECK(best_stacks("TID 7:\n#0 poll\n", true) == "TID 7:\n#0 poll\n");  // eu-stack's
    CHECK(best_stacks("", false).empty());
}

}  // namespace standstill_test
