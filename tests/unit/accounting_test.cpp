// Sums over jobs: what sacct prints becomes, with run directories and without.

#include "accounting/read_accounts.hpp"
#include "accounting/usage_text.hpp"
#include "exit_codes/exit_error.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace accounting_test {

using namespace autolaunch::launcher;
using nlohmann::json;

namespace {

constexpr std::int64_t kNow = 1'800'000'000;

AccountTime at(std::int64_t seconds_ago) {
    return AccountTime(std::chrono::seconds(kNow - seconds_ago));
}

// JobID, JobIDRaw, User, Account, State, Eligible, Start, End, AllocTRES, WorkDir
std::string line(const std::string& id, const std::string& raw, const std::string& user,
                 const std::string& account, const std::string& state, std::int64_t eligible,
                 std::int64_t start, std::int64_t end, const std::string& tres) {
    const auto moment = [](std::int64_t ago) {
        return ago < 0 ? std::string("Unknown") : std::to_string(kNow - ago);
    };
    std::string text;
    for (const std::string& field :
         {id, raw, user, account, state, moment(eligible), moment(start), moment(end), tres})
        text += field + '\x1f';
    return text + "/home/" + user + "\n";
}

const std::string kEightGpus = "billing=64,cpu=64,gres/gpu:h100=8,gres/gpu=8,mem=1T,node=1";

std::string answer() {
    return line("1", "1", "amy", "nlp", "COMPLETED", 7300, 7200, 3600, kEightGpus) +
           line("2", "2", "amy", "nlp", "FAILED", 5000, 4000, 3600, kEightGpus) +
           // Requeued: two runs of one job.
           line("3", "3", "ben", "vision", "NODE_FAIL", 9000, 9000, 8100, kEightGpus) +
           line("3", "3", "ben", "vision", "COMPLETED", 8000, 7500, 3900, kEightGpus) +
           line("4_7", "9", "ben", "vision", "CANCELLED by 2001", 100, -1, 50, "") +
           line("5", "5", "ben", "vision", "RUNNING", 1000, 900, -1, "cpu=2,node=1") +
           // Began before the time that is asked for.
           line("6", "6", "eve", "nlp", "COMPLETED", 99'000, 90'000, 7200, kEightGpus) +
           "not a line\n";
}

RunRecord record_with(int failures, int newest_generation) {
    RunRecord record;
    record.spans = {{LedgerKind::steps, {}, {}, newest_generation}};
    for (int generation = 0; generation < failures; ++generation) {
        RecordFailure failure{.at = {}, .generation = generation};
        failure.cause = generation == 0 ? "node_lost" : "program_error";
        record.failures.push_back(failure);
    }
    GpuTime gpu{.node = "n", .bdf = "a"};
    gpu.time.of(GpuUse::used) = 600;
    gpu.time.of(GpuUse::input) = 300;
    gpu.time.of(GpuUse::unmeasured) = 100;
    record.gpu_time.gpus = {gpu};
    return record;
}

const UsageRow& row(const Usage& usage, const std::string& name) {
    for (const UsageRow& one : usage.rows)
        if (one.name == name)
            return one;
    FAIL("no row " << name);
    throw 0;
}

}  // namespace

TEST_CASE("a job that was requeued is one, and time counts from the moment that was asked for") {
    std::size_t damaged = 0;
    const auto jobs = parse_sacct(answer(), damaged);
    CHECK(damaged == 1);
    REQUIRE(jobs.size() == 7);
    CHECK(jobs[0].gpus == 8);
    CHECK(jobs[4].state == "CANCELLED");
    CHECK_FALSE(jobs[4].start.has_value());
    CHECK_FALSE(jobs[5].is_over());
    const UsageRequest request{.since = at(10'000), .now = at(0), .rates = {.gpu = 2.10}};
    const Usage usage = usage_of(request, jobs, {});
    REQUIRE(usage.rows.size() == 4);
    const UsageRow& amy = row(usage, "amy");
    CHECK(amy.jobs == 2);
    CHECK(amy.completed == 1);
    CHECK(amy.completion() == doctest::Approx(0.5));
    CHECK(*amy.gpu_hours == doctest::Approx(8 * 4000 / 3600.0));
    CHECK(*amy.cost == doctest::Approx(2.10 * 8 * 4000 / 3600.0));
    CHECK(*amy.wait_median == 1000);
    CHECK(*amy.wait_longest == 1000);
    const UsageRow& ben = row(usage, "ben");
    CHECK(ben.jobs == 3);  // 3 in two runs, 4_7, 5
    CHECK(ben.ended == 2);
    CHECK(ben.completed == 1);
    CHECK(*ben.gpu_hours == doctest::Approx(8 * (900 + 3600) / 3600.0));
    CHECK(*row(usage, "eve").gpu_hours == doctest::Approx(8 * 2800 / 3600.0));  // of 82,800 s
    CHECK_FALSE(row(usage, "eve").wait_median.has_value());
    CHECK(*usage.rows.back().gpu_hours ==
          doctest::Approx(*amy.gpu_hours + *ben.gpu_hours + *row(usage, "eve").gpu_hours));
}

TEST_CASE("what is missing is named, and is an empty cell and never 0") {
    std::size_t damaged = 0;
    const auto jobs = parse_sacct(answer(), damaged);
    const UsageRequest request{.since = at(10'000), .now = at(0)};
    const Usage usage = usage_of(request, jobs, {{"1", record_with(2, 1)}});
    REQUIRE(usage.notes.size() == 1);
    CHECK(usage.notes[0].starts_with("5 of 6 jobs have no run directory"));
    const UsageRow& amy = row(usage, "amy");
    CHECK(*amy.gpu_used() == doctest::Approx(600 / 900.0));  // of what was measured
    CHECK(amy.recovery.at("node_lost").recovered == 1);
    CHECK(amy.recovery.at("program_error").recovered == 0);
    CHECK_FALSE(row(usage, "ben").gpu_used().has_value());
    const std::string csv = usage_csv(usage, request);
    CHECK(csv.starts_with("user,jobs,ended,completed,completion,"));
    CHECK(csv.find("amy,2,2,1,0.5000,1,2,1,node_lost 1/1; program_error 0/1,8.8889,0.2500,0.6667,"
                   "1000,1000,\n") != std::string::npos);
    CHECK(csv.find("\nben,3,2,1,0.5000,0,,,,10.0000,,,100,500,\n") != std::string::npos);
    const json told = json::parse(usage_json(usage, request));
    CHECK(told["rows"][1]["gpu_used"].is_null());
    CHECK(told["rows"][1]["recovery"].is_null());
    CHECK(told["rows"][0]["cost"].is_null());
    CHECK(usage_table(usage, request).find("not known: 5 of 6 jobs") != std::string::npos);
}

TEST_CASE("where sacct tells of no GPUs there are no GPU hours, and no cost of them") {
    std::size_t damaged = 0;
    const auto jobs =
        parse_sacct(line("1", "1", "amy", "nlp", "COMPLETED", 20, 10, 0, "cpu=2,node=1"), damaged);
    const UsageRequest request{
        .since = at(100), .now = at(0), .by = UsageBy::account, .rates = {.gpu = 1, .cpu = 1}};
    const Usage usage = usage_of(request, jobs, {});
    CHECK_FALSE(row(usage, "nlp").gpu_hours.has_value());
    CHECK_FALSE(row(usage, "nlp").cost.has_value());
    CHECK(usage.notes[0].find("AccountingStorageTRES=gres/gpu") != std::string::npos);
    CHECK(usage_of(request, {}, {}).notes.at(0).starts_with("sacct knows of no job"));
}

TEST_CASE("a time and prices are understood, or refused with what would be") {
    const AccountTime now = at(0);
    CHECK(parse_since("30d", now) == now - std::chrono::hours(720));
    CHECK(parse_since("12h", now) == now - std::chrono::hours(12));
    CHECK(parse_since("2026-11-01", now) ==
          AccountTime(std::chrono::sys_days(std::chrono::year(2026) / 11 / 1)));
    for (const char* wrong : {"", "d", "0d", "-3d", "30", "30m", "2026-13-01", "2099-01-01", "x"})
        CHECK_THROWS_AS(parse_since(wrong, now), UsageError);
    const UsageRequest request =
        usage_request({.since = "1d", .by = "account", .rates = "gpu=2.10,cpu=0.02"}, now);
    CHECK(request.by == UsageBy::account);
    CHECK(request.rates.gpu == 2.10);
    CHECK(request.rates.cpu == 0.02);
    CHECK_FALSE(request.rates.node.has_value());
    for (const char* wrong : {"gpu", "gpu=", "gpu=-1", "gpu=nan", "disk=1", "gpu=2,10"})
        CHECK_THROWS_AS(usage_request({.since = "1d", .rates = wrong}, now), UsageError);
    CHECK_THROWS_AS(usage_request({.since = "1d", .by = "day"}, now), UsageError);
}

}  // namespace accounting_test
