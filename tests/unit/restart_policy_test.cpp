// What follows from how a generation ended.
#include "causes/rank_end.hpp"
#include "restart_policy/cause_policy.hpp"
#include "restart_policy/decision.hpp"
#include "restart_policy/hang_limit.hpp"
#include "restart_policy/node_fitness.hpp"
#include "restart_policy/node_limits.hpp"
#include "spec/restart_rules.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace restart_policy_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

RestartSpec spec_of(int max_restarts) {
    RestartSpec spec;
    spec.max_restarts = max_restarts;
    return spec;
}

// One job after the other generation, an hour apart unless said otherwise.
class Job {
public:
    explicit Job(RestartSpec spec) : spec_(std::move(spec)) {}

    Decision ends(Cause cause, std::optional<std::int64_t> step = {}, const std::string& what = "x",
                  std::chrono::minutes later = 60min) {
        Situation situation;
        situation.record.cause = cause;
        situation.record.what = what;
        situation.generation = generation_++;
        situation.now = now_ += later;
        situation.step = step;
        situation.ran = ran;
        situation.record.vain = vain;
        situation.enough_nodes = enough_nodes;
        const Decision decision = decide(spec_, history_, situation);
        history_.ends.push_back(decision.end);
        const auto copy = restart_history_from(to_json(history_));  // as after a requeue
        REQUIRE(copy);
        CHECK(*copy == history_);
        return decision;
    }

    std::chrono::milliseconds ran{1000};
    std::string vain;
    bool enough_nodes = false;

private:
    RestartSpec spec_;
    RestartHistory history_{.run_id = "4711", .ends = {}};
    int generation_ = 0;
    std::chrono::system_clock::time_point now_{std::chrono::hours(1'000)};
};

bool restarts(const Decision& decision) { return decision.action == RestartAction::restart; }

}  // namespace

TEST_CASE("restarts of the program's account are so many in all, and others have their own") {
    Job job(spec_of(2));
    CHECK(job.ends(Cause::crash, 10).account == "1 of 2");
    CHECK(job.ends(Cause::network, 20).account == "for network, 1 of 5 in 6 h");
    CHECK(job.ends(Cause::killed, 30).account == "2 of 2");
    const Decision last = job.ends(Cause::program_error, 40);
    CHECK_FALSE(restarts(last));
    CHECK(last.why == "all 2 restarts are used up");
    CHECK(restarts(job.ends(Cause::gpu, 50)));
}

TEST_CASE("nothing is restarted where nobody wants it, and nothing is said of it") {
    Job job(spec_of(0));
    for (const Cause cause : {Cause::crash, Cause::gpu, Cause::network}) {
        const Decision decision = job.ends(cause, 10);
        CHECK_FALSE(restarts(decision));
        CHECK(decision.why.empty());
    }
}

TEST_CASE("a job that may lose nodes goes on without them, on nobody's account") {
    RestartSpec none = spec_of(0);
    RestartSpec torchruns = spec_of(1);
    torchruns.as_torchrun = true;
    for (const RestartSpec& spec : {none, spec_of(1), torchruns}) {
        Job job(spec);
        CHECK_FALSE(restarts(job.ends(Cause::node_lost, 10)));
        job.enough_nodes = true;
        for (int lost = 0; lost < 20; ++lost)
            CHECK(restarts(job.ends(Cause::node_lost, 10)));
        job.vain = "processes that hang in the kernel are left";
        CHECK_FALSE(restarts(job.ends(Cause::node_lost, 10)));
    }
    none.on[Cause::node_lost].action = RestartAction::requeue;  // the user's own word counts
    Job own(none);
    own.enough_nodes = true;
    CHECK(own.ends(Cause::node_lost, 10).action == RestartAction::requeue);
}

TEST_CASE("with how few nodes a job goes on") {
    JobSpec spec;
    spec.resources.nodes = 2;
    spec.resources.most_nodes = 4;
    CHECK(fewest_nodes(spec) == 2);
    CHECK(describe_node_limits(spec, 4, 0) ==
          "a lost node: the job goes on with those that are left, 2 at least");
    CHECK(describe_node_limits(spec, 2, 0) == "a lost node: ends the job, all 2 are needed");
    spec.resources.total_ranks = 8;
    CHECK_FALSE(fewest_nodes(spec));
    spec.resources.total_ranks.reset();
    spec.resources.most_nodes = 2;
    CHECK_FALSE(fewest_nodes(spec));
    CHECK(describe_node_limits(spec, 2, 0).empty());
}

TEST_CASE("spares wait, and are as many as the nodes allow") {
    JobSpec spec;
    spec.resources.nodes = 6;
    spec.resources.most_nodes = 8;
    CHECK(nodes_at_start(spec, 7) == 7);  // no spares: all take part
    spec.resources.spare_nodes = 1;
    for (const auto& [joined, expected] : {std::pair(10, 8), std::pair(9, 8), std::pair(8, 7),
                                           std::pair(7, 6), std::pair(6, 6), std::pair(3, 3)})
        CHECK(nodes_at_start(spec, joined) == expected);
    CHECK(fewest_nodes(spec) == 6);
    spec.resources.most_nodes = 1;  // a number of nodes, and a spare
    CHECK(nodes_at_start(spec, 7) == 6);
    CHECK(fewest_nodes(spec) == 6);
    CHECK(describe_node_limits(spec, 6, 1) ==
          "a lost node: a spare takes over (one there), then ends the job, all 6 are needed");
}

TEST_CASE("restart_elsewhere leaves the node out, where others suffice") {
    RestartSpec spec = spec_of(0);
    spec.on[Cause::gpu].action = RestartAction::restart;
    spec.on[Cause::gpu].elsewhere = true;
    spec.on[Cause::gpu].budget = 1;
    Situation situation;
    situation.record.cause = Cause::gpu;
    situation.record.node = "a";
    CHECK(decide(spec, {}, situation).why == "no other node is there to restart on");
    situation.others_suffice = true;
    const Decision decision = decide(spec, {}, situation);
    CHECK(decision.action == RestartAction::restart);
    const RestartHistory history{.run_id = "1", .ends = {decision.end}};
    CHECK(*restart_history_from(to_json(history)) == history);
    CHECK(unfit_nodes(history).at("a") == "restart_elsewhere, for gpu");
}

TEST_CASE("a straggler's node is left out where that was asked for, three times in six hours") {
    JobSpec spec;
    spec.resources.nodes = 2;
    Situation situation;
    situation.record.cause = Cause::straggler;
    situation.record.node = "b";
    situation.others_suffice = true;
    situation.now = std::chrono::system_clock::time_point(1000h);
    CHECK_FALSE(restarts(decide(spec.restart, {}, situation)));
    CHECK(describe_straggler_policy(spec) ==
          "a rank for which the others wait: told of (restart.straggler: warn)");
    CHECK(why_no_replacement(spec).empty());
    spec.restart.straggler = "replace";  // without any restart of failures
    CHECK(describe_straggler_policy(spec).find("not replaced: every node is needed") !=
          std::string::npos);
    CHECK_FALSE(why_no_replacement(spec).empty());
    spec.resources.spare_nodes = 1;
    CHECK(why_no_replacement(spec).empty());
    CHECK(describe_straggler_policy(spec) ==
          "a rank for which the others wait: told of; where it lasts, its node is left out, 3 "
          "times in 6 h at most");
    RestartHistory history{.run_id = "1", .ends = {}};
    for (const bool torchruns : {false, true}) {
        spec.restart.as_torchrun = torchruns;
        history.ends.clear();
        for (int times = 1; times <= 3; ++times) {
            const Decision decision = decide(spec.restart, history, situation);
            REQUIRE(restarts(decision));
            CHECK_FALSE(decision.counted);
            CHECK(decision.delay == 0ms);
            CHECK(decision.account == "for straggler, " + std::to_string(times) + " of 3 in 6 h");
            history.ends.push_back(decision.end);
        }
        CHECK(decide(spec.restart, history, situation).why ==
              "3 restarts for straggler in 6 h are used up");
    }
    CHECK(*restart_history_from(to_json(history)) == history);
    CHECK(unfit_nodes(history).at("b") ==
          "the others waited for its ranks (restart.straggler: replace)");
    situation.others_suffice = false;
    CHECK(decide(spec.restart, {}, situation).why == "no other node is there to restart on");
    spec.resources.total_ranks = 8;
    CHECK(why_no_replacement(spec).find("-np") != std::string::npos);
    CHECK_FALSE(may_start_anew(spec));
    spec.restart.max_restarts = 1;
    CHECK(may_start_anew(spec));
    spec.restart.straggler = "off";
    CHECK(describe_straggler_policy(spec).find("not told of") != std::string::npos);
}

TEST_CASE("a node where the machine fails twice is unfit") {
    RestartHistory history;
    const auto add = [&history](Cause cause, const char* node) {
        PastEnd end;
        end.cause = cause;
        end.node = node;
        history.ends.push_back(end);
    };
    add(Cause::gpu, "a");
    add(Cause::network, "b");
    add(Cause::program_error, "a");  // nobody's machine
    add(Cause::storage, "");
    CHECK(unfit_nodes(history).empty());
    add(Cause::node_lost, "a");
    REQUIRE(unfit_nodes(history).size() == 1);
    CHECK(unfit_nodes(history).at("a") == "2 generations ended there: gpu, node_lost");
    CHECK(unfit_nodes(*restart_history_from(to_json(history))) == unfit_nodes(history));
    CHECK(nodes_to_exclude(history) == unfit_nodes(history));
    add(Cause::node_lost, "c");
    CHECK(nodes_to_exclude(history).at("c") == "it was lost");
    CHECK_FALSE(unfit_nodes(history).contains("c"));
    history.ends.back().at += 1h;
    CHECK(nodes_lost_since(history, history.ends.back().at) == std::set<std::string>{"c"});
    // Lost beside it: no generation ended by it.
    history.lost.push_back({"d", {}, history.ends.back().at});
    history.lost.push_back({"e", {}, history.ends.back().at - 1h});
    CHECK(nodes_lost_since(history, history.ends.back().at) == std::set<std::string>{"c", "d"});
    CHECK(nodes_to_exclude(*restart_history_from(to_json(history))).at("d") == "it was lost");
    CHECK_FALSE(unfit_nodes(history).contains("d"));
    history.taken_back.push_back({"d", {}, history.ends.back().at});
    CHECK_FALSE(nodes_to_exclude(history).contains("d"));
}

TEST_CASE("a node that a check found unfit stays out over requeues, until it is taken back") {
    using Moment = std::chrono::system_clock::time_point;
    RestartHistory history{.run_id = "1", .ends = {}};
    CHECK(to_json(history).find("unfit") == std::string::npos);
    history.unfit.push_back({"a", "gpus: GPU 3 is gone", Moment(1h)});
    history.unfit.push_back({"b", "it did not answer", Moment(2h)});
    for (const Cause cause : {Cause::gpu, Cause::storage}) {
        PastEnd end;
        end.at = Moment(3h);
        end.cause = cause;
        end.node = "c";
        history.ends.push_back(end);
    }
    history.checkpoint_step = 40;
    const auto copy = restart_history_from(to_json(history));  // as after a requeue
    REQUIRE(copy);
    CHECK(*copy == history);
    CHECK(unfit_nodes(*copy).at("a") == "gpus: GPU 3 is gone");
    CHECK(nodes_to_exclude(*copy).size() == 3);
    history.taken_back.push_back({"a", {}, Moment(4h)});
    history.taken_back.push_back({"c", {}, Moment(4h)});
    CHECK(*restart_history_from(to_json(history)) == history);
    CHECK(nodes_to_exclude(history) ==
          std::map<std::string, std::string>{{"b", "it did not answer"}});
    history.unfit.push_back({"a", "gpus: GPU 3 is gone again", Moment(5h)});
    CHECK(unfit_nodes(history).at("a") == "gpus: GPU 3 is gone again");
}

TEST_CASE("the same error at the same step is not tried again") {
    Job job(spec_of(9));
    CHECK(restarts(job.ends(Cause::program_error, 120, "shard 7 is bad")));
    const Decision again = job.ends(Cause::program_error, 120, "shard 9 is bad");
    CHECK_FALSE(restarts(again));
    CHECK(again.why == "failed at step 120 with the same error as before: a restart cannot help");
    CHECK(restarts(job.ends(Cause::program_error, 121, "shard 7 is bad")));
    CHECK(restarts(job.ends(Cause::program_error, 121, "another one")));
    CHECK(restarts(job.ends(Cause::killed, 121, "SIGKILL")));
    CHECK(restarts(job.ends(Cause::killed, 121, "SIGKILL")));  // no mistake of the program
}

TEST_CASE("what fails before its first step is tried once more") {
    Job job(spec_of(9));
    CHECK(restarts(job.ends(Cause::program_error, {}, "a")));
    const Decision again = job.ends(Cause::crash, {}, "b");
    CHECK_FALSE(restarts(again));
    CHECK(again.why == "failed before its first step, as the time before: a restart cannot help");
    Job slow(spec_of(9));  // it reports no steps, and came far
    slow.ran = kProgressByTime;
    for (int time = 0; time < 4; ++time)
        CHECK(restarts(slow.ends(Cause::program_error, {}, "a")));
}

TEST_CASE("a restart that is known to be vain is none") {
    Job job(spec_of(9));
    job.vain = "it would find the same checkpoints";
    CHECK(job.ends(Cause::storage, 5).why == job.vain);
}

TEST_CASE("a full disk ends a job, but where storage has a rule of its own") {
    RestartSpec spec = spec_of(9);
    Job without(spec);
    without.vain = kNoRoom;
    CHECK(without.ends(Cause::storage, 5).why == kNoRoom);
    spec.on[Cause::storage] = {.budget = 1, .window = {}, .delay = 2s, .backoff = {}, .action = {}};
    Job with(spec);
    with.vain = kNoRoom;
    const Decision first = with.ends(Cause::storage, 5);
    CHECK(restarts(first));
    CHECK(first.delay == 2s);
    CHECK(with.ends(Cause::storage, 9).why == "the 1 restarts for storage are used up");
    // Room is waited for already: the pause after it does not grow.
    spec.on[Cause::storage].budget = 9;
    Job often(spec);
    often.vain = kNoRoom;
    CHECK(often.ends(Cause::storage, 5).delay == 2s);
    CHECK(often.ends(Cause::storage, 9, "x", 1min).delay == 2s);
}

TEST_CASE("the pause is the first again where the cause stayed away for an hour") {
    RestartSpec spec = spec_of(0);
    spec.on[Cause::gpu] = {.budget = 100, .window = {}, .delay = 10s, .backoff = 2.0, .action = {}};
    Job job(spec);
    CHECK(job.ends(Cause::gpu, 1).delay == 10s);
    CHECK(job.ends(Cause::gpu, 2, "x", 59min).delay == 20s);
    CHECK(job.ends(Cause::gpu, 3, "x", 59min).delay == 40s);
    CHECK(job.ends(Cause::gpu, 4, "x", 60min).delay == 10s);
    CHECK(job.ends(Cause::gpu, 5, "x", 1min).delay == 20s);
}

TEST_CASE("a window forgets, a budget does not, and pauses grow") {
    RestartSpec spec = spec_of(0);
    spec.on[Cause::network] = {
        .budget = 4, .window = WindowLimit{2, 6h}, .delay = 10s, .backoff = 3.0, .action = {}};
    Job job(spec);
    CHECK(job.ends(Cause::network, 1).delay == 10s);
    const Decision second = job.ends(Cause::network, 2, "x", 10min);
    CHECK(second.delay == 30s);
    CHECK(second.account == "for network, 2 of 4, 2 of 2 in 6 h");
    CHECK(job.ends(Cause::network, 3).why == "2 restarts for network in 6 h are used up");
    CHECK(restarts(job.ends(Cause::network, 4, "x", 600min)));
    CHECK(restarts(job.ends(Cause::network, 5, "x", 600min)));
    CHECK(job.ends(Cause::network, 6, "x", 600min).why == "the 4 restarts for network are used up");
    CHECK(job.ends(Cause::crash, 7).why ==
          "restart.max_restarts is 0, and restart.on gives crash no budget");
}

TEST_CASE("--max-restarts is torchrun's: so many, whatever the cause and the error") {
    RestartSpec spec = spec_of(3);
    spec.as_torchrun = true;
    Job job(spec);
    CHECK(job.ends(Cause::program_error).account == "1 of 3");
    CHECK(job.ends(Cause::program_error).account == "2 of 3");
    CHECK(job.ends(Cause::gpu).account == "3 of 3");
    CHECK(job.ends(Cause::network).why == "all 3 restarts are used up");
    spec.on[Cause::gpu] = {.budget = 9, .window = {}, .delay = {}, .backoff = {}, .action = {}};
    Job capped(spec);
    for (int time = 0; time < 3; ++time)
        CHECK(restarts(capped.ends(Cause::gpu)));
    CHECK(capped.ends(Cause::gpu).why == "all 3 restarts are used up");
}

TEST_CASE("an action of the spec is taken, within its budget") {
    RestartSpec spec = spec_of(3);
    spec.on[Cause::gpu].action = RestartAction::requeue;
    spec.on[Cause::gpu].budget = 1;
    spec.on[Cause::crash].action = RestartAction::stop;
    Job job(spec);
    CHECK(job.ends(Cause::gpu, 1).action == RestartAction::requeue);
    CHECK(job.ends(Cause::gpu, 2).why == "the 1 restarts for gpu are used up");
    CHECK(job.ends(Cause::crash, 2).why == "crash stops the job");
    CHECK(job.ends(Cause::node_lost, 2).action == RestartAction::requeue);
}

TEST_CASE("a hang has an account of its own, and the same one at the same step is a mistake") {
    Job job(spec_of(1));
    CHECK(job.ends(Cause::crash, 1).action == RestartAction::restart);
    for (int step = 2; step < 5; ++step) {
        const Decision decision = job.ends(Cause::hang, step);
        CHECK(restarts(decision));
        CHECK_FALSE(decision.counted);
    }
    CHECK(job.ends(Cause::hang, 5).why == "3 restarts for hang in 6 h are used up");
    Job alike(spec_of(3));
    CHECK(restarts(alike.ends(Cause::hang, 7, "rank 3 (pid 99) sleeps")));
    CHECK(alike.ends(Cause::hang, 7, "rank 3 (pid 1234) sleeps").why.starts_with("failed at step"));
}

TEST_CASE("a job that stands still is ended where restarts are wanted, or a time was said") {
    JobSpec spec;
    CHECK_FALSE(hang_limit(spec));
    CHECK(describe_hang_limit(spec).find("no restarts are wanted") != std::string::npos);
    spec.restart.max_restarts = 1;
    CHECK(hang_limit(spec) == HangLimit{.after = 5min, .told = false});
    spec.restart.hang_after = {.automatic = false, .after = {}};
    CHECK_FALSE(hang_limit(spec));
    CHECK(describe_hang_limit(spec).find("is off") != std::string::npos);
    spec.restart.hang_after.after = 90s;
    spec.restart.max_restarts = 0;
    CHECK(hang_limit(spec) == HangLimit{.after = 90s, .told = true});
    CHECK(describe_hang_limit(spec) == "ended after 90 s without a step (restart.hang_after)");
    spec.debug_rank = 0;
    CHECK_FALSE(hang_limit(spec));
}

TEST_CASE("the policy as a table names each cause once") {
    RestartSpec spec = spec_of(3);
    spec.on[Cause::crash].action = RestartAction::stop;
    const std::string table = policy_table(spec);
    CHECK(table.find("  restart  storage, gpu · 3 in 6 h · after 10 s, then x 2\n") !=
          std::string::npos);
    for (const Cause cause : all_causes()) {
        if (cause == Cause::straggler)
            continue;  // no failure
        const std::string name(name_of(cause));
        CAPTURE(name);
        const auto at = table.find(name);
        CHECK(at != std::string::npos);
    }
    CHECK(policy_table(spec_of(0)).find("max_restarts is 0") != std::string::npos);
}

TEST_CASE("a history that is none, or too deep to be one") {
    for (const char* text : {"", "{}", "[]", R"({"version": 2, "run_id": "x", "ends": []})",
                             R"({"version": 1, "run_id": "x", "ends": [{"cause": "oops"}]})"})
        CHECK_FALSE(restart_history_from(text));
    CHECK_FALSE(restart_history_from(std::string(100'000, '[')));
    PastEnd end;
    end.at = std::chrono::system_clock::time_point(7ms);
    const std::string good = to_json(RestartHistory{.run_id = "x", .ends = {end}});
    REQUIRE(restart_history_from(good));
    for (const char* moment : {"1e300", "-1", "9795869203332"}) {
        std::string text = good;
        text.replace(text.find("\"at_ms\": 7") + 9, 1, moment);
        CHECK_FALSE(restart_history_from(text));
    }
}

TEST_CASE("so many in a time") {
    CHECK(window_from("3 per 6h") == WindowLimit{3, 6h});
    CHECK(window_from("1 per 90s") == WindowLimit{1, 90s});
    for (const char* text :
         {"3", "3 per", "per 6h", "x per 6h", "-1 per 6h", "3 per 0s", "3 per soon"})
        CHECK_FALSE(window_from(text));
}

}  // namespace restart_policy_test
