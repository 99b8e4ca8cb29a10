#pragma once
#include "job_secrets/secret_messages.hpp"
#include "spawn/command_wait.hpp"
#include "spawn/helper_process.hpp"
#include "spec/secret_spec.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// Whether it is asked for once, by the head, and not read by each node.
inline bool is_asked_for_by_head(const SecretSpec& secret) {
    return secret.source != SecretSpec::Source::file;
}

/// How long all of these may take together.
std::chrono::milliseconds patience_of(const std::vector<SecretSpec>& secrets);

/// Asks commands and Vault for secrets, in a process of its own beside the agent: one that hangs
/// holds nothing up.
///
/// Owner: JobSecrets, on the head. Threads: one. Blocks: no.
class SecretSupply {
public:
    using Environment = std::map<std::string, std::string>;

    SecretSupply(asio::io_context& io, VaultSpec vault, Environment environment)
        : wait_(io), vault_(std::move(vault)), environment_(std::move(environment)) {}

    /// Calls `over` with an answer for each, in that order; at once where the system refuses. What
    /// was asked before is given up.
    void ask(std::vector<SecretSpec> secrets, std::function<void(std::vector<SecretAnswer>)> over);
    void stop();
    /// The process that asks; -1: there is none.
    int pid() const { return helper_.pid(); }

private:
    CommandWait wait_;
    HelperProcess helper_;
    std::string heard_;
    VaultSpec vault_;
    Environment environment_;
};

/// What the process does. Blocks: for patience_of() them.
std::vector<SecretAnswer> ask_for_secrets(const std::vector<SecretSpec>& secrets,
                                          const VaultSpec& vault,
                                          const SecretSupply::Environment& environment);

}  // namespace autolaunch::launcher
