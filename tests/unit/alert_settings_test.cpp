// `alerting` as administrators and users write it: what it comes to, and where it says what is
// wrong.

#include "alerts/alert_settings.hpp"
#include "alerts/channel.hpp"
#include "spec/yaml_reader.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace alert_settings_test {

using namespace autolaunch::launcher;
using namespace autolaunch::launcher::alerts;
using namespace std::chrono_literals;

namespace {

struct Read {
    AlertSpec spec;
    std::vector<std::string> errors;
};

Read read(std::string_view yaml) {
    std::vector<SpecError> errors;
    const Value root = read_yaml(yaml, "train.yaml", errors);
    const SiteSettings settings = read_site_settings(root, SiteSource::job, errors);
    Read result{alerts_of(settings, errors), {}};
    for (const SpecError& error : errors)
        result.errors.push_back(to_string(error));
    return result;
}

std::string only_error(std::string_view yaml) {
    const Read result = read(yaml);
    REQUIRE_MESSAGE(result.errors.size() == 1, yaml);
    return result.errors[0];
}

}  // namespace

TEST_CASE("what people already write") {
    const Read result = read(R"(
monitoring:
  alerting:
    enabled: true
    channels:
      - type: "email"
        recipients: ["admin@cluster.domain.com"]
      - type: "slack"
        webhook_url: "${SLACK_WEBHOOK_URL}"
    alerts:
      - name: "high_gpu_temperature"
        condition: "gpu_temperature > 85"
        severity: "warning"
      - name: "job_failure"
        condition: "job_status == 'failed'"
        severity: "critical"
)");
    CHECK(result.errors.empty());
    REQUIRE(result.spec.rules.size() == 2);
    CHECK(rules_of(result.spec)[1].severity == Severity::critical);
    REQUIRE(result.spec.channels.size() == 2);
    CHECK(result.spec.channels[0].smtp == "smtp://localhost:25");
    CHECK_FALSE(result.spec.channels[0].starttls);  // this machine's own
    CHECK(result.spec.channels[1].url_variable == "SLACK_WEBHOOK_URL");
}

TEST_CASE("alerts and channels right below monitoring") {
    const Read result = read(R"(
monitoring:
  channels: [{type: command, command: [logger, -t, alerts]}]
  alerts:
    - {alert: idle, condition: gpu_utilization < 50 for 10m, notify: command}
    - {alert: slow, condition: step_time > 2 * median, for: 5m, severity: critical}
)");
    CHECK(result.errors.empty());
    REQUIRE(result.spec.rules.size() == 2);
    CHECK(result.spec.rules[0].hold == 10min);
    CHECK(result.spec.rules[1].hold == 5min);
    CHECK(result.spec.rules[0].notify == std::vector<std::string>{"command"});
}

TEST_CASE("turned off, nothing is told") {
    const Read result =
        read("alerting: {enabled: false, alerts: [{alert: a, condition: loss > 1}]}");
    CHECK(result.errors.empty());
    CHECK(result.spec.rules.empty());
}

TEST_CASE("a mistake is said where it stands") {
    CHECK(
        only_error("alerting:\n  alerts:\n    - {alert: a, condition: \"gpu_temprature > 85\"}") ==
        "train.yaml:3:30: alerting.alerts[0].condition: there is no metric \"gpu_temprature\"; "
        "did you mean gpu_temperature?");
    CHECK(only_error("alerting: {alerts: [{alert: a, condition: loss > 1, severty: x}]}")
              .find("did you mean \"severity\"?") != std::string::npos);
    CHECK(only_error("alerting: {alerts: [{alert: a, condition: loss > 1, severity: bad}]}")
              .find("expected info, warning or critical") != std::string::npos);
    CHECK(only_error("alerting: {alerts: [{alert: a, condition: loss > 1, notify: pager}]}")
              .find("no channel is called \"pager\"; there are none") != std::string::npos);
    CHECK(only_error("alerting: {alerts: [{alert: a, condition: loss > 1 for 1m, for: 2m}]}")
              .find("the condition says another time") != std::string::npos);
    CHECK(only_error("alerting: {alerts: [{condition: loss > 1}]}").find("alert: is missing") !=
          std::string::npos);
    CHECK(only_error("alerting: {messages_a_day: 0}").find("from 1 to 10000") != std::string::npos);
    CHECK(only_error("alerting: {channels: [{type: pager}]}")
              .find("expected email, slack, webhook, alertmanager or command") !=
          std::string::npos);
    CHECK(only_error("alerting: {channels: [{type: email, recipients: [nobody]}]}")
              .find("\"nobody\" is no address") != std::string::npos);
    CHECK(only_error("alerting: {channels: [{type: command, command: rm -rf /}]}")
              .find("a program and its arguments as a list") != std::string::npos);
}

TEST_CASE("no secret stands in a spec, and none travels in clear") {
    const std::string webhook = only_error(
        "alerting: {channels: [{type: slack, webhook_url: \"https://hooks.slack.com/a/b\"}]}");
    CHECK(webhook.find("webhook_file") != std::string::npos);
    CHECK(webhook.find("hooks.slack.com/a/b") == std::string::npos);
    CHECK(only_error("alerting: {channels: [{type: email, recipients: [a@b.c], smtp: "
                     "\"smtp://mail:25\", starttls: false, user: u, password_file: /p}]}")
              .find("a password may not travel in clear") != std::string::npos);
    CHECK(only_error("alerting: {channels: [{type: alertmanager, url: \"http://am:9093\", user: u, "
                     "password_file: /p}]}")
              .find("a password may not travel in clear") != std::string::npos);
    CHECK(only_error("alerting: {channels: [{type: alertmanager, url: \"http://u:p@am:9093\"}]}")
              .find("user and password do not belong into an address") != std::string::npos);
    // A name that begins as this machine's is another's.
    for (const char* host : {"localhost.example.org", "127.example.org", "127.0.0.1.example.org"})
        CHECK(
            only_error("alerting: {channels: [{type: email, recipients: [a@b.c], smtp: \"smtp://" +
                       std::string(host) + ":25\", starttls: false, user: u, password_file: /p}]}")
                .find("a password may not travel in clear") != std::string::npos);
    const Read plain =
        read("alerting: {channels: [{type: alertmanager, url: \"http://am:9093/\"}]}");
    CHECK(plain.errors.empty());
    CHECK(plain.spec.channels[0].url == "http://am:9093");
    CHECK(caution_of(plain.spec.channels[0]).find("travel in clear") != std::string::npos);
}

}  // namespace alert_settings_test
