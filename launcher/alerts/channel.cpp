#include "alerts/channel.hpp"

#include "base/hostname.hpp"
#include "base/text.hpp"
#include "secret_sources/secret_file.hpp"
#include "site/site_vault.hpp"
#include "spawn/captured_command.hpp"
#include "web/http_client.hpp"
#include "web/mail_client.hpp"

#include <autolaunch/error.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>

namespace autolaunch::launcher::alerts {

namespace {

using namespace std::chrono_literals;
using Environment = std::map<std::string, std::string>;

constexpr auto kFirstWait = 1s;
constexpr auto kLongestWait = 15s;
// An alert that nobody posts again ends by itself: after three posts that were missed.
constexpr auto kKeptAlive = 5min;
// Of a failed job nobody posts again: long enough to be seen, and to go by itself.
constexpr auto kKeptAfterEnd = 24h;

std::string secret_line(const std::string& what, const std::string& file,
                        const Environment& environment) {
    return std::string(trim(read_secret_of_file(what, with_home(file, environment))));
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

/// POSTs until it is taken: a server that is busy is asked again, one that refuses is not.
class Poster {
public:
    explicit Poster(std::string ca_file) : ca_file_(std::move(ca_file)) {}

    void post(const std::string& url, const std::string& body, const std::string& authorization,
              const Deadline& deadline) {
        auto pause = std::chrono::duration_cast<std::chrono::seconds>(kFirstWait);
        while (true) {
            const web::HttpResponse answer = ask(url, body, authorization, deadline);
            if (answer.status / 100 == 2)
                return;
            const bool is_busy = answer.status == 429 || answer.status / 100 == 5;
            if (const auto asked = answer.headers.find("retry-after");
                asked != answer.headers.end())
                pause = seconds_in(asked->second, pause);
            if (!is_busy || deadline.remaining() <= pause)
                throw Error(ErrorCode::system,
                            "it answers with status " + std::to_string(answer.status),
                            answer.status == 404 || answer.status == 403
                                ? "is the address right, and has nobody revoked it?"
                                : "");
            std::this_thread::sleep_for(pause);
            pause = std::min<std::chrono::seconds>(pause * 2, kLongestWait);
        }
    }

private:
    static std::chrono::seconds seconds_in(const std::string& text,
                                           std::chrono::seconds otherwise) {
        long long number = 0;
        if (!parse_integer(text, number) || number < 0 || number > 3600)
            return otherwise;
        return std::chrono::seconds(number);
    }
    web::HttpResponse ask(const std::string& url, const std::string& body,
                          const std::string& authorization, const Deadline& deadline) {
        if (!http_)
            http_ = std::make_unique<web::HttpClient>(ca_file_, nullptr, "ca_file of the channel");
        web::HttpRequest request;
        request.method = "POST";
        request.url = url;
        request.headers = {{"content-type", "application/json"}};
        if (!authorization.empty())
            request.headers["authorization"] = authorization;
        request.body = bytes_of(body);
        return http_->perform(request, deadline);
    }

    std::string ca_file_;
    std::unique_ptr<web::HttpClient> http_;
};

class EmailChannel final : public MessageChannel {
public:
    EmailChannel(AlertChannelSpec spec, Environment environment)
        : MessageChannel(std::move(spec)), environment_(std::move(environment)) {}

    void tell(const Notice& notice, const AlertedJob& job, const Deadline& deadline) override {
        web::MailServer server{.url = spec_.smtp,
                               .encrypted = spec_.starttls,
                               .user = spec_.user,
                               .password = {},
                               .ca_file = with_home(spec_.ca_file, environment_)};
        if (!spec_.user.empty())
            server.password = secret_line("password_file", spec_.password_file, environment_);
        const std::string from = spec_.from.empty() ? "autolaunch@" + job.host : spec_.from;
        web::send_mail(server,
                       {.from = from,
                        .to = spec_.recipients,
                        .text = mail_of(notice, job, from, spec_.recipients)},
                       deadline);
    }

private:
    Environment environment_;
};

class SlackChannel final : public MessageChannel {
public:
    SlackChannel(AlertChannelSpec spec, Environment environment)
        : MessageChannel(std::move(spec)),
          environment_(std::move(environment)),
          poster_(with_home(spec_.ca_file, environment_)) {}

    void tell(const Notice& notice, const AlertedJob& job, const Deadline& deadline) override {
        poster_.post(url(), slack_json(notice, job), "", deadline);
    }

private:
    std::string url() const {
        std::string found;
        if (!spec_.url_file.empty()) {
            found = secret_line("webhook_file", spec_.url_file, environment_);
        } else {
            const auto variable = environment_.find(spec_.url_variable);
            if (variable == environment_.end() || variable->second.empty())
                throw Error(ErrorCode::invalid_argument,
                            "the variable " + spec_.url_variable + " is not set on the head's node",
                            "set it where the job is started, or name a file with webhook_file");
            found = variable->second;
        }
        if (!is_safe_vault_address(found))
            throw Error(ErrorCode::invalid_argument,
                        "the webhook's URL is neither https nor this machine's own loopback",
                        "whoever reads it on its way can write there: https://hooks.slack.com/…");
        return found;
    }

    Environment environment_;
    Poster poster_;
};

class AlertmanagerChannel final : public MessageChannel {
public:
    AlertmanagerChannel(AlertChannelSpec spec, Environment environment)
        : MessageChannel(std::move(spec)),
          environment_(std::move(environment)),
          poster_(with_home(spec_.ca_file, environment_)) {}

    void tell(const Notice& notice, const AlertedJob& job, const Deadline& deadline) override {
        post(notice.alerts, job,
             notice.at + (job.has_ended ? WallTime::duration(kKeptAfterEnd)
                                        : WallTime::duration(kKeptAlive)),
             deadline);
    }
    void keep_alive(std::span<const FiringAlert> firing, const AlertedJob& job,
                    const Deadline& deadline) override {
        post(firing, job, std::chrono::system_clock::now() + kKeptAlive, deadline);
    }

private:
    void post(std::span<const FiringAlert> alerts, const AlertedJob& job, WallTime ends_at,
              const Deadline& deadline) {
        poster_.post(spec_.url + "/api/v2/alerts", alertmanager_json(alerts, job, ends_at),
                     authorization(), deadline);
    }
    std::string authorization() const {
        if (spec_.user.empty())
            return {};
        const std::string password =
            secret_line("password_file", spec_.password_file, environment_);
        return "Basic " + base64(spec_.user + ':' + password);
    }

    Environment environment_;
    Poster poster_;
};

class WebhookChannel final : public MessageChannel {
public:
    WebhookChannel(AlertChannelSpec spec, Environment environment)
        : MessageChannel(std::move(spec)),
          environment_(std::move(environment)),
          poster_(with_home(spec_.ca_file, environment_)) {}

    void tell(const Notice& notice, const AlertedJob& job, const Deadline& deadline) override {
        const std::string authorization =
            spec_.token_file.empty()
                ? ""
                : "Bearer " + secret_line("token_file", spec_.token_file, environment_);
        poster_.post(spec_.url, notice_json(notice, job), authorization, deadline);
    }

private:
    Environment environment_;
    Poster poster_;
};

class CommandChannel final : public MessageChannel {
public:
    explicit CommandChannel(AlertChannelSpec spec) : MessageChannel(std::move(spec)) {}

    void tell(const Notice& notice, const AlertedJob& job, const Deadline& deadline) override {
        constexpr std::size_t kMostPrinted = 1 << 16;
        const std::string& program = spec_.command.front();
        CapturedCommand command(spec_.command, notice_json(notice, job), kMostPrinted);
        const bool ended = command.wait(deadline);
        if (const int error = command.not_executed())
            throw SystemError(error, "execute " + program);
        if (!ended && command.printed_too_much())
            throw Error(ErrorCode::system, program + " prints more than 64 KiB");
        if (!ended)
            throw TimeoutError(program + " has not ended in its time" + command.complaint());
        if (WIFSIGNALED(command.status()))
            throw Error(ErrorCode::system, program + " was ended by signal " +
                                               std::to_string(WTERMSIG(command.status())) +
                                               command.complaint());
        if (WEXITSTATUS(command.status()) != 0)
            throw Error(ErrorCode::system, program + " ended with exit code " +
                                               std::to_string(WEXITSTATUS(command.status())) +
                                               command.complaint());
    }
};

}  // namespace

std::unique_ptr<MessageChannel> make_channel(const AlertChannelSpec& spec,
                                             const Environment& environment) {
    switch (spec.kind) {
        case AlertChannelSpec::Kind::email:
            return std::make_unique<EmailChannel>(spec, environment);
        case AlertChannelSpec::Kind::slack:
            return std::make_unique<SlackChannel>(spec, environment);
        case AlertChannelSpec::Kind::alertmanager:
            return std::make_unique<AlertmanagerChannel>(spec, environment);
        case AlertChannelSpec::Kind::webhook:
            return std::make_unique<WebhookChannel>(spec, environment);
        case AlertChannelSpec::Kind::command:
            break;
    }
    return std::make_unique<CommandChannel>(spec);
}

std::string caution_of(const AlertChannelSpec& spec) {
    if ((spec.kind == AlertChannelSpec::Kind::alertmanager ||
         spec.kind == AlertChannelSpec::Kind::webhook) &&
        !is_safe_vault_address(spec.url))
        return "alerting: messages to " + spec.url + " travel in clear; https:// encrypts them";
    if (spec.kind == AlertChannelSpec::Kind::email && !spec.starttls &&
        !is_own_machine(spec.smtp) && !spec.smtp.starts_with("smtps://"))
        return "alerting: mails to " + spec.smtp + " travel in clear; starttls: true encrypts them";
    return {};
}

}  // namespace autolaunch::launcher::alerts
