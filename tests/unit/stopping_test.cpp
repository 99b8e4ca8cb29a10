// Who stops a job, how long is left, what saves need, and whether it is requeued. The answers of
// scontrol are those of a real Slurm 22.05, shortened.
#include "stopping/exclusion.hpp"
#include "stopping/maintenance.hpp"
#include "stopping/over_time_limit.hpp"
#include "stopping/requeue.hpp"
#include "stopping/save_times.hpp"
#include "stopping/scontrol_line.hpp"
#include "stopping/slurm_job_record.hpp"
#include "stopping/stop_budget.hpp"
#include "stopping/stranded.hpp"
#include "stopping/unseen_step.hpp"
#include "supervise/job_end_time.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace stopping_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using std::chrono::system_clock;

namespace {

const std::string kRunning =
    "JobId=10 JobName=a Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 "
    "JobState=RUNNING RunTime=00:00:23 TimeLimit=00:01:00 StartTime=2026-11-23T12:40:40 "
    "EndTime=2026-11-23T12:41:40 PreemptEligibleTime=2026-11-23T12:40:40 PreemptTime=None\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    REQUIRE(at != text.npos);
    return text.replace(at, from.size(), to);
}

SlurmJobRecord record(const std::string& answer) { return parse_slurm_job(answer, "10").value(); }

StopKnown explain(const std::string& answer, std::chrono::seconds after_end = -20s,
                  int restarts = 0) {
    const auto end = record(kRunning).ends_at.value();
    return explain_stop(record(answer), restarts, end + after_end, 30s);
}

}  // namespace

TEST_CASE("what scontrol says of a job is read, of an array only the job's own line") {
    const SlurmJobRecord read = record("JobId=9 JobState=PENDING\n" + kRunning);
    CHECK(read.state == "RUNNING");
    CHECK(read.reason == "None");
    CHECK(read.is_batch);
    CHECK(read.may_requeue);
    CHECK(read.restarts == 0);
    CHECK_FALSE(read.preempted_at);
    REQUIRE(read.ends_at);
    const auto start =
        record(with(kRunning, "EndTime=2026-11-23T12:41:40", "EndTime=2026-11-23T12:40:40"));
    CHECK(*read.ends_at - *start.ends_at == 60s);
    CHECK_FALSE(parse_slurm_job(kRunning, "1"));
    CHECK_FALSE(parse_slurm_job("", "10"));
    CHECK_FALSE(record(with(kRunning, "2026-11-23T12:41:40", "Unknown")).ends_at);
}

TEST_CASE("how long after its limit a job may run: the partition's word before the cluster's") {
    const std::string partitions =
        "PartitionName=main AllowGroups=ALL OverTimeLimit=NONE PreemptMode=OFF\n"
        "PartitionName=over AllowGroups=ALL OverTimeLimit=3 PreemptMode=OFF\n"
        "PartitionName=ever AllowGroups=ALL OverTimeLimit=UNLIMITED PreemptMode=OFF\n";
    CHECK(partition_over_time(partitions, "over") == 3min);
    CHECK(partition_over_time(partitions, "ever") == kEndlessOverTime);
    CHECK_FALSE(partition_over_time(partitions, "main"));
    CHECK_FALSE(partition_over_time(partitions, "ove"));
    CHECK_FALSE(partition_over_time("", "over"));
    const std::string config =
        "MpiParams               = (null)\n"
        "OverTimeLimit           = 2 min\n";
    CHECK(cluster_over_time(config) == 2min);
    CHECK(cluster_over_time(with(config, "2 min", "0 min")) == 0min);
    CHECK(cluster_over_time(with(config, "2 min", "UNLIMITED")) == kEndlessOverTime);
    CHECK_FALSE(cluster_over_time(with(config, "2 min", "-1 min")));
    CHECK_FALSE(cluster_over_time("PriorityMaxAge = 1\nXOverTimeLimit = 3\n"));
}

TEST_CASE("behind its limit squeue has no number for a job that may run on") {
    const system_clock::time_point now{1000h}, end = now - 30s;
    CHECK(end_told(90s, "1:00", end, now) == now + 90s);
    CHECK(end_told({}, "1:00", end, now) == end);
    CHECK(end_told(0s, "1:00", end, now) == end);            // or 0
    CHECK(end_told({}, "1:00", now + 1s, now) == now + 1s);  // rounded
    CHECK_FALSE(end_told({}, "UNLIMITED", end, now));        // an operator's word
    CHECK_FALSE(end_told({}, "366-00:00:00", now + 1h, now));
    CHECK_FALSE(end_told({}, "1:00", {}, now));
}

TEST_CASE("time in the queue begins when Slurm might have started the job") {
    const std::string times =
        kRunning.substr(0, kRunning.size() - 1) +
        " SubmitTime=2026-11-23T12:00:00 EligibleTime=2026-11-23T12:40:10 Partition=main\n";
    CHECK(record(times).partition == "main");
    CHECK(time_in_queue(record(times)) == 30s);
    CHECK(time_in_queue(record(with(times, "Time=2026-11-23T12:40:10", "Time=Unknown"))) ==
          40min + 40s);
    CHECK(time_in_queue(
              record(with(times, "Time=2026-11-23T12:40:10", "Time=2026-11-23T12:50:10"))) == 0s);
    CHECK_FALSE(time_in_queue(record(kRunning)));
}

TEST_CASE("who stops the job, and how long it leaves") {
    const StopKnown signal = explain(kRunning);
    CHECK(signal.origin == StopOrigin::signalled);
    CHECK(signal.left == 50s);  // to the job's end, and KillWait

    std::string preempted = with(kRunning, "PreemptTime=None", "PreemptTime=2026-11-23T12:41:30");
    CHECK(explain(preempted).origin == StopOrigin::preempted);
    CHECK(explain(preempted, -600s).left == 40s);  // whatever our clock says
    preempted = with(preempted, "RUNNING", "COMPLETING");
    CHECK(explain(preempted).origin == StopOrigin::preempted);

    std::string completing = with(kRunning, "RUNNING", "COMPLETING");
    CHECK(explain(completing).origin == StopOrigin::cancelled);
    CHECK(explain(completing).left == 30s);
    CHECK(explain(with(completing, "Reason=None", "Reason=TimeLimit")).origin ==
          StopOrigin::time_limit);
    const std::string requeued = with(completing, "Restarts=0", "Restarts=1");
    CHECK(explain(requeued).origin == StopOrigin::requeued);
    CHECK(explain(requeued, -20s, 1).origin == StopOrigin::cancelled);  // that was the time before
    CHECK(explain(with(kRunning, "RUNNING", "NEW_IN_25")).origin == StopOrigin::unknown);
}

TEST_CASE("a maintenance of the job's nodes that will begin") {
    const auto at = [](const char* text) { return scontrol_time(text).value(); };
    const auto now = at("2026-11-23T13:00:00");
    const auto line = [](const std::string& name, const std::string& start,
                         const std::string& nodes, const std::string& flags) {
        return "ReservationName=" + name + " StartTime=2026-11-23T" + start +
               " EndTime=2026-11-24T00:00:00 Duration=10:00:00 Nodes=" + nodes +
               " NodeCnt=2 Flags=" + flags + " State=INACTIVE\n";
    };
    const std::string answer = line("later", "15:00:00", "node[1-9]", "MAINT") +
                               line("ours", "14:00:00", "node[2-3]", "MAINT,IGNORE_JOBS") +
                               line("past", "12:00:00", "node[1-9]", "MAINT") +
                               line("theirs", "13:10:00", "node[5-6]", "MAINT") +
                               line("course", "13:10:00", "node[1-9]", "SPEC_NODES") +
                               line("none", "13:10:00", "(null)", "MAINT");
    const auto next = next_maintenance(answer, {"node1", "node3"}, now);
    REQUIRE(next);
    CHECK(*next == Maintenance{"ours", "node3", at("2026-11-23T14:00:00")});
    CHECK_FALSE(next_maintenance(answer, {"node77"}, now));
    CHECK_FALSE(next_maintenance("No reservations in the system\n", {"node1"}, now));
    CHECK(clock_text(now) == "13:00:00");
}

TEST_CASE("p99 of saves, over restarts") {
    SaveTimes times;
    CHECK_FALSE(times.p99());
    for (int i = 1; i <= 12; ++i)
        times.add(i);
    CHECK(times.p99() == 12s);
    for (int i = 0; i < 300; ++i)
        times.add(i == 150 ? 50 : i == 200 ? 40 : 2);
    CHECK(times.count() == SaveTimes::kMost);
    CHECK(times.p99() == 2s);  // 254 of 256
    times.add(41);
    CHECK(times.p99() == 40s);
    times.add_save("/here/step-00000400", {{}, 400, 12'300'000'000, 2.1, 9.5});
    times.add_save("/here/step-00000500", {{}, 500, 0, 2.1, 9.5});  // of no size
    times.add_drain("s3://b/p/step-00000300", 300, 1000, 1000, 2);
    times.add_drain("s3://b/p/step-00000400", 400, 1000, 500, 2);
    times.add_drain("s3://b/p/step-00000500", 500, 1000, 499, 2);  // the most was there
    times.add_drain("/far/step-00000500", 500, 1000, 1000, -1);
    const SaveTimes again = SaveTimes::parse(times.to_text());
    CHECK(again.last() == MeasuredSave{"/here", 400, 12'300'000'000, 2.1, 9.5});
    CHECK(again.drains() == std::vector<MeasuredDrain>{{"s3://b/p", 400, 500, 2}});
    CHECK(again.last() == times.last());
    CHECK(again.count() == times.count());
    CHECK(again.p99() == times.p99());
    for (const char* text :
         {"", "{", "[1]", R"({"format":2,"save_seconds":[1]})", R"({"format":1})",
          R"({"format":1,"save_seconds":["a",-1,1e300]})", R"({"format":1,"save_seconds":7})"})
        CHECK(SaveTimes::parse(text).count() == 0);
}

TEST_CASE("the pace of steps fades") {
    StepPace pace;
    const auto start = StepPace::Clock::now();
    pace.step_done(start);
    CHECK(pace.longest() == 0s);
    pace.step_done(start + 10s);
    CHECK(pace.longest() == 10s);
    pace.step_done(start + 11s);
    CHECK(pace.longest() == 9s);
    pace.begin_generation();
    pace.step_done(start + 1000s);
    CHECK(pace.longest() == 9s);
}

TEST_CASE("the budget of a stop says what to change") {
    StopTimes times;
    CHECK(budget_warning(times).empty());
    CHECK(budget_note(times).empty());
    times = {.save = 41s, .saves = 12, .kill_wait = 30s, .killer = StopTimes::Killer::slurm};
    CHECK(budget_warning(times) == "a save takes 41 s, KillWait is 30 s: use --signal=TERM@120");
    CHECK(budget_note(times).empty());
    times.killer = StopTimes::Killer::kubernetes;
    CHECK(budget_warning(times) ==
          "a save takes 41 s, the pod has 30 s after SIGTERM: set terminationGracePeriodSeconds, "
          "and restart.kill_wait with it, to 53");
    times.kill_wait = 600s;
    CHECK(grace_wanted(times) == 49'200ms);  // nobody has asked for another than 15 s
    CHECK(budget_warning(times).empty());
    CHECK(budget_note(times) ==
          "a save takes 41 s (12 measured) and fits into the 49 s after SIGTERM");
    times.grace_period = 20s;
    CHECK(grace_wanted(times) == 20s);
    CHECK(budget_warning(times) ==
          "a save takes 41 s, restart.grace_period is 20 s: raise it to 50s");
    times.save = 4100ms;
    CHECK(budget_warning(times).empty());
    CHECK(grace_within(30s) == 27s);
    CHECK(grace_within(5s) == 4s);
    CHECK(grace_within(500ms) == 0s);
    CHECK(signal_lead(41s, 0s) == 120s);
    CHECK(signal_lead(1s, 0s) == 120s);
    CHECK(signal_lead(600s, 0s) == 780s);
    CHECK(last_moment_before_end({.save = 41s}, 2s) == 41s + 8200ms + 2s + 6s);
}

TEST_CASE("copies have their time of a stop, and what ranks need comes first") {
    StopTimes times{.kill_wait = 30s, .copies = 10s, .killer = StopTimes::Killer::slurm};
    CHECK(ranks_within(times, 30s) == 15s);  // 27 s until Slurm's SIGKILL are enough for both
    CHECK(budget_warning(times).empty());
    times.copies = 20s;
    CHECK(ranks_within(times, 30s) == 13'500ms);  // no save was measured: half of them
    CHECK(budget_warning(times) ==
          "20 s are for copies (storage.stage_out_time), KillWait is 30 s: use --signal=TERM@120");
    times.save = 4s, times.saves = 3;
    CHECK(ranks_within(times, 30s) == 7s);
    CHECK(budget_warning(times).empty());
    CHECK(budget_note(times) ==
          "a save takes 4.0 s (3 measured) and fits into the 7.0 s after SIGTERM, before 20 s for "
          "copies");
    times.save = 20s;
    CHECK(ranks_within(times, 30s) == 24s);  // a save needs them
    CHECK(ranks_within(times, 10s) == 8s);
    CHECK(budget_warning(times) ==
          "a save takes 20 s and 20 s more are for copies (storage.stage_out_time), KillWait is 30 "
          "s: use --signal=TERM@120");
    times.killer = StopTimes::Killer::kubernetes;
    CHECK(budget_warning(times).ends_with("and restart.kill_wait with it, to 47"));
    times.kill_wait.reset();
    CHECK(budget_warning(times).empty());  // nobody kills the copies
    CHECK(budget_note(times) ==
          "a save takes 20 s (3 measured) and fits into the 24 s after SIGTERM");
    CHECK(signal_lead(20s, 600s) == 720s);
    CHECK(last_moment_before_end({.save = 20s, .copies = 600s}, 2s) == 24s + 600s + 2s + 6s);
    CHECK(last_moment_before_end({.copies = 600s}, 0s) == 15s + 600s + 6s);
}

TEST_CASE("an element of an array is requeued alone, a heterogeneous job by its leader") {
    CHECK(requeue_name({}).empty());
    CHECK(requeue_name({{"SLURM_JOB_ID", "8"}}) == "8");
    CHECK(requeue_name(
              {{"SLURM_JOB_ID", "8"}, {"SLURM_ARRAY_JOB_ID", "8"}, {"SLURM_ARRAY_TASK_ID", "2"}}) ==
          "8_2");
    CHECK(requeue_name({{"SLURM_JOB_ID", "14"}, {"SLURM_JOB_ID_HET_GROUP_0", "13"}}) == "13");
}

TEST_CASE("exit codes by which Slurm requeues") {
    const auto parse = [](const std::string& text) { return parse_requeue_settings(text, 75); };
    CHECK_FALSE(parse("").by_exit_code);
    CHECK_FALSE(parse("RequeueExit             = (null)\nRequeueExitHold = (null)\n").by_exit_code);
    CHECK_FALSE(parse("RequeueExit             = 99,175\nSomething = 75\n").by_exit_code);
    CHECK(parse("RequeueExit             = 1,70-80\n").which == "RequeueExit = 1,70-80");
    CHECK(parse("RequeueExitHold         = 75\nRequeueExit = 9\n").which == "RequeueExitHold = 75");
}

TEST_CASE("one requeue, and only where nobody else does it or has cancelled the job") {
    const auto choose = [](const std::string& answer, const char* config = "RequeueExit = 9\n") {
        return choose_requeue(parse_slurm_job(answer, "10"), parse_requeue_settings(config, 75), 0,
                              "10");
    };
    const auto refuses = [&](const std::string& answer, const std::string& why) {
        const RequeueChoice choice = choose(answer);
        CHECK_FALSE(choice.act);
        CHECK_MESSAGE(choice.why.find(why) != std::string::npos, choice.why);
    };
    CHECK(choose(kRunning).act);
    CHECK(choose(kRunning).why == "requeue: scontrol requeue 10 (slurm_config.requeue)");
    const std::string completing = with(kRunning, "RUNNING", "COMPLETING");
    CHECK(choose(with(completing, "Reason=None", "Reason=TimeLimit")).act);
    CHECK(choose(with(completing, "PreemptTime=None", "PreemptTime=2026-11-23T12:41:30")).act);
    refuses(completing, "cancelled (scancel)");
    refuses(with(completing, "Restarts=0", "Restarts=1"), "requeued already");
    refuses(with(kRunning, "RUNNING", "PENDING"), "requeued already");
    refuses(with(kRunning, "BatchFlag=1", "BatchFlag=0"), "only jobs of sbatch");
    refuses(with(kRunning, "Requeue=1", "Requeue=0"), "--requeue");
    refuses("", "scontrol says nothing of job 10");
    CHECK_FALSE(choose(kRunning, "RequeueExit = 75\n").act);
    CHECK_FALSE(choose_requeue(parse_slurm_job(kRunning, "10"), std::nullopt, 0, "10").act);
}

TEST_CASE("nodes that a requeued job does not get again") {
    using Unfit = std::map<std::string, std::string>;
    const std::string partition =
        "PartitionName=gpu Nodes=other[1-9] TotalNodes=9\n"
        "PartitionName=main AllowGroups=ALL Nodes=node[1-5] TotalCPUs=160 TotalNodes=5\n";
    SlurmJobRecord job = record(with(kRunning, "PreemptTime=None",
                                     "Partition=main ReqNodeList=(null) ExcNodeList=(null) "
                                     "NodeList=node[1-3] NumNodes=3"));
    CHECK(job.nodes == 3);
    CHECK(job.excluded.empty());
    const auto one = choose_exclusion({{"node2", "it was lost"}}, job, partition);
    CHECK(one.list == "node2");
    CHECK(one.lines == std::vector<std::string>{"requeue without node2: it was lost"});
    CHECK(exclusion_command("10", one.list) ==
          std::vector<std::string>{"scontrol", "update", "JobId=10", "ExcNodeList=node2"});

    job.excluded = "node1";  // by the user; two are left to give
    const Unfit two = {{"node2", "it was lost"}, {"node3", "2 generations ended there: gpu, gpu"}};
    const auto some = choose_exclusion(two, job, partition);
    CHECK(some.list == "node[1-2]");
    REQUIRE(some.lines.size() == 2);
    CHECK(some.kept == std::set<std::string>{"node3"});
    CHECK(some.lines[1] ==
          "node3 is not excluded, although 2 generations ended there: gpu, gpu: partition main has "
          "2 nodes besides, and the job needs 3");
    CHECK(choose_exclusion({{"node1", "it was lost"}}, job, partition).lines.empty());
    CHECK(choose_exclusion({}, job, partition).list.empty());

    job.required = "node[2-3]";
    CHECK(choose_exclusion(two, job, partition).list.empty());
    job.required.clear();
    for (const char* answer :
         {"", "PartitionName=main Nodes=(null)", "PartitionName=main Nodes=n["})
        CHECK(choose_exclusion(two, job, answer).list.empty());
    job.nodes = 0;
    CHECK(choose_exclusion(two, job, partition).list.empty());
}

TEST_CASE("nodes that a job gives back before it is requeued") {
    using Gone = std::set<std::string>;
    SlurmJobRecord job = record(with(kRunning, "PreemptTime=None",
                                     "ReqNodeList=(null) NodeList=node[1-4] BatchHost=node1"));
    CHECK(job.allocated == "node[1-4]");
    CHECK(nodes_to_keep(job, Gone{"node3", "other"}) == "node[1-2,4]");
    CHECK(nodes_to_keep(job, Gone{"other"}).empty());
    CHECK(nodes_to_keep(job, Gone{}).empty());
    CHECK(nodes_to_keep(job, Gone{"node1"}).empty());  // Slurm requeues it
    CHECK(nodes_to_keep(job, Gone{"node1", "node2"}) == "node[1,3-4]");
    job.allocated = "node[";
    CHECK(nodes_to_keep(job, Gone{"node3"}).empty());
    CHECK(shrink_command("7", "node1").back() == "NodeList=node1");
}

TEST_CASE("a step that Slurm does not see end is ended only while it is that step") {
    Allocation allocation;
    allocation.source = "slurm";
    allocation.job_id = "10.0";
    CHECK(step_name(allocation) == "10.0");
    allocation.job_id = "10";  // in a batch script
    CHECK(step_name(allocation) == "");
    allocation.source = "mpirun";
    allocation.job_id = "13.1231749121";
    CHECK(step_name(allocation) == "");

    CHECK(may_end_step(parse_slurm_job(kRunning, "10"), 0));
    CHECK_FALSE(may_end_step(parse_slurm_job(kRunning, "10"), 1));
    CHECK_FALSE(may_end_step(parse_slurm_job(with(kRunning, "Restarts=0", "Restarts=1"), "10"), 0));
    CHECK_FALSE(may_end_step(
        parse_slurm_job(with(kRunning, "JobState=RUNNING", "JobState=COMPLETING"), "10"), 0));
    CHECK_FALSE(may_end_step(std::nullopt, 0));
}

TEST_CASE("which nodes are gone in Slurm's eyes") {
    const std::string answer =
        "NodeName=node1 Arch=x86_64 State=ALLOCATED ThreadsPerCore=1\n"
        "NodeName=node2 Arch=x86_64 State=DOWN* ThreadsPerCore=1\n"
        "NodeName=node3 Arch=x86_64 State=ALLOCATED* ThreadsPerCore=1\n"
        "NodeName=node4 State=DOWN+CLOUD Reason=DOWN\nNodeName=node5 "
        "State=IDLE+CLOUD+POWERED_DOWN\n"
        "NodeName=node6 State=IDLE+DRAIN\nNodeName=node7";
    CHECK(nodes_down(answer) == std::set<std::string>{"node2", "node4", "node5"});
    CHECK(nodes_down("").empty());
}

TEST_CASE("a whole job is started again only where nobody else can go on with it") {
    Stranded stranded{.others = {{"node1", "10.0.0.1:4000"}, {"node2", ""}, {"node4", ""}},
                      .had_ranks = true};
    using Names = std::vector<std::string>;
    CHECK(not_proved_gone(stranded, {}, {}) == Names{"node1", "node2", "node4"});
    CHECK(not_proved_gone(stranded, {"node4"}, {"node2"}) == Names{"node1"});
    CHECK(not_proved_gone(stranded, {"node1"}, {"node2", "node4"}).empty());
    stranded.had_ranks = false;  // a spare: the others may have gone on without a word
    CHECK(not_proved_gone(stranded, {"node1"}, {"node2", "node4"}) == Names{"node2", "node4"});
    CHECK(not_proved_gone(stranded, {"node1", "node2", "node4"}, {}).empty());
}

TEST_CASE("what a job's heads have written says whether others go on with it") {
    const auto line = [](int generation, const std::string& event, const std::string& more = "") {
        return R"({"time":"2026-01-31T12:00:00.042Z","generation":)" + std::to_string(generation) +
               R"(,"event":")" + event + '"' + more + '}';
    };
    const auto goes_on = [](const Stranded& stranded, const std::vector<std::string>& lines) {
        LogOfHeads log;
        for (const std::string& one : lines)
            log.read(one);
        return log.has_gone_on(stranded);
    };
    const std::string start = line(0, "job_started"), begin = line(0, "generation_started"),
                      end = line(0, "generation_ended"), next = line(1, "world_changed"),
                      over = line(1, "job_ended"),
                      other = line(0, "head_changed", R"(,"node":"node2","from":"node0","term":3)"),
                      ours = line(0, "head_changed", R"(,"node":"node1","from":"node2","term":5)");
    const Stranded member{.term = 3, .generation = 0},
        first{.term = 0, .led = true, .generation = 0},
        later{.term = 5, .led = true, .generation = 0}, before_all{.generation = -1};
    CHECK_FALSE(goes_on(member, {start, begin, other}));
    CHECK(goes_on(member, {start, begin, other, end}));
    CHECK(goes_on(member, {start, begin, other, next}));
    CHECK(goes_on(member, {start, begin, other, ours}));
    CHECK(goes_on(before_all, {start, begin}));
    CHECK_FALSE(goes_on(before_all, {start}));
    CHECK(goes_on(before_all, {start, other}));
    // What one has written oneself, as the last head, is known.
    CHECK_FALSE(goes_on(first, {start, begin, end, next}));
    CHECK(goes_on(first, {start, begin, end, other, next}));
    CHECK_FALSE(goes_on(later, {start, other, ours, end, next}));
    CHECK(goes_on(first, {start, begin, over}));
    // A head has ended it to have it started anew, and that is not done yet.
    const std::string anew = line(0, "job_ended", R"(,"exit_code":75,"outcome":"failed")");
    CHECK_FALSE(goes_on(first, {start, begin, end, anew}));
    CHECK_FALSE(goes_on(member, {start, begin, other, end, anew}));
    CHECK(goes_on(member, {start, begin, other, end, anew, ours}));
    CHECK(goes_on(member, {start, begin, other, end, anew, line(1, "generation_started")}));
    CHECK(goes_on(first, {start, begin, line(0, "job_ended", R"(,"exit_code":68,"outcome":"")")}));
    // An earlier start of the job, and what a rank has said.
    CHECK_FALSE(goes_on(member, {start, begin, other, end, over, start, begin}));
    CHECK_FALSE(goes_on(
        member, {start, begin, line(0, "message", R"(,"text":"\"event\":\"job_ended\"")")}));
}

TEST_CASE("where slurmd of a node is heard") {
    const std::string answer =
        "NodeName=node1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=node1 Version=22.05.8\n"
        "NodeName=node2 NodeAddr=n2.example NodeHostName=node2 Port=7001\n";
    CHECK(slurm_daemons(answer, "SlurmdPort              = 6818\n") ==
          std::vector<SlurmDaemon>{{"node1", "10.0.0.1", 6818}, {"node2", "n2.example", 7001}});
    CHECK(slurm_daemons("", "").empty());
    CHECK(slurm_daemons("NodeName=a NodeAddr=b", "SlurmdPort = 6818-6820").at(0).port == 0);
}

TEST_CASE("how long Slurm may take to notice that a node is gone") {
    CHECK(time_to_notice("SlurmdTimeout           = 60 sec\n") == 90s);
    CHECK(time_to_notice("SlurmdTimeout           = 86400 sec\n") == 630s);
    CHECK(time_to_notice("") == 330s);
}

}  // namespace stopping_test
