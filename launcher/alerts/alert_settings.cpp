#include "alerts/alert_settings.hpp"

#include "base/text.hpp"
#include "secrets/secrets.hpp"
#include "site/site_vault.hpp"
#include "spec/scalar.hpp"
#include "spec/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

namespace autolaunch::launcher::alerts {

namespace {

constexpr long long kMostMessages = 10'000;

/// One entry of a list: its keys, each looked at once.
class EntryReader {
public:
    EntryReader(const Value& entry, std::string path, std::vector<SpecError>& errors)
        : entry_(entry), path_(std::move(path)), errors_(errors) {}

    void fail(const Origin& at, const std::string& key, std::string message) {
        errors_.push_back(error_at(at, path_ + (key.empty() ? "" : '.' + key), std::move(message)));
    }
    void fail(const std::string& key, std::string message) {
        const Entry* entry = entry_.find(key);
        fail(entry == nullptr ? entry_.at : entry->value.at, key, std::move(message));
    }
    const Entry* find(const std::string& key) const { return entry_.find(key); }

    /// A key may have two names; the first is ours.
    std::string text(std::initializer_list<const char*> keys) {
        for (const char* key : keys) {
            const Entry* entry = entry_.find(key);
            if (entry == nullptr)
                continue;
            if (entry->value.is_scalar() && !entry->value.text.empty())
                return entry->value.text;
            fail(key, "expected text; found " + describe(entry->value));
        }
        return {};
    }
    /// A list, or one of it alone.
    std::vector<std::string> texts(std::initializer_list<const char*> keys) {
        std::vector<std::string> result;
        for (const char* key : keys) {
            const Entry* entry = entry_.find(key);
            if (entry == nullptr)
                continue;
            if (entry->value.is_scalar())
                result.push_back(entry->value.text);
            else if (!entry->value.is_sequence())
                fail(key, "expected a list of texts; found " + describe(entry->value));
            for (const Value& item : entry->value.items) {
                if (item.is_scalar())
                    result.push_back(item.text);
                else
                    fail(item.at, key, "expected text; found " + describe(item));
            }
        }
        return result;
    }
    bool boolean(const char* key, bool otherwise) {
        const Entry* entry = entry_.find(key);
        if (entry == nullptr)
            return otherwise;
        const auto word = entry->value.is_scalar() ? boolean_from(entry->value.text) : std::nullopt;
        if (!word)
            fail(key, "expected true or false; found " + describe(entry->value));
        return word.value_or(otherwise);
    }
    void refuse_others(const std::vector<std::string>& known) {
        for (const Entry& entry : entry_.entries) {
            if (std::find(known.begin(), known.end(), entry.key) != known.end())
                continue;
            const std::string near = nearest(entry.key, known);
            fail(entry.key_at, entry.key,
                 near.empty() ? "unknown key; there are " + join(known, ", ")
                              : "unknown key; did you mean \"" + near + "\"?");
        }
    }

private:
    const Value& entry_;
    std::string path_;
    std::vector<SpecError>& errors_;
};

std::string path_of(std::string_view list, std::size_t index) {
    return "alerting." + std::string(list) + '[' + std::to_string(index) + ']';
}

// "${SLACK_WEBHOOK_URL}" as a whole: the variable's name. Nothing is replaced in these sections.
std::optional<std::string> variable_in(std::string_view text) {
    if (!text.starts_with("${") || !text.ends_with('}'))
        return std::nullopt;
    const std::string name(text.substr(2, text.size() - 3));
    const bool is_name =
        !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
            return std::isalnum(c) != 0 || c == '_';
        });
    return is_name ? std::optional(name) : std::nullopt;
}

bool is_mail_address(std::string_view text) {
    const std::size_t at = text.find('@');
    return at != text.npos && at > 0 && at + 1 < text.size() &&
           text.find('@', at + 1) == text.npos &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) {
               return c > ' ' && c != 0x7f && c != '<' && c != '>' && c != ',' && c != ';';
           });
}

bool is_url_of(std::string_view text, std::initializer_list<std::string_view> schemes) {
    return std::any_of(schemes.begin(), schemes.end(), [&](std::string_view scheme) {
        return text.starts_with(scheme) && text.size() > scheme.size() &&
               std::none_of(text.begin(), text.end(),
                            [](unsigned char c) { return c <= ' ' || c == 0x7f; });
    });
}

void read_email(EntryReader& entry, AlertChannelSpec& channel) {
    channel.recipients = entry.texts({"recipients", "to"});
    if (channel.recipients.empty())
        entry.fail("recipients", "expected one address or more");
    for (const std::string& one : channel.recipients)
        if (!is_mail_address(one))
            entry.fail("recipients", "\"" + one + "\" is no address, such as ops@example.org");
    channel.from = entry.text({"from"});
    if (!channel.from.empty() && !is_mail_address(channel.from))
        entry.fail("from", "expected an address, such as autolaunch@example.org");
    if (const std::string url = entry.text({"smtp"}); !url.empty())
        channel.smtp = url;
    else if (const std::string host = entry.text({"smarthost"}); !host.empty())
        channel.smtp = "smtp://" + host;
    if (!is_url_of(channel.smtp, {"smtp://", "smtps://"}))
        entry.fail("smtp", "expected smtp://HOST:PORT or smtps://HOST:PORT");
    if (channel.smtp.find('@') != std::string::npos)
        entry.fail("smtp", "user and password do not belong into an address: user, password_file");
    // This machine's own, which sends mails on, mostly has no certificate.
    const bool is_local = is_own_machine(channel.smtp);
    channel.starttls = entry.boolean("starttls", !is_local);
    channel.user = entry.text({"user", "auth_username"});
    channel.password_file = entry.text({"password_file", "auth_password_file"});
    channel.ca_file = entry.text({"ca_file"});
    if (channel.user.empty() != channel.password_file.empty())
        entry.fail(channel.user.empty() ? "password_file" : "user",
                   "user and password_file belong together");
    if (!channel.user.empty() && !channel.starttls && !is_local)
        entry.fail("starttls", "a password may not travel in clear: starttls: true");
    entry.refuse_others({"name", "type", "severity", "recipients", "to", "from", "smtp",
                         "smarthost", "starttls", "user", "auth_username", "password_file",
                         "auth_password_file", "ca_file"});
}

void read_slack(EntryReader& entry, AlertChannelSpec& channel) {
    channel.url_file = entry.text({"webhook_file", "webhook_url_file"});
    channel.ca_file = entry.text({"ca_file"});
    if (const std::string url = entry.text({"webhook_url"}); !url.empty()) {
        if (const auto name = variable_in(url))
            channel.url_variable = *name;
        else
            entry.fail("webhook_url",
                       "whoever knows a webhook's URL can write there: put it into a file of mode "
                       "0600 and name that with webhook_file, or a variable with ${VAR}");
    } else if (channel.url_file.empty()) {
        entry.fail("", "expected webhook_file, a file with the URL of a Slack webhook");
    }
    if (!channel.url_file.empty() && !channel.url_variable.empty())
        entry.fail("webhook_url", "webhook_file says it already");
    entry.refuse_others({"name", "type", "severity", "webhook_url", "webhook_file",
                         "webhook_url_file", "channel", "ca_file"});
}

void read_alertmanager(EntryReader& entry, AlertChannelSpec& channel) {
    channel.url = entry.text({"url"});
    channel.user = entry.text({"user"});
    channel.password_file = entry.text({"password_file"});
    channel.ca_file = entry.text({"ca_file"});
    if (!is_url_of(channel.url, {"http://", "https://"}))
        entry.fail("url", "expected http://HOST:9093 or https://HOST:PORT");
    if (channel.url.find('@') != std::string::npos)
        entry.fail("url", "user and password do not belong into an address: user, password_file");
    while (channel.url.ends_with('/'))
        channel.url.pop_back();
    if (channel.user.empty() != channel.password_file.empty())
        entry.fail(channel.user.empty() ? "password_file" : "user",
                   "user and password_file belong together");
    if (!channel.user.empty() && !is_safe_vault_address(channel.url))
        entry.fail("url", "a password may not travel in clear: https://");
    entry.refuse_others({"name", "type", "severity", "url", "user", "password_file", "ca_file"});
}

void read_webhook(EntryReader& entry, AlertChannelSpec& channel) {
    channel.url = entry.text({"url"});
    channel.token_file = entry.text({"token_file"});
    channel.ca_file = entry.text({"ca_file"});
    if (!is_url_of(channel.url, {"http://", "https://"}))
        entry.fail("url", "expected https://HOST/PATH");
    if (channel.url.find('@') != std::string::npos || mask_secrets(channel.url) != channel.url)
        entry.fail("url", "has a secret in it; a token goes into a file: token_file");
    if (!channel.token_file.empty() && !is_safe_vault_address(channel.url))
        entry.fail("url", "a token may not travel in clear: https://");
    entry.refuse_others({"name", "type", "severity", "url", "token_file", "ca_file"});
}

void read_command(EntryReader& entry, AlertChannelSpec& channel) {
    const Entry* command = entry.find("command");
    if (command == nullptr || !command->value.is_sequence() || command->value.items.empty())
        return entry.fail("command",
                          "expected a program and its arguments as a list: it is run without a "
                          "shell, and gets the message as JSON on its stdin");
    channel.command = entry.texts({"command"});
    entry.refuse_others({"name", "type", "severity", "command"});
}

AlertChannelSpec read_channel(const Value& value, std::size_t index,
                              std::vector<SpecError>& errors) {
    using Kind = AlertChannelSpec::Kind;
    struct KindWord {
        std::string_view word;
        Kind kind;
        void (*read)(EntryReader&, AlertChannelSpec&);
    };
    static const std::array<KindWord, 5> kKinds = {
        KindWord{"email", Kind::email, read_email},
        {"slack", Kind::slack, read_slack},
        {"alertmanager", Kind::alertmanager, read_alertmanager},
        {"webhook", Kind::webhook, read_webhook},
        {"command", Kind::command, read_command}};
    EntryReader entry(value, path_of("channels", index), errors);
    AlertChannelSpec channel;
    const std::string type = entry.text({"type"});
    channel.name = entry.text({"name"});
    if (channel.name.empty())
        channel.name = type;
    const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const KindWord& one) { return one.word == type; });
    if (kind == kKinds.end()) {
        entry.fail("type", "expected email, slack, webhook, alertmanager or command" +
                               (type.empty() ? std::string() : "; found \"" + type + '"'));
        return channel;
    }
    channel.kind = kind->kind;
    const std::string severity = entry.text({"severity"});
    channel.only_critical = severity == "critical";
    if (!severity.empty() && !channel.only_critical)
        entry.fail("severity", "expected critical; without it, all alerts are told");
    kind->read(entry, channel);
    return channel;
}

void read_condition(EntryReader& entry, AlertRuleSpec& rule) {
    const Entry* written = entry.find("condition");
    if (written == nullptr)
        return entry.fail("condition", "is missing: what to tell of, such as gpu_temperature > 85");
    rule.condition = entry.text({"condition"});
    if (rule.condition.empty())
        return;
    const auto parsed = parse_condition(rule.condition);
    if (const auto* wrong = std::get_if<ConditionError>(&parsed)) {
        // Of a text on one line the place is known to the character: behind its quote.
        Origin at = written->value.at;
        at.column += static_cast<int>(wrong->at) + (written->value.plain ? 0 : 1);
        return entry.fail(at, "condition", wrong->message);
    }
    if (const auto& hold = std::get<Condition>(parsed).hold)
        rule.hold = *hold;
}

AlertRuleSpec read_rule(const Value& value, std::size_t index, std::vector<SpecError>& errors) {
    EntryReader entry(value, path_of("alerts", index), errors);
    AlertRuleSpec rule;
    rule.name = entry.text({"alert", "name"});
    if (rule.name.empty())
        entry.fail("alert", "is missing: the alert's name");
    read_condition(entry, rule);
    if (const std::string hold = entry.text({"for"}); !hold.empty()) {
        const auto time = duration_from(hold);
        if (!time)
            entry.fail("for", "expected a time, such as 10m; found \"" + hold + '"');
        else if (rule.hold.count() > 0 && rule.hold != *time)
            entry.fail("for", "the condition says another time");
        rule.hold = time.value_or(rule.hold);
    }
    if (const std::string severity = entry.text({"severity"}); !severity.empty()) {
        rule.severity = severity;
        if (!severity_named(severity))
            entry.fail("severity", "expected info, warning or critical; found \"" + severity + '"');
    }
    rule.notify = entry.texts({"notify", "channels"});
    entry.refuse_others({"alert", "name", "condition", "for", "severity", "notify", "channels"});
    return rule;
}

const Value* list_of(const SiteSettings& settings, std::string_view path) {
    const SiteSetting* found = settings.find(path);
    return found == nullptr ? nullptr : &found->value;
}

bool is_turned_off(const SiteSettings& settings) {
    const SiteSetting* enabled = settings.find("alerting.enabled");
    return enabled != nullptr && !boolean_from(enabled->value.text).value_or(true);
}

template <class Named>
void refuse_twice(const std::vector<Named>& all, const Value& list, std::string_view what,
                  std::vector<SpecError>& errors) {
    for (std::size_t i = 0; i < all.size(); ++i)
        for (std::size_t k = 0; k < i; ++k)
            if (all[i].name == all[k].name && !all[i].name.empty())
                errors.push_back(error_at(list.items[i].at, path_of(what, i) + ".name",
                                          "\"" + all[i].name + "\" is another one's name"));
}

void check_notify(const AlertSpec& spec, const Value& rules, std::vector<SpecError>& errors) {
    std::vector<std::string> names;
    for (const AlertChannelSpec& channel : spec.channels)
        names.push_back(channel.name);
    for (std::size_t i = 0; i < spec.rules.size(); ++i)
        for (const std::string& name : spec.rules[i].notify)
            if (std::find(names.begin(), names.end(), name) == names.end())
                errors.push_back(error_at(
                    rules.items[i].at, path_of("alerts", i) + ".notify",
                    "no channel is called \"" + name + "\"" +
                        (names.empty() ? "; there are none" : "; there are " + join(names, ", "))));
}

}  // namespace

AlertSpec alerts_of(const SiteSettings& settings, std::vector<SpecError>& errors) {
    AlertSpec spec;
    const Value* channels = list_of(settings, "alerting.channels");
    const Value* rules = list_of(settings, "alerting.alerts");
    if (channels != nullptr)
        for (std::size_t i = 0; i < channels->items.size(); ++i)
            spec.channels.push_back(read_channel(channels->items[i], i, errors));
    if (rules != nullptr)
        for (std::size_t i = 0; i < rules->items.size(); ++i)
            spec.rules.push_back(read_rule(rules->items[i], i, errors));
    if (channels != nullptr)
        refuse_twice(spec.channels, *channels, "channels", errors);
    if (rules != nullptr) {
        refuse_twice(spec.rules, *rules, "alerts", errors);
        check_notify(spec, *rules, errors);
    }
    if (const SiteSetting* most = settings.find("alerting.messages_a_day")) {
        long long number = 0;
        if (!parse_integer(most->value.text, number) || number < 1 || number > kMostMessages)
            errors.push_back(error_at(most->value.at, "alerting.messages_a_day",
                                      "expected a number from 1 to 10000"));
        spec.messages_a_day = static_cast<int>(number);
    }
    if (is_turned_off(settings))
        spec.rules.clear();
    return spec;
}

std::vector<AlertRule> rules_of(const AlertSpec& spec) {
    std::vector<AlertRule> rules;
    for (const AlertRuleSpec& one : spec.rules) {
        const auto parsed = parse_condition(one.condition);
        rules.push_back({.name = one.name,
                         .condition = std::get<Condition>(parsed),
                         .hold = one.hold,
                         .severity = severity_named(one.severity).value_or(Severity::warning),
                         .notify = one.notify});
    }
    return rules;
}

}  // namespace autolaunch::launcher::alerts
