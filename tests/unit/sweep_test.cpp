// A sweep's elements: what a spec makes of it, what is refused at which place, which element a rule
// stops, and how all stand by their records and by Slurm's word.

#include "sweep/early_stop.hpp"
#include "sweep/element_record.hpp"
#include "sweep/elements.hpp"
#include "sweep/sweep_table.hpp"

#include "spec/spec.hpp"
#include "spec/sweep_words.hpp"
#include "spec_files.hpp"
#include "submission/array_numbers.hpp"
#include "submission/batch_request.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sweep_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

std::vector<std::string> elements_of(const std::string& sweep) {
    const SpecResult read = load_text("optimizer: {lr: 1}\nsweep: " + sweep + "\n");
    REQUIRE(lines_of(read) == std::vector<std::string>{});
    std::vector<std::string> lines;
    for (const SweepElement& element : sweep_elements(read.sweep))
        lines.push_back(describe(element));
    return lines;
}

/// Of the sweep itself, or of its elements.
std::string mistake(const std::string& text) {
    SpecResult read = load_text(text);
    if (read.errors.empty())
        check_elements(read, sweep_elements(read.sweep), read.errors);
    return only_line(read);
}

EarlyStopSpec rule_of(const std::string& text) {
    const SpecResult read = load_text("sweep: {grid: {a.b: [1]}, early_stop: " + text + "}\n");
    REQUIRE(lines_of(read) == std::vector<std::string>{});
    return read.sweep.early_stop;
}

SweepLook look(double value, double mean, double best) {
    return {.mark = 100, .step = 100, .value = value, .mean = mean, .best = best};
}
SweepLook at(double value) { return look(value, value, value); }

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("a sweep is its grid, then its list, then its samples") {
    using Lines = std::vector<std::string>;
    CHECK(elements_of("{grid: {optimizer.lr: [1e-3, 1e-4], model.layers: [2, 4]}}") ==
          Lines{"optimizer.lr=1e-3 model.layers=2", "optimizer.lr=1e-3 model.layers=4",
                "optimizer.lr=1e-4 model.layers=2", "optimizer.lr=1e-4 model.layers=4"});
    CHECK(elements_of(
              "{grid: {model.layers: [2]}, list: [{optimizer.lr: 5, model.shape: [1, 2]}]}") ==
          Lines{"model.layers=2", "optimizer.lr=5 model.shape=[1,2]"});
    const Lines few = elements_of(
        "{random: {samples: 3, seed: 7, ranges: {optimizer.lr: {log: [1e-5, 1e-2]}, model.layers: "
        "{integer: [2, 4]}, model.act: {choice: [relu, gelu]}, model.drop: {uniform: [0, 0.5]}}}}");
    const Lines more = elements_of(
        "{random: {samples: 200, seed: 7, ranges: {optimizer.lr: {log: [1e-5, 1e-2]}, "
        "model.layers: {integer: [2, 4]}, model.act: {choice: [relu, gelu]}, model.drop: {uniform: "
        "[0, 0.5]}}}}");
    CHECK(Lines(more.begin(), more.begin() + 3) == few);
    CHECK(std::set(more.begin(), more.end()).size() == 200);
    CHECK(few != elements_of("{random: {samples: 3, seed: 8, ranges: {optimizer.lr: {log: [1e-5, "
                             "1e-2]}, model.layers: {integer: [2, 4]}, model.act: {choice: [relu, "
                             "gelu]}, model.drop: {uniform: [0, 0.5]}}}}"));
}

TEST_CASE("samples lie in their ranges, and everywhere in them") {
    const SpecResult read = load_text(
        "sweep: {random: {samples: 4000, ranges: {a.u: {uniform: [-1, 3]}, a.l: {log: [1e-6, 1]}, "
        "a.i: {integer: [-2, 2]}, a.c: {choice: [x, y, z]}}}}\n");
    REQUIRE(lines_of(read) == std::vector<std::string>{});
    std::map<std::string, int> integers, choices;
    int below = 0, small = 0;
    for (const SweepElement& element : sweep_elements(read.sweep)) {
        const double uniform = std::stod(element[0].value.text);
        const double log = std::stod(element[1].value.text);
        CHECK(uniform >= -1);
        CHECK(uniform <= 3);
        CHECK(log >= 1e-6);
        CHECK(log <= 1);
        below += uniform < 1 ? 1 : 0;
        small += log < 1e-3 ? 1 : 0;
        ++integers[element[2].value.text];
        ++choices[element[3].value.text];
    }
    CHECK(std::abs(below - 2000) < 200);
    CHECK(std::abs(small - 2000) < 200);
    CHECK(integers.size() == 5);
    CHECK(choices.size() == 3);
    for (const auto& [number, count] : integers)
        CHECK(std::abs(count - 800) < 150);
}

TEST_CASE("mistakes in a sweep are named with their place") {
    CHECK(mistake("sweep: {}\n") ==
          "t.yaml:1:8: sweep: makes no element: give a grid, a list or random samples");
    CHECK(mistake("sweep:\n  grid: {}\n") ==
          "t.yaml:2:9: sweep.grid: expected a mapping of keys to lists of values, as in "
          "{optimizer.lr: [1e-3, 1e-4]}; found none");
    CHECK(contains(mistake("sweep:\n  grid: {optimizer.lr: []}\n"),
                   "t.yaml:2:24: sweep.grid.optimizer.lr: expected a list of values; found none"));
    CHECK(contains(mistake("sweep:\n  grid: {optimizer: {lr: [1]}}\n"), "optimizer.KEY"));
    CHECK(contains(mistake("sweep:\n  gird: {optimizer.lr: [1]}\n  list: [{a.b: 1}]\n"),
                   "t.yaml:2:3: sweep.gird: unknown key; did you mean \"grid\"?"));
    CHECK(contains(mistake("sweep:\n  random: {samples: 2, ranges: {a.b: {uniform: [3, 1]}}}\n"),
                   "t.yaml:2:48: sweep.random.ranges.a.b: is backwards: its lower end comes first, "
                   "and 3 is not below 1"));
    CHECK(contains(mistake("sweep: {random: {samples: 2, ranges: {a.b: {log: [0, 1]}}}}\n"),
                   "begins above 0"));
    CHECK(contains(mistake("sweep: {random: {samples: 2, ranges: {a.b: {integer: [0.5, 1]}}}}\n"),
                   "expected two whole numbers"));
    CHECK(contains(mistake("sweep: {random: {samples: 2, ranges: {a.b: {normal: [0, 1]}}}}\n"),
                   "expected one of {uniform: [LOW, HIGH]}"));
    CHECK(contains(mistake("sweep: {random: {ranges: {a.b: {log: [1, 2]}}}}\n"), "needs samples"));
    CHECK(contains(mistake("sweep: {grid: {slurm_config.nodes: [1, 2]}}\n"),
                   "is the same for all elements"));
    CHECK(contains(mistake("sweep: {grid: {a.b: [1]}, metric: accuracy}\n"),
                   "expected loss, seconds or tokens_per_second"));
    CHECK(contains(mistake("sweep: {grid: {a.b: [1]}, early_stop: {metric: loss}}\n"),
                   "needs a rule: median or asha"));
    CHECK(contains(mistake("sweep: {grid: {a.b: [1]}, early_stop: {rule: asha, every: 3}}\n"),
                   "sweep.early_stop.every: is of the rule median alone"));
    CHECK(contains(
        mistake("sweep: {grid: {a.b: [1]}, mode: min, early_stop: {rule: asha, mode: max}}\n"),
        "another metric or mode than the sweep"));
    CHECK(contains(mistake("sweep: {grid: {a.b: [1], c.d: [1, 2]}, element: 2}\n"),
                   "there are 2 elements, 0 to 1"));
    const std::string many = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22]";
    CHECK(contains(
        mistake("sweep: {grid: {a.b: " + many + ", a.c: " + many + ", a.d: " + many + "}}\n"),
        "makes more than 10000 elements"));
}

TEST_CASE("what an element makes wrong is named at the sweep's place") {
    CHECK(mistake("sweep:\n  grid:\n    restart.max_restart: [1, 2]\n") ==
          "t.yaml:3:5: restart.max_restart: unknown key; did you mean \"max_restarts\"? (expects a "
          "whole number >= 0)");
    CHECK(contains(mistake("sweep:\n  grid:\n    restart.max_restarts: [1, many]\n"),
                   "t.yaml:3:31: restart.max_restarts: expected a whole number >= 0"));
    CHECK(contains(mistake("optimizer: {lr: 1}\nsweep: {grid: {optimizer.lr.x: [1]}}\n"),
                   "t.yaml:2:16: optimizer.lr is \"1\", so nothing can be set in it"));
    const SpecResult read = load_text(
        "optimizer: {lr: 1}\nsweep: {grid: {optimizer.lrr: [1], optimizer.lr: [2], "
        "restart.max_restarts: [1], trainer.config.seed: [1]}}\n");
    CHECK(new_keys(read) == std::vector<std::string>{"optimizer.lrr", "trainer.config.seed"});
}

TEST_CASE("an element's stored spec reads as the element") {
    const SpecResult read = load_text(
        "optimizer: {lr: 1}\nrestart: {max_restarts: 3}\nsweep: {grid: {optimizer.lr: [1e-3, "
        "\"007\"], restart.max_restarts: [5]}, mode: max, metric: tokens_per_second, early_stop: "
        "{rule: median, every: 7}}\n");
    const auto elements = sweep_elements(read.sweep);
    REQUIRE(elements.size() == 2);
    for (int number = 0; number < 2; ++number) {
        const SweepElement& element = elements[static_cast<std::size_t>(number)];
        const SpecResult direct = with_settings(read, element, {});
        const SpecResult stored =
            load_text(to_yaml(stored_tree(direct.root, read.sweep, number, "/runs/x", element)));
        REQUIRE(lines_of(stored) == std::vector<std::string>{});
        CHECK(stored.spec.trainer_config == direct.spec.trainer_config);
        CHECK(stored.spec.restart.max_restarts == 5);
        CHECK(stored.sweep.of == "/runs/x");
        CHECK(stored.sweep.element == number);
        CHECK(describe(stored.sweep.values) == describe(element));
        CHECK_FALSE(stored.sweep.makes_elements());
        CHECK(stored.sweep.goal.maximise);
        CHECK(stored.sweep.early_stop.rule == EarlyStopSpec::Rule::median);
        CHECK(stored.sweep.early_stop.every == 7);
    }
    CHECK(load_text("sweep: {of: /x, grid: {a.b: [1]}}\n").errors.size() == 1);
    CHECK(is_stored_element("element-12.yaml"));
    CHECK_FALSE(is_stored_element("element-.yaml"));
    CHECK_FALSE(is_stored_element("element-1x.yaml"));
}

TEST_CASE("a sweep becomes an array of its size") {
    const auto request = [](const std::string& text) {
        const SpecResult read = load_spec({.file = "t.yaml",
                                           .overrides = {},
                                           .environment = {},
                                           .base = {},
                                           .text = "trainer: {command: [a]}\n" + text,
                                           .for_later = true});
        REQUIRE(lines_of(read) == std::vector<std::string>{});
        return batch_request(read, {.folder = "/f", .stored_spec = "/f/s", .autolaunch = "/a"});
    };
    const BatchRequest made = request(
        "sweep: {grid: {a.b: [1, 2, 3]}, list: [{a.b: 7}]}\nslurm_config: {array_throttle: 2}\n");
    REQUIRE(made.errors.empty());
    CHECK(made.script.option("array")->value == "0-3%2");
    CHECK(made.array->highest == 3);
    CHECK(
        to_string(request("sweep: {grid: {a.b: [1]}}\nslurm_config:\n  array: 0-3\n").errors[0]) ==
        "t.yaml:4:10: slurm_config.array: stands beside `sweep`, which makes the array; remove "
        "one of them");
    CHECK(contains(
        to_string(request("sweep: {grid: {a.b: [1]}}\nslurm_config: {output: x.log}\n").errors[0]),
        "all jobs of the array would write to one file"));
    CHECK(list_array("1,4-7:3%2") == std::vector<long long>{1, 4, 7});
    CHECK(list_array("x").empty());
    CHECK(array_text({1, 3, 4, 5, 9}) == "1,3-5,9");
}

TEST_CASE("marks come as the rule says") {
    const auto median = rule_of("{rule: median, min_steps: 50, every: 20}");
    CHECK(newest_mark(median, 49) == std::nullopt);
    CHECK(newest_mark(median, 50) == 50);
    CHECK(newest_mark(median, 69) == 50);
    CHECK(newest_mark(median, 95) == 90);
    const auto asha = rule_of("{rule: asha, min_steps: 10, eta: 3}");
    CHECK(newest_mark(asha, 9) == std::nullopt);
    CHECK(newest_mark(asha, 29) == 10);
    CHECK(newest_mark(asha, 30) == 30);
    CHECK(newest_mark(asha, 1000) == 810);
    CHECK(newest_mark(asha, std::numeric_limits<std::int64_t>::max()) > 1'000'000'000'000'000'000);
    CHECK(newest_mark(EarlyStopSpec{}, 1000) == std::nullopt);

    MetricHistory history;
    CHECK_FALSE(history.take(asha, 4, 5.0));
    CHECK_FALSE(history.take(asha, 9, 3.0));
    CHECK(history.take(asha, 12, 4.0) ==
          SweepLook{.mark = 10, .step = 12, .value = 4, .mean = 4, .best = 3});
    CHECK_FALSE(history.take(asha, 11, 1.0));  // done again after a restart
    CHECK(history.count == 3);
    CHECK_FALSE(history.take(asha, 13, 4.0));
    CHECK(history.take(asha, 95, 6.0)->mark == 90);  // 30 was passed without a report
    CHECK(history.best_step == 9);
    CHECK(history.looks.size() == 2);
}

TEST_CASE("asha lets the best of a rung go on") {
    const auto rule = rule_of("{rule: asha, min_steps: 100, eta: 2}");
    CHECK(why_stop(rule, at(9), {}).empty());       // the first there has nobody to be worse than
    CHECK(why_stop(rule, at(1), {at(2)}).empty());  // 1 of 2
    CHECK(contains(why_stop(rule, at(3), {at(2)}),
                   "asha: its loss at the rung of step 100, 3, is number 2 of 2, and the best 1 go "
                   "on"));
    CHECK(why_stop(rule, at(3), {at(2), at(4)}).empty());  // 2 of 3
    CHECK_FALSE(why_stop(rule, at(5), {at(2), at(4)}).empty());
    CHECK(why_stop(rule, at(2), {at(2), at(2), at(2)}).empty());  // equal ones are not better
    CHECK_FALSE(why_stop(rule, at(kNan), {at(2)}).empty());
    CHECK(why_stop(rule, at(2), {at(kNan)}).empty());
    const auto most = rule_of("{rule: asha, mode: max, metric: tokens_per_second}");
    CHECK(why_stop(most, at(3), {at(2)}).empty());
    CHECK_FALSE(why_stop(most, at(1), {at(2)}).empty());
}

TEST_CASE("the median rule compares the best with the others' means") {
    const auto rule = rule_of("{rule: median, min_elements: 3}");
    const std::vector<SweepLook> others = {look(1, 3, 1), look(1, 4, 1), look(1, 5, 1)};
    CHECK(why_stop(rule, look(9, 9, 4.0), others).empty());
    CHECK(contains(why_stop(rule, look(9, 9, 4.1), others),
                   "median: its best loss until step 100, 4.1, is worse than 4, the median of the "
                   "means of 3 others"));
    CHECK(why_stop(rule, look(9, 9, 4.1), {others[0], others[1]}).empty());  // too few
    CHECK(why_stop(rule_of("{rule: median, min_elements: 2}"), look(9, 9, 3.6),
                   {others[0], others[1]}) != "");
    CHECK_FALSE(why_stop(rule, at(kNan), others).empty());
    const auto most = rule_of("{rule: median, mode: max}");
    CHECK(why_stop(most, look(1, 1, 4.0), others).empty());
    CHECK_FALSE(why_stop(most, look(9, 9, 3.9), others).empty());
    CHECK(why_stop(EarlyStopSpec{}, at(9), others).empty());
}

TEST_CASE("an element's record reads as it was written") {
    ElementRecord record{.element = 7, .run_dir = "/r/7", .array_job = "41", .updated = "now"};
    record.metric = "loss";
    record.exit_code = 3;
    record.total_steps = 10;
    record.history.take(rule_of("{rule: asha, min_steps: 1}"), 1, 2.5);
    record.history.take(rule_of("{rule: asha, min_steps: 1}"), 2, kNan);
    const auto again = parse_element_record(element_record_text(record));
    REQUIRE(again);
    CHECK(again->run_dir == "/r/7");
    CHECK(again->exit_code == 3);
    CHECK(std::isnan(again->history.last));
    CHECK(again->history.best == 2.5);
    CHECK(again->history.looks == record.history.looks);
    CHECK(element_record_text(*again) == element_record_text(record));
    CHECK_FALSE(parse_element_record(""));
    CHECK_FALSE(parse_element_record("{\"element\": 7}"));
    CHECK_FALSE(parse_element_record(std::string(1000, '[')));
}

TEST_CASE("an element stands as its record and Slurm say") {
    ElementRecord done{.element = 1, .run_dir = "/r", .array_job = "41", .updated = "12:00"};
    done.ended = true;
    done.exit_code = 0;
    ElementRecord failed = done, early = done, runs = done, again = done;
    failed.exit_code = 3;
    failed.outcome = "failed";
    early.stopped_early = "asha: …";
    runs.ended = false;
    again.exit_code = 75;
    const auto state = [](const ElementRecord* record, std::optional<std::string> slurm,
                          bool answered = true) {
        return judge_element(record, slurm, "41", answered).state;
    };
    using S = ElementState;
    CHECK(state(nullptr, "PENDING") == S::pending);
    CHECK(state(nullptr, "RUNNING") == S::running);
    CHECK(state(nullptr, "FAILED") == S::failed);
    CHECK(state(nullptr, std::nullopt) == S::failed);
    CHECK(state(nullptr, std::nullopt, false) == S::unknown);
    CHECK(state(&runs, "RUNNING") == S::running);
    CHECK(state(&runs, "TIMEOUT") == S::failed);
    CHECK(state(&runs, std::nullopt) == S::failed);
    CHECK(state(&runs, std::nullopt, false) == S::unknown);
    CHECK(state(&done, "COMPLETED") == S::done);
    CHECK(state(&done, "COMPLETING") == S::done);
    CHECK(state(&done, std::nullopt, false) == S::done);
    CHECK(state(&early, "COMPLETED") == S::stopped_early);
    CHECK(state(&failed, "FAILED") == S::failed);
    CHECK(state(&again, "PENDING") == S::pending);
    CHECK(state(&again, std::nullopt) == S::pending);
    // Submitted again: what an earlier start has written is not this one's.
    CHECK(judge_element(&failed, "PENDING", "52", true).state == S::pending);
    CHECK(judge_element(&failed, std::nullopt, "52", true).state == S::failed);
}

TEST_CASE("the table has the best first, and says what failed") {
    SweepTable table{.folder = "/runs/x", .metric = "loss"};
    for (int element = 0; element < 4; ++element) {
        ElementRow row{.element = element,
                       .values = {{"optimizer.lr", "1e-" + std::to_string(element)}}};
        ElementRecord record{.element = element, .run_dir = "/r", .array_job = "4", .updated = ""};
        if (element != 2)
            record.history.take({}, 10, element == 3 ? kNan : 5.0 - element);
        row.record = record;
        row.standing = {element == 1 ? ElementState::failed : ElementState::done,
                        element == 1 ? "exit code 3" : ""};
        table.rows.push_back(row);
    }
    sort_rows(table);
    std::vector<int> order;
    for (const ElementRow& row : table.rows)
        order.push_back(row.element);
    CHECK(order == std::vector<int>{1, 0, 3, 2});
    CHECK(sweep_text(table) ==
          "/runs/x · 4 elements, the lowest loss first\n"
          "  element  optimizer.lr  state   step  loss  best\n"
          "  1        1e-1          failed  10    4     4 @10\n"
          "  0        1e-0          done    10    5     5 @10\n"
          "  3        1e-3          done    10    nan   nan @10\n"
          "  2        1e-2          done    -     -     -\n"
          "3 done · 1 failed\n"
          "element 1: exit code 3\n"
          "autolaunch sweep resubmit /runs/x starts the failed one again\n");
    CHECK(contains(sweep_json(table), "\"state\": \"failed\""));
    CHECK(failed_elements(table) == std::vector<int>{1});
}

}  // namespace sweep_test
