// The language of alerts' conditions: what it takes, where it says what is wrong, and of which
// ranks, GPUs and nodes a condition holds.

#include "alerts/condition.hpp"
#include "alerts/observe.hpp"
#include "base/file_io.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace alert_conditions_test {

using namespace autolaunch::launcher;
using namespace autolaunch::launcher::alerts;
using namespace std::chrono_literals;

namespace {

Condition parsed(std::string_view text) {
    const auto result = parse_condition(text);
    if (const auto* wrong = std::get_if<ConditionError>(&result))
        FAIL(text, ": ", wrong->message);
    return std::get<Condition>(result);
}

// The message, with a mark where it points: "temp^gpu_temp".
std::string refusal(std::string_view text) {
    const auto result = parse_condition(text);
    REQUIRE_MESSAGE(std::holds_alternative<ConditionError>(result), text);
    const auto& wrong = std::get<ConditionError>(result);
    return std::to_string(wrong.at) + ": " + wrong.message;
}

Observation seen(std::string_view metric, std::string subject, double number) {
    return {find_alert_metric(metric), std::move(subject), number};
}
Observation word(std::string_view metric, std::string text) {
    return {find_alert_metric(metric), "", 0, std::move(text)};
}

std::vector<std::string> subjects(std::string_view condition, const std::vector<Observation>& all,
                                  const MetricHistory& history = {}) {
    std::vector<std::string> result;
    for (const Match& one : matches_of(parsed(condition), all, history))
        result.push_back(one.subject);
    return result;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("what users write is understood") {
    CHECK(parsed("gpu_temperature > 85").any[0][0].number == 85);
    CHECK(parsed("job_status == 'failed'").any[0][0].word == "failed");
    CHECK(parsed("job_status == \"failed\"").any[0][0].word == "failed");
    CHECK(parsed("disk_usage>90%").any[0][0].number == 90);
    CHECK(parsed("gpu_utilization < 50 for 10m").hold == 10min);
    CHECK(parsed("step_time > 500ms").any[0][0].number == 0.5);
    CHECK(parsed("checkpoint_age > 2h").any[0][0].number == 7200);
    CHECK(parsed("rank_memory >= 80GB").any[0][0].number == 80e9);
    const Condition median = parsed("step_time > 2 * median");
    CHECK(median.any[0][0].of_median);
    CHECK(median.any[0][0].number == 2);
    CHECK(parsed("loss > median").any[0][0].number == 1);
    CHECK(parsed("loss > -0.5").any[0][0].number == -0.5);
    CHECK(parsed("gpu_utilization < 5 and gpu_memory_usage > 10 or restarts > 3").any.size() == 2);
}

TEST_CASE("what is wrong is said with its place") {
    CHECK(refusal("gpu_temprature > 85") ==
          "0: there is no metric \"gpu_temprature\"; did you mean gpu_temperature?");
    CHECK(refusal("xyz > 1").starts_with("0: there is no metric \"xyz\"; there are job_status, "));
    CHECK(refusal("") == "0: expected a metric, such as gpu_temperature");
    CHECK(refusal("loss") == "4: expected one of > >= < <= == !=");
    CHECK(refusal("loss => 3") == "5: expected one of > >= < <= == !=; found \"=> 3\"");
    CHECK(refusal("loss >") == "6: expected a number, a word in quotes, or median");
    CHECK(refusal("loss > 3 xor restarts > 1") ==
          "9: expected and, or, for or the end; found \"xor restarts > 1\"");
    CHECK(refusal("job_status == 'dead'").starts_with("14: job_status is one of 'starting', "));
    CHECK(refusal("job_status > 'failed'") == "21: job_status is a word: compare it with == or !=");
    CHECK(refusal("job_status == 3").starts_with("14: job_status is one of "));
    CHECK(refusal("loss == 'nan'") == "8: loss is a number, and no word");
    CHECK(refusal("job_status == 'failed") == "14: the quote is not closed");
    CHECK(refusal("disk_usage > 90GB") == "15: \"GB\" is no unit of disk_usage, which is in %");
    CHECK(refusal("restarts > 3s") == "12: \"s\" is no unit of restarts, which has none");
    CHECK(refusal("loss > 1 for ever") == "13: expected a time after for, such as 10m");
    CHECK(refusal("loss > 2 * mean") == "10: expected median after the *");
    CHECK(refusal("loss > 1e999").starts_with("8: "));
    CHECK(refusal("gpu_utilization < 5 and step_time > 3")
              .find("both cannot hold of the same; make two alerts of it") != std::string::npos);
}

TEST_CASE("it holds of those that it is about") {
    const std::vector<Observation> all = {seen("gpu_temperature", "GPU 0 of node1", 70),
                                          seen("gpu_temperature", "GPU 1 of node1", 91),
                                          seen("gpu_utilization", "GPU 0 of node1", 2),
                                          seen("gpu_utilization", "GPU 1 of node1", 98),
                                          seen("restarts", "", 2),
                                          word("job_status", "running")};
    CHECK(subjects("gpu_temperature > 85", all) == Words{"GPU 1 of node1"});
    CHECK(subjects("gpu_temperature > 95", all).empty());
    CHECK(subjects("gpu_temperature > 85 and gpu_utilization > 90", all) ==
          Words{"GPU 1 of node1"});
    CHECK(subjects("gpu_temperature > 85 and gpu_utilization < 90", all).empty());
    CHECK(subjects("job_status == 'running' and gpu_utilization < 5", all) ==
          Words{"GPU 0 of node1"});
    CHECK(subjects("gpu_utilization < 5 and restarts > 1", all) == Words{"GPU 0 of node1"});
    CHECK(subjects("job_status != 'running'", all).empty());
    CHECK(subjects("restarts > 1 and job_status == 'running'", all) == Words{""});
    CHECK(subjects("gpu_temperature > 85 or gpu_utilization < 5", all) ==
          Words{"GPU 1 of node1", "GPU 0 of node1"});
    CHECK(matches_of(parsed("gpu_temperature > 85"), all, {})[0].value ==
          "gpu_temperature is 91 °C");
}

TEST_CASE("a GPU that is held and idle has a cause") {
    NodeNow node{"node1", {}};
    const auto cause = [&](double busy, std::optional<int> processes, bool restarts = false) {
        JobView job;
        job.state = restarts ? "between generations" : "running";
        node.sample.gpus = {{.bdf = "a", .busy_ratio = busy, .processes = processes}};
        for (const Observation& one : observe(job, {node}, ViewTime{}))
            if (one.metric->name == "gpu_idle_cause")
                return one.subject + ": " + one.word;
        return std::string("none is told");
    };
    CHECK(cause(0, 0) == "GPU a of node1: nobody");  // no rank is bound to it
    CHECK(cause(0.5, 1) == "GPU a of node1: none");
    node.sample.ranks = {{.rank = 0, .gpu = "a"}};
    CHECK(cause(0, 1) == "GPU a of node1: start");
    CHECK(cause(0, 0) == "GPU a of node1: start");
    CHECK(cause(0, 1, true) == "GPU a of node1: recovery");
    node.sample.ranks[0].step = 5;
    CHECK(cause(0, 1) == "GPU a of node1: unexplained");
    CHECK(cause(0, 0) == "GPU a of node1: nobody");
    node.sample.ranks[0].input_ratio = 0.4;
    CHECK(cause(0.02, 1) == "GPU a of node1: input");
    node.sample.gpus[0].busy_ratio.reset();
    for (const Observation& one : observe(JobView(), {node}, ViewTime{}))
        CHECK(one.metric->name != "gpu_idle_cause");  // with MIG the driver tells no use
}

TEST_CASE("what nobody measures is named, and is no reason") {
    const std::vector<Observation> none = {word("job_status", "running")};
    CHECK(subjects("gpu_temperature > 85", none).empty());
    CHECK(unseen_metrics(parsed("gpu_temperature > 85 or job_status == 'failed'"), none) ==
          Words{"gpu_temperature"});
}

TEST_CASE("a median is of what was seen lately, and of enough") {
    MetricHistory history;
    const std::vector<Observation> slow = {seen("step_time", "rank 3", 2.5)};
    for (int i = 0; i < 7; ++i)
        history.add(std::vector<Observation>{seen("step_time", "rank 0", 1)});
    CHECK(subjects("step_time > 2 * median", slow, history).empty());
    history.add(slow);
    CHECK(subjects("step_time > 2 * median", slow, history) == Words{"rank 3"});
    CHECK(subjects("step_time > 3 * median", slow, history).empty());
}

TEST_CASE("every metric of the table can be written, with each of its words") {
    for (const AlertMetric& metric : alert_metrics()) {
        const std::string name(metric.name);
        if (metric.words.empty())
            CHECK(parsed(name + " > 1").any[0][0].metric == &metric);
        for (const std::string_view one : metric.words)
            CHECK(parsed(name + " == '" + std::string(one) + "'").any[0][0].word == one);
        CHECK_FALSE(metric.meaning.empty());
    }
}

TEST_CASE("docs/alerts.md has each metric as it is") {
    const std::string page = autolaunch::read_file(AUTOLAUNCH_SOURCE_DIR "/docs/alerts.md");
    for (const AlertMetric& metric : alert_metrics()) {
        std::string row = "| `" + std::string(metric.name) + "` | " +
                          std::string(name_of(metric.scope)) + " | " + std::string(metric.unit) +
                          " | " + std::string(metric.meaning);
        CHECK_MESSAGE(page.find(row) != std::string::npos, row);
        for (const std::string_view one : metric.words)
            CHECK(page.find("`'" + std::string(one) + "'`") != std::string::npos);
    }
}

}  // namespace alert_conditions_test
