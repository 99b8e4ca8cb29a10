#include "render/channels.hpp"

#include "base/refuse.hpp"
#include "base/text.hpp"
#include "secrets/secrets.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr char kSlackUrlFile[] = "/etc/prometheus/secrets/slack-webhook-url";
constexpr char kExample[] = "alerting: {channels: [{type: email, recipients: [hpc@example.org]}]}";

// As a job's own alerts read them, too (docs/alerts.md): some of it is a job's alone.
constexpr std::array<std::string_view, 13> kEmailKeys = {
    "type",     "name", "severity",      "recipients", "smarthost",          "smtp",
    "starttls", "from", "auth_username", "user",       "auth_password_file", "password_file",
    "ca_file"};
constexpr std::array<std::string_view, 8> kSlackKeys = {
    "type",         "name",    "severity", "webhook_url", "webhook_url_file",
    "webhook_file", "channel", "ca_file"};
constexpr std::array<std::string_view, 6> kWebhookKeys = {"type", "name",       "severity",
                                                          "url",  "token_file", "ca_file"};

std::span<const std::string_view> keys_of(AlertChannel::Kind kind) {
    switch (kind) {
        case AlertChannel::Kind::slack:
            return kSlackKeys;
        case AlertChannel::Kind::webhook:
            return kWebhookKeys;
        case AlertChannel::Kind::email:
            break;
    }
    return kEmailKeys;
}

std::optional<AlertChannel::Kind> kind_from(std::string_view word) {
    if (word == "email")
        return AlertChannel::Kind::email;
    if (word == "slack")
        return AlertChannel::Kind::slack;
    if (word == "webhook")
        return AlertChannel::Kind::webhook;
    return std::nullopt;
}

class ChannelReader {
public:
    ChannelReader(const Value& mapping, std::vector<std::string>& wrong,
                  std::vector<std::string>& notes)
        : mapping_(mapping), wrong_(wrong), notes_(notes) {}

    AlertChannel read() {
        AlertChannel channel;
        const std::string type = text("type");
        const auto kind = kind_from(type);
        if (!kind) {
            complain(mapping_.at,
                     type.empty() ? "has no type: email, slack or webhook"
                                  : "type is \"" + type + "\": expected email, slack or webhook");
            return channel;
        }
        channel.kind = *kind;
        check_keys(*kind);
        read_severity(channel);
        if (*kind == AlertChannel::Kind::email)
            read_email(channel);
        else if (*kind == AlertChannel::Kind::slack)
            read_slack(channel);
        else
            read_webhook(channel);
        return channel;
    }

private:
    void complain(const Origin& at, const std::string& what) {
        wrong_.push_back(place_of(at) + ": alerting.channels: " + what);
    }
    std::string text(const char* key) {
        const Entry* entry = mapping_.find(key);
        if (entry == nullptr || entry->value.is_null())
            return {};
        if (!entry->value.is_scalar())
            complain(entry->value.at, std::string(key) + ": expected text");
        return entry->value.text;
    }
    std::string text_of_either(const char* key, const char* other) {
        std::string found = text(key);
        return found.empty() ? text(other) : found;
    }
    std::string file(const char* key, const char* other) {
        return mapping_.find(key) != nullptr ? file(key) : file(other);
    }
    std::string file(const char* key) {
        std::string path = text(key);
        if (!path.empty() && path[0] != '/')
            complain(mapping_.find(key)->value.at,
                     std::string(key) +
                         ": expected a file's whole path, as Alertmanager's machine "
                         "has it");
        return path;
    }
    void check_keys(AlertChannel::Kind kind) {
        const auto keys = keys_of(kind);
        const std::vector<std::string> known(keys.begin(), keys.end());
        for (const Entry& entry : mapping_.entries)
            if (std::find(known.begin(), known.end(), entry.key) == known.end())
                complain(entry.key_at, entry.key + ": unknown key; expected " + join(known, ", "));
    }
    void read_severity(AlertChannel& channel) {
        const std::string severity = text("severity");
        if (!severity.empty() && severity != "critical")
            complain(mapping_.find("severity")->value.at,
                     "severity: expected critical; without it, all alerts are told");
        channel.only_critical = severity == "critical";
    }
    void read_email(AlertChannel& channel) {
        const Entry* entry = mapping_.find("recipients");
        const bool list = entry != nullptr && entry->value.is_sequence();
        for (const Value& item : list ? entry->value.items : std::vector<Value>{})
            channel.recipients.push_back(item.is_scalar() ? item.text : "");
        const bool addresses =
            !channel.recipients.empty() &&
            std::all_of(channel.recipients.begin(), channel.recipients.end(),
                        [](const std::string& one) {
                            return one.find('@') != std::string::npos &&
                                   one.find_first_of(" ,\r\n") == std::string::npos;
                        });
        if (!addresses)
            complain(entry == nullptr ? mapping_.at : entry->value.at,
                     "recipients: expected a list of addresses");
        channel.smarthost = text("smarthost");
        if (const std::string smtp = text("smtp"); smtp.starts_with("smtp://"))
            channel.smarthost = smtp.substr(7);
        if (channel.smarthost.empty())
            channel.smarthost = "localhost:25";
        else if (channel.smarthost.find(':') == std::string::npos)
            complain(mapping_.at, "smarthost: expected HOST:PORT");
        channel.from = text("from");
        if (channel.from.empty())
            channel.from = "alertmanager@localhost";
        channel.user = text_of_either("auth_username", "user");
        channel.password_file = file("auth_password_file", "password_file");
        if (channel.user.empty() != channel.password_file.empty())
            complain(mapping_.at, "auth_username and auth_password_file go together");
    }
    void read_slack(AlertChannel& channel) {
        channel.slack_channel = text("channel");
        channel.url_file = file("webhook_url_file", "webhook_file");
        const std::string url = text("webhook_url");
        const bool variable = url.starts_with("${") && url.ends_with('}');
        if (!url.empty() && !variable)
            complain(mapping_.find("webhook_url")->value.at,
                     "webhook_url: whoever has it may write to the channel, and everybody may "
                     "read this file; put it into one of Alertmanager's own (mode 0600), and "
                     "write webhook_url_file: " +
                         std::string(kSlackUrlFile));
        if (!channel.url_file.empty())
            return;
        channel.url_file = kSlackUrlFile;
        notes_.push_back(place_of(mapping_.at) + ": Alertmanager reads Slack's address from " +
                         channel.url_file + ": write " +
                         (variable ? "the value of " + url.substr(2, url.size() - 3) : "it") +
                         " into that file, for Alertmanager's user alone (mode 0600)");
    }
    void read_webhook(AlertChannel& channel) {
        channel.url = text("url");
        channel.token_file = file("token_file");
        const Entry* entry = mapping_.find("url");
        if (!channel.url.starts_with("http://") && !channel.url.starts_with("https://"))
            complain(entry == nullptr ? mapping_.at : entry->value.at,
                     "url: expected http:// or https://");
        else if (channel.url.find('@') != std::string::npos ||
                 mask_secrets(channel.url) != channel.url)
            complain(entry->value.at,
                     "url: has a secret in it; a token goes into a file: token_file");
    }

    const Value& mapping_;
    std::vector<std::string>& wrong_;
    std::vector<std::string>& notes_;
};

}  // namespace

std::vector<AlertChannel> read_channels(const SiteSettings& settings,
                                        std::vector<std::string>& notes) {
    const SiteSetting* setting = settings.find("alerting.channels");
    if (setting == nullptr || setting->value.items.empty())
        refuse("Alertmanager would tell nobody: there is no alerting.channels", kExample);
    std::vector<std::string> wrong;
    std::vector<AlertChannel> channels;
    for (const Value& mapping : setting->value.items) {
        const Entry* type = mapping.find("type");
        if (type != nullptr &&
            (type->value.text == "alertmanager" || type->value.text == "command")) {
            notes.push_back(place_of(mapping.at) + ": " + type->value.text +
                            " is a channel of jobs alone, and left out");
            continue;
        }
        channels.push_back(ChannelReader(mapping, wrong, notes).read());
    }
    if (!wrong.empty()) {
        const std::string first = wrong.front();
        wrong.erase(wrong.begin());
        refuse(first, join(wrong, "\n"));
    }
    if (const SiteSetting* enabled = settings.find("alerting.enabled");
        enabled != nullptr && enabled->value.text == "false")
        notes.push_back(place_of(enabled->value.at) +
                        ": alerting.enabled is false; the configuration is written all the same");
    return channels;
}

}  // namespace autolaunch::launcher
