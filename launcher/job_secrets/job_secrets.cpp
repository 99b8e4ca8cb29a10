#include "job_secrets/job_secrets.hpp"

#include "exit_codes/exit_error.hpp"
#include "job_secrets/secret_values.hpp"
#include "secret_sources/secret_file.hpp"
#include "session/environment.hpp"

#include <string.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kAskHead = control::RelayChannel::secret_question;
constexpr auto kHeadSays = control::RelayChannel::secret_answer;
constexpr auto kOnTheWay = std::chrono::seconds(10);

bool has(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_wanted(const LaunchPlan& plan, const SecretSpec& secret) {
    return std::any_of(plan.ranks.begin(), plan.ranks.end(),
                       [&secret](const RankPlan& rank) { return has(rank.secrets, secret.name); });
}

std::string read_file_of(const SecretSpec& secret, const JobSecrets::Environment& environment) {
    return as_given(secret,
                    read_secret_of_file(secret_label(secret), with_home(secret.file, environment)));
}

void forget(std::map<std::string, std::string>& values) {
    for (auto& [name, value] : values)
        ::explicit_bzero(value.data(), value.size());
    values.clear();
}

void set_variable(std::vector<std::string>& environment, const std::string& name,
                  const std::string& value) {
    std::erase_if(environment, [&name](std::string_view line) {
        return line.size() > name.size() && line.starts_with(name) && line[name.size()] == '=';
    });
    environment.push_back(name + '=' + value);
}

}  // namespace

JobSecrets::JobSecrets(asio::io_context& io, const LaunchPlan& plan, Member& member,
                       const std::filesystem::path& sockets, Environment environment)
    : plan_(plan),
      member_(member),
      environment_(std::move(environment)),
      files_(sockets),
      timer_(io),
      supply_(io, plan.spec.vault, environment_) {}

std::vector<SecretSpec> JobSecrets::wanted_here() const {
    std::vector<SecretSpec> wanted;
    for (const SecretSpec& secret : plan_.spec.given_secrets)
        if (is_wanted(plan_, secret))
            wanted.push_back(secret);
    return wanted;
}

void JobSecrets::serve(int generation) {
    if (plan_.spec.given_secrets.empty() || served_ == generation)
        return;
    served_ = generation;
    supplied_ = Asked::nothing;
    supply_.stop();
    answers_.clear();
    waiting_.clear();
    member_.on_relay(kAskHead, generation, [this](int node, std::string_view bytes) {
        try {
            waiting_.emplace_back(node, decode_names(bytes));
        } catch (const Error&) {
            return;  // it waits in vain, and says so
        }
        if (supplied_ == Asked::done)
            answer_all();
        else if (std::exchange(supplied_, Asked::waits) == Asked::nothing)
            ask_sources();
    });
}

// Once for all nodes, for the first that has a question.
void JobSecrets::ask_sources() {
    std::vector<SecretSpec> asked;
    for (const SecretSpec& secret : plan_.spec.given_secrets)
        if (is_asked_for_by_head(secret))
            asked.push_back(secret);
    supply_.ask(std::move(asked), [this](std::vector<SecretAnswer> answers) {
        supplied_ = Asked::done;
        for (SecretAnswer& one : answers) {
            if (one.exit_code == 0)
                learn(one.name, one.value);
            answers_[one.name] = std::move(one);
        }
        answer_all();
    });
}

void JobSecrets::answer_all() {
    for (const auto& [node, names] : std::exchange(waiting_, {}))
        answer(node, names);
}

// What it asks for, and no other: a node has what its ranks get.
void JobSecrets::answer(int node, const std::vector<std::string>& names) {
    std::vector<SecretAnswer> answers;
    for (const std::string& name : names)
        if (const auto found = answers_.find(name); found != answers_.end())
            answers.push_back(found->second);
    member_.relay(kHeadSays, served_, node, encode_answers(answers));
}

bool JobSecrets::is_settled(int generation, std::function<void()> then) {
    if (plan_.spec.given_secrets.empty())
        return true;
    if (generation != generation_)
        begin(generation);
    if (asked_ == Asked::waits) {
        then_ = std::move(then);
        return false;
    }
    refuse_if_missing();
    if (written_ != generation_)
        write_files();
    return true;
}

void JobSecrets::begin(int generation) {
    forget(values_);
    failed_.clear();
    asked_ = Asked::done;
    generation_ = -1;  // what throws is tried again
    read_files();
    generation_ = generation;
    ask_head();
}

void JobSecrets::read_files() {
    for (const SecretSpec& secret : wanted_here())
        if (!is_asked_for_by_head(secret))
            learn(secret.name, values_[secret.name] = read_file_of(secret, environment_));
}

void JobSecrets::ask_head() {
    std::vector<std::string> names;
    const std::vector<SecretSpec> wanted = wanted_here();
    for (const SecretSpec& secret : wanted)
        if (is_asked_for_by_head(secret))
            names.push_back(secret.name);
    if (names.empty())
        return;
    asked_ = Asked::waits;
    member_.on_relay(kHeadSays, generation_, [this](int node, std::string_view bytes) {
        if (node != member_.head_node() || asked_ != Asked::waits)
            return;
        try {
            take(decode_answers(bytes));
        } catch (const Error& error) {
            head_is_silent(error.what());
        }
    });
    member_.relay(kAskHead, generation_, member_.head_node(), encode_names(names));
    timer_.expires_after(patience_of(plan_.spec.given_secrets) + kOnTheWay);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error && asked_ == Asked::waits)
            head_is_silent("the head did not answer in time");
    });
}

void JobSecrets::head_is_silent(const std::string& why) {
    take({{.name = {},
           .value = {},
           .exit_code = exit_code::kUnavailable,
           .what = "secrets: " + why,
           .hint = {}}});
}

void JobSecrets::take(const std::vector<SecretAnswer>& answers) {
    timer_.cancel();
    asked_ = Asked::done;
    for (const SecretAnswer& one : answers) {
        if (one.exit_code != 0)
            failed_.push_back(one);
        else
            learn(one.name, values_[one.name] = one.value);
    }
    if (const auto then = std::exchange(then_, nullptr))
        then();
}

// What one node cannot have, none of its ranks is started without.
void JobSecrets::refuse_if_missing() const {
    if (!failed_.empty()) {
        const SecretAnswer& first = failed_.front();
        throw ExitError(first.exit_code, ErrorCode::invalid_argument, first.what, first.hint);
    }
    for (const SecretSpec& secret : wanted_here())
        if (!values_.contains(secret.name))
            throw ExitError(exit_code::kUnavailable, ErrorCode::invalid_argument,
                            secret_label(secret) + ": the head has no answer",
                            "does it have another spec?");
}

// Also for ranks that stay in their processes: they find the new one where the old one was.
void JobSecrets::write_files() {
    for (const SecretSpec& secret : wanted_here())
        if (secret.as == SecretSpec::As::file)
            paths_[secret.name] = files_.write(secret.name, values_.at(secret.name));
    written_ = generation_;
}

void JobSecrets::give(const RankPlan& rank, std::vector<std::string>& environment) const {
    for (const SecretSpec& secret : plan_.spec.given_secrets) {
        if (!has(rank.secrets, secret.name))
            continue;
        if (secret.as == SecretSpec::As::file) {
            set_variable(environment, secret.name + "_FILE", paths_.at(secret.name));
            if (secret.name == plan_.spec.checkpoint.identity_secret)
                set_variable(environment, env::kCheckpointIdentityFile, paths_.at(secret.name));
        } else {
            set_variable(environment, secret.name, values_.at(secret.name));
        }
    }
}

void JobSecrets::learn(const std::string& name, const std::string& value) {
    add_masks(value, masks_);
    if (handlers_.learned)
        handlers_.learned(masks_);
    if (is_too_short_to_mask(value) && said_short_.insert(name).second && handlers_.warn)
        handlers_.warn("secrets." + name +
                       " has fewer than 6 bytes: it is not masked in what is shown");
}

void check_secret_files(const LaunchPlan& plan, const JobSecrets::Environment& environment) {
    for (const SecretSpec& secret : plan.spec.given_secrets)
        if (is_wanted(plan, secret) && !is_asked_for_by_head(secret))
            static_cast<void>(read_file_of(secret, environment));
}

}  // namespace autolaunch::launcher
