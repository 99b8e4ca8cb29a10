// When an alert begins and when it is over, what is told of it and how often, in which words, and
// what the next head makes of it.

#include "alerts/incident_book.hpp"
#include "alerts/message.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <string>
#include <variant>
#include <vector>

namespace alert_incidents_test {

using namespace autolaunch::launcher;
using namespace autolaunch::launcher::alerts;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

const WallTime kBegin = std::chrono::system_clock::from_time_t(1795866582);  // 11:49:42 UTC

AlertRule rule(std::string name, std::string condition, std::chrono::milliseconds hold = 0ms,
               Severity severity = Severity::warning) {
    return {std::move(name), std::get<Condition>(parse_condition(condition)), hold, severity};
}

using Looks = std::vector<std::vector<Match>>;
const std::vector<Match> kNone;
std::vector<Match> of(std::vector<std::string> subjects) {
    std::vector<Match> result;
    for (std::string& one : subjects)
        result.push_back({std::move(one), "gpu_temperature is 91 °C"});
    return result;
}

const AlertedJob kJob = {.name = "gpt",
                         .job_id = "4711",
                         .run_id = "gpt-1",
                         .run_dir = "/runs/gpt-1",
                         .user = "ann",
                         .host = "node1",
                         .cause = {}};

}  // namespace

TEST_CASE("an alert begins once it has held for its time, and is told once") {
    IncidentBook book({rule("hot", "gpu_temperature > 85", 5min)}, 50);
    CHECK(book.look(kBegin, Looks{of({"GPU 1 of node1"})}).empty());
    CHECK(book.look(kBegin + 4min, Looks{of({"GPU 1 of node1"})}).empty());
    const auto begun = book.look(kBegin + 5min, Looks{of({"GPU 1 of node1"})});
    REQUIRE(begun.size() == 1);
    CHECK(begun[0].alerts[0].since == kBegin);
    CHECK(book.look(kBegin + 6min, Looks{of({"GPU 1 of node1", "GPU 2 of node1"})}).empty());
    CHECK(book.look(kBegin + 6min + 30s, Looks{kNone}).empty());  // it may come again
    const auto over = book.look(kBegin + 8min, Looks{kNone});
    REQUIRE(over.size() == 1);
    CHECK(over[0].kind == Notice::Kind::over);
    CHECK(over[0].alerts[0].matches.size() == 2);
    CHECK(book.firing().empty());
}

TEST_CASE("a moment in which it does not hold begins its time anew") {
    IncidentBook book({rule("hot", "gpu_temperature > 85", 5min)}, 50);
    book.look(kBegin, Looks{of({"a"})});
    book.look(kBegin + 3min, Looks{kNone});
    CHECK(book.look(kBegin + 6min, Looks{of({"a"})}).empty());
    CHECK(book.look(kBegin + 11min, Looks{of({"a"})}).size() == 1);
}

TEST_CASE("what begins together is one message, what became of the job first") {
    IncidentBook book({rule("slow", "step_age > 60", 0ms, Severity::critical),
                       rule("dead", "job_status == 'failed'", 0ms, Severity::warning),
                       rule("hot", "gpu_temperature > 85", 0ms, Severity::info)},
                      50);
    const auto begun = book.look(kBegin, Looks{of({""}), of({""}), of({"GPU 1 of node1"})});
    REQUIRE(begun.size() == 1);
    REQUIRE(begun[0].alerts.size() == 3);
    CHECK(begun[0].alerts[0].name == "dead");
    CHECK(begun[0].alerts[1].name == "slow");
    CHECK(text_of(begun[0], kJob).subject == "[critical] dead, slow, hot: gpt, job 4711");
    // It is over when all of them are.
    CHECK(book.look(kBegin + 2min, Looks{of({""}), of({""}), kNone}).empty());
    const auto end = book.finish(kBegin + 3min);  // that the job failed is not over
    CHECK(end.empty());
    CHECK(book.firing().size() == 1);
}

TEST_CASE("an alert that comes and goes is over later each time") {
    IncidentBook book({rule("flaps", "gpu_temperature > 85")}, 1000);
    int messages = 0;
    for (auto at = 0s; at < 6h; at += 30s) {
        const bool holds = at % 2min < 30s;
        messages +=
            static_cast<int>(book.look(kBegin + at, Looks{holds ? of({"a"}) : kNone}).size());
    }
    CHECK(messages < 30);  // of 180 times that it came
}

TEST_CASE("a day has so many messages, and the last one says so") {
    IncidentBook book({rule("a", "loss > 1"), rule("b", "loss > 2"), rule("c", "loss > 3")}, 2);
    const auto first = book.look(kBegin, Looks{of({""}), kNone, kNone});
    REQUIRE(first.size() == 1);
    CHECK_FALSE(first[0].is_last);
    const auto second = book.look(kBegin + 1min, Looks{of({""}), of({""}), kNone});
    REQUIRE(second.size() == 1);
    CHECK(second[0].is_last);
    CHECK(text_of(second[0], kJob).body.find("the last message of the day") != std::string::npos);
    CHECK(book.look(kBegin + 2min, Looks{of({""}), of({""}), of({""})}).empty());
    // Nobody was told that it began, so nobody is told of its end.
    CHECK(book.look(kBegin + 60min, Looks{of({""}), of({""}), kNone}).empty());
    const auto tomorrow = book.look(kBegin + 25h, Looks{of({""}), of({""}), of({""})});
    REQUIRE(tomorrow.size() == 1);
    CHECK(tomorrow[0].held_back == 1);
    CHECK(text_of(tomorrow[0], kJob).body.find("1 incidents before this one") != std::string::npos);
}

TEST_CASE("the next head goes on with what was open") {
    const std::vector<AlertRule> rules = {rule("hot", "gpu_temperature > 85"),
                                          rule("new", "loss > 1")};
    IncidentBook book(rules, 50);
    book.look(kBegin, Looks{of({"GPU 1 of node1"}), kNone});
    IncidentBook next(rules, 50);
    REQUIRE(next.restore(book.to_json()));
    CHECK(next.look(kBegin + 1min, Looks{of({"GPU 1 of node1"}), kNone}).empty());
    const auto over = next.look(kBegin + 3min, Looks{kNone, kNone});
    REQUIRE(over.size() == 1);
    CHECK(over[0].incident == 1);
    for (const char* wrong : {"", "[]", "{}", "{\"incidents\":1}", "nonsense",
                              R"({"incidents":"x","held_back":0,"told":[],"firing":{}})",
                              R"({"incidents":1,"held_back":0,"told":[],"firing":{"hot":7}})"}) {
        IncidentBook untouched(rules, 50);
        CHECK_FALSE(untouched.restore(wrong));
        CHECK(untouched.firing().empty());
    }
}

TEST_CASE("a clock that is set back ends nothing and tells nothing twice") {
    IncidentBook book({rule("hot", "gpu_temperature > 85", 1min)}, 50);
    book.look(kBegin, Looks{of({"a"})});
    CHECK(book.look(kBegin - 1h, Looks{of({"a"})}).empty());
    CHECK(book.look(kBegin - 1h + 1min, Looks{of({"a"})}).size() == 1);
    CHECK(book.look(kBegin - 1h + 2min, Looks{of({"a"})}).empty());
}

TEST_CASE("ranks are told together") {
    CHECK(subjects_of(of({"rank 3", "rank 0", "rank 1", "rank 2"})) == "ranks 0-3");
    CHECK(subjects_of(of({"rank 7"})) == "rank 7");
    CHECK(subjects_of(of({""})) == "");
    std::vector<std::string> many;
    for (int i = 0; i < 20; ++i)
        many.push_back("GPU " + std::to_string(i) + " of node1");
    CHECK(subjects_of(of(many)).ends_with("GPU 7 of node1 and 12 more"));
}

TEST_CASE("a mail is one thread for each incident, and nothing breaks its headers") {
    IncidentBook book({rule("hot\r\nBcc: all@example.org", "gpu_temperature > 85")}, 50);
    const auto begun = book.look(kBegin, Looks{of({"GPU 1 of node1"})});
    const std::vector<std::string> to = {"ops@example.org", "ann@example.org"};
    AlertedJob job = kJob;
    job.name = "größe";
    const std::string mail = mail_of(begun[0], job, "autolaunch@node1", to);
    CHECK(mail.find("Date: Sat, 28 Nov 2026 11:49:42 +0000\r\n") == 0);
    CHECK(mail.find("\r\nTo: ops@example.org, ann@example.org\r\n") != std::string::npos);
    CHECK(mail.find("\r\nSubject: =?UTF-8?B?") != std::string::npos);
    CHECK(mail.find("\r\nBcc:") == std::string::npos);
    CHECK(mail.find("\r\nMessage-ID: <autolaunch.gpt-1.1.began@node1>\r\n") != std::string::npos);
    for (std::size_t at = mail.find('\n'); at != std::string::npos; at = mail.find('\n', at + 1))
        CHECK(mail[at - 1] == '\r');
    const auto over = book.look(kBegin + 3min, Looks{kNone});
    REQUIRE(over.size() == 1);
    const std::string reply = mail_of(over[0], job, "autolaunch@node1", to);
    CHECK(reply.find("\r\nIn-Reply-To: <autolaunch.gpt-1.1.began@node1>\r\n") != std::string::npos);
    CHECK(reply.find("\r\nMessage-ID: <autolaunch.gpt-1.1.over@node1>\r\n") != std::string::npos);
}

TEST_CASE("a long subject in other letters is cut between them") {
    Notice notice;
    notice.at = kBegin;
    notice.alerts.emplace_back();
    for (int i = 0; i < 60; ++i)
        notice.alerts[0].name += "ü";
    const std::vector<std::string> to = {"ops@example.org"};
    const std::string mail = mail_of(notice, kJob, "a@b", to);
    const std::size_t begin = mail.find("Subject: "), end = mail.find("\r\nMessage-ID");
    const std::string subject = mail.substr(begin, end - begin);
    CHECK(subject.find("\r\n =?UTF-8?B?") != std::string::npos);
    // A piece that was cut within a letter has a byte over: w7 is the beginning of one.
    CHECK(subject.find("ww==?=") == std::string::npos);
}

TEST_CASE("what programs get is JSON with what they need") {
    IncidentBook book({rule("hot", "gpu_temperature > 85", 0ms, Severity::critical)}, 50);
    const auto begun = book.look(kBegin, Looks{of({"rank 0", "rank 1"})});
    const json alerts = json::parse(alertmanager_json(begun[0].alerts, kJob, kBegin + 5min));
    CHECK(alerts[0]["labels"]["alertname"] == "hot");
    CHECK(alerts[0]["labels"]["job_id"] == "4711");
    CHECK(alerts[0]["startsAt"] == "2026-11-28T11:49:42Z");
    CHECK(alerts[0]["endsAt"] == "2026-11-28T11:54:42Z");
    CHECK(alerts[0]["annotations"]["summary"] == "gpu_temperature > 85, of ranks 0-1");
    const json slack = json::parse(slack_json(begun[0], kJob));
    CHECK(slack["text"] == "[critical] hot: gpt, job 4711");
    CHECK(slack["blocks"].size() == 2);
    const json notice = json::parse(notice_json(begun[0], kJob));
    CHECK(notice["kind"] == "began");
    CHECK(notice["alerts"][0]["of"].size() == 2);
    CHECK(base64("") == "");
    CHECK(base64("f") == "Zg==");
    CHECK(base64("fo") == "Zm8=");
    CHECK(base64("foobar") == "Zm9vYmFy");
}

}  // namespace alert_incidents_test
