#include "render/alertmanager_files.hpp"

#include "base/text.hpp"
#include "manifests/tree.hpp"
#include "manifests/yaml_text.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr char kAlways[] = "administrators", kCritical[] = "administrators-critical";

Value email_node(const AlertChannel& channel) {
    MapNode node;
    node.text("to", join(channel.recipients, ", "))
        .text("from", channel.from)
        .text("smarthost", channel.smarthost);
    if (!channel.user.empty())
        node.text("auth_username", channel.user).text("auth_password_file", channel.password_file);
    // To this machine there is nobody in between, and its certificate is nobody's.
    if (channel.smarthost.starts_with("localhost:") ||
        channel.smarthost.starts_with("127.0.0.1:") || channel.smarthost.starts_with("[::1]:"))
        node.boolean("require_tls", false);
    node.boolean("send_resolved", true);
    return node;
}

Value slack_node(const AlertChannel& channel) {
    MapNode node;
    node.text("api_url_file", channel.url_file);
    if (!channel.slack_channel.empty())
        node.text("channel", channel.slack_channel);
    node.boolean("send_resolved", true)
        .text("title", "{{ .Status | toUpper }}: {{ .CommonLabels.alertname }}")
        .text("text",
              "{{ range .Alerts }}{{ .Annotations.summary }}\n{{ .Annotations.description }}\n"
              "{{ end }}");
    return node;
}

Value webhook_node(const AlertChannel& channel) {
    MapNode node;
    node.text("url", channel.url);
    if (!channel.token_file.empty()) {
        MapNode token;
        token.text("type", "Bearer").text("credentials_file", channel.token_file);
        node.add("http_config", MapNode().add("authorization", token));
    }
    node.boolean("send_resolved", true);
    return node;
}

Value receiver_node(const std::string& name, const std::vector<AlertChannel>& channels,
                    bool critical) {
    std::vector<Value> emails, slacks, webhooks;
    for (const AlertChannel& channel : channels) {
        if (channel.only_critical && !critical)
            continue;
        switch (channel.kind) {
            case AlertChannel::Kind::email:
                emails.push_back(email_node(channel));
                break;
            case AlertChannel::Kind::slack:
                slacks.push_back(slack_node(channel));
                break;
            case AlertChannel::Kind::webhook:
                webhooks.push_back(webhook_node(channel));
                break;
        }
    }
    MapNode node;
    node.text("name", name)
        .add_if_any("email_configs", list_node(std::move(emails)))
        .add_if_any("slack_configs", list_node(std::move(slacks)))
        .add_if_any("webhook_configs", list_node(std::move(webhooks)));
    return node;
}

Value route_node(bool with_critical) {
    MapNode critical;
    critical.add("matchers", text_list_node({"severity=critical"}))
        .text("receiver", with_critical ? kCritical : kAlways)
        .text("group_wait", "10s")
        .text("repeat_interval", "2h");
    MapNode info;
    info.add("matchers", text_list_node({"severity=info"}))
        .text("receiver", kAlways)
        .text("repeat_interval", "24h");
    MapNode route;
    route.text("receiver", kAlways)
        .add("group_by", text_list_node({"alertname", "job_id"}))
        .text("group_wait", "30s")
        .text("group_interval", "5m")
        .text("repeat_interval", "12h")
        .add("routes", list_node({critical, info}));
    return route;
}

Value inhibition(const std::string& causes, std::vector<std::string> follow,
                 const std::string& label) {
    // Two without the label would count as equal: the cause must have it.
    MapNode node;
    node.add("source_matchers", text_list_node({causes, label + "!=\"\""}))
        .add("target_matchers", text_list_node(follow))
        .add("equal", text_list_node({label}));
    return node;
}

Value inhibitions() {
    return list_node({
        // Of a node that is down, nothing else.
        inhibition("alertname=NodeDown", {"alertname!=NodeDown"}, "node"),
        // A device or a lack of memory on a node: not that its ranks are slow, or idle.
        inhibition("alertname=~\"GpuXid|GpuMemoryBroken|NodeOutOfMemory|NodeHcaPortDown|"
                   "AutolaunchGpuMemoryErrors|AutolaunchOutOfMemory\"",
                   {"alertname=~\"AutolaunchRankSlow|AutolaunchGpuIdle|AutolaunchGpuHeldByNobody|"
                    "GpuIdleInJob\""},
                   "node"),
        // A file system that does not answer: not that the job waits for it.
        inhibition("alertname=AutolaunchFileSystemSilent",
                   {"alertname=~\"AutolaunchJobStandsStill|AutolaunchRankSlow|"
                    "AutolaunchStepsSlower|AutolaunchCheckpointOld|AutolaunchGpuIdle|"
                    "GpuIdleInJob\""},
                   "job_id"),
        // A job that stands still: not what follows from that.
        inhibition("alertname=AutolaunchJobStandsStill",
                   {"alertname=~\"AutolaunchRankSlow|AutolaunchStepsSlower|"
                    "AutolaunchCheckpointOld|AutolaunchGpuIdle|GpuIdleInJob\""},
                   "job_id"),
    });
}

}  // namespace

std::vector<RenderedFile> alertmanager_files(const std::vector<AlertChannel>& channels) {
    const bool with_critical =
        std::any_of(channels.begin(), channels.end(),
                    [](const AlertChannel& one) { return one.only_critical; });
    std::vector<Value> receivers = {receiver_node(kAlways, channels, false)};
    if (with_critical)
        receivers.push_back(receiver_node(kCritical, channels, true));
    MapNode root;
    root.add("route", route_node(with_critical))
        .add("inhibit_rules", inhibitions())
        .add("receivers", list_node(std::move(receivers)));
    return {{"alertmanager.yml",
             "# Made by autolaunch render alertmanager, for the rules of autolaunch render "
             "prometheus: one message a job and alert,\n"
             "# the root cause alone. Secrets are in the files that it names. Check it with\n"
             "#   amtool check-config alertmanager.yml\n" +
                 yaml_text(root),
             "whom to tell of what: amtool check-config"}};
}

}  // namespace autolaunch::launcher
