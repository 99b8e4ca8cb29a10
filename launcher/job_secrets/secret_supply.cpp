#include "job_secrets/secret_supply.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "exit_codes/exit_error.hpp"
#include "job_secrets/secret_values.hpp"
#include "secret_sources/secret_command.hpp"
#include "secret_sources/secret_file.hpp"
#include "spawn/process_tree.hpp"
#include "vault/wrapped_identity.hpp"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // of all: they go in one message
constexpr auto kCommandTime = 30s, kVaultTime = 15s, kSpareTime = 5s;
constexpr auto kEndTime = 500ms;

// What a process that asked has left when it was killed: children of ours by now, whom nobody else
// would reap.
void end_orphans(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids)
        ::kill(pid, SIGKILL);
    const Deadline deadline = Deadline::after(kEndTime);
    for (const pid_t pid : pids)
        while (::waitpid(pid, nullptr, WNOHANG) == 0 && !deadline.passed())
            ::usleep(500);
}

SecretAnswer failure(const SecretSpec& secret, int code, const std::string& what,
                     const std::string& hint) {
    return {.name = secret.name, .value = {}, .exit_code = code, .what = what, .hint = hint};
}

std::string value_of_secret(const SecretSpec& secret, const VaultSpec& configured,
                            const SecretSupply::Environment& environment,
                            std::optional<VaultClient>& vault) {
    const std::string label = secret_label(secret);
    if (secret.source == SecretSpec::Source::command)
        return read_secret_of_command(label, secret.command, Deadline::after(kCommandTime));
    if (!vault)
        vault.emplace(vault_access(label, configured, environment));
    if (secret.source == SecretSpec::Source::vault_transit)
        return unwrapped_line(*vault, label, with_home(secret.file, environment),
                              Deadline::after(kVaultTime));
    std::string value =
        vault->read(label, secret.vault_path, secret.vault_key, Deadline::after(kVaultTime));
    if (value.empty())
        throw ExitError(exit_code::kBadData, ErrorCode::invalid_argument,
                        label + ": what Vault has at " + secret.vault_path + '#' +
                            secret.vault_key + " is empty");
    return value;
}

}  // namespace

std::chrono::milliseconds patience_of(const std::vector<SecretSpec>& secrets) {
    std::chrono::milliseconds patience = kSpareTime;
    for (const SecretSpec& secret : secrets)
        if (is_asked_for_by_head(secret))
            patience += secret.source == SecretSpec::Source::command ? kCommandTime : kVaultTime;
    return patience;
}

std::vector<SecretAnswer> ask_for_secrets(const std::vector<SecretSpec>& secrets,
                                          const VaultSpec& vault,
                                          const SecretSupply::Environment& environment) {
    std::vector<SecretAnswer> answers;
    std::optional<VaultClient> client;
    std::size_t bytes = 0;
    for (const SecretSpec& secret : secrets) {
        try {
            std::string value =
                as_given(secret, value_of_secret(secret, vault, environment, client));
            bytes += value.size();
            if (bytes > kMostBytes)
                throw ExitError(exit_code::kBadData, ErrorCode::invalid_argument,
                                secret_label(secret) + ": all together have more than 16 MiB");
            answers.push_back({secret.name, std::move(value), 0, {}, {}});
        } catch (const Error& error) {
            answers.push_back(failure(secret, exit_code_of(error), error.what(), error.hint()));
        }
    }
    return answers;
}

void SecretSupply::ask(std::vector<SecretSpec> secrets,
                       std::function<void(std::vector<SecretAnswer>)> over) {
    stop();
    const auto all_failed = [secrets](const std::string& why) {
        std::vector<SecretAnswer> answers;
        for (const SecretSpec& secret : secrets)
            answers.push_back(
                failure(secret, exit_code::kUnavailable, secret_label(secret) + ": " + why, ""));
        return answers;
    };
    try {
        helper_ = HelperProcess([this, &secrets](int output) {
            write_all(output, encode_answers(ask_for_secrets(secrets, vault_, environment_)),
                      "secrets");
        });
    } catch (const Error& error) {
        return over(all_failed(error.what()));
    }
    wait_.begin(
        helper_.output(), [this] { return !helper_.read_some(heard_); }, patience_of(secrets),
        [this, all_failed, over = std::move(over)](bool answered) {
            std::vector<SecretAnswer> answers;
            try {
                answers = answered ? decode_answers(heard_)
                                   : all_failed("it was not answered in its time");
            } catch (const Error&) {
                answers = all_failed("the process that asks for it has ended");
            }
            stop();
            over(std::move(answers));
        });
}

void SecretSupply::stop() {
    wait_.stop();
    std::vector<pid_t> commands;
    if (helper_.pid() > 0)
        commands = list_tree(helper_.pid());
    std::erase(commands, helper_.pid());
    helper_ = HelperProcess();
    end_orphans(commands);
    ::explicit_bzero(heard_.data(), heard_.size());
    heard_.clear();
}

}  // namespace autolaunch::launcher
