#pragma once
#include "control/job_identity.hpp"
#include "control/job_key.hpp"
#include "control/preamble.hpp"
#include "control/tls_session.hpp"

#include <asio/io_context.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What all control connections of one agent share: the job's identity, the key and how to come by
/// it, OpenSSL's contexts. Destroyed with the last of them, and with it the key file.
///
/// Threads: the agent's one; credentials are opened on a thread of their own. Blocks: never.
class ControlSecurity : public std::enable_shared_from_this<ControlSecurity> {
public:
    static std::shared_ptr<ControlSecurity> for_head(const JobIdentity& identity, HeadKey key);
    /// The head says in its preamble where the key comes from; each connection then gets it from
    /// there.
    static std::shared_ptr<ControlSecurity> for_node(asio::io_context& io,
                                                     const JobIdentity& identity, KeyPlan plan);

    /// Among agents that have met: both ends have the key, whatever it came from.
    static std::shared_ptr<ControlSecurity> for_peers(const JobIdentity& identity,
                                                      const JobKey& key, ControlRole role);
    /// The one that was used last; nothing at a node that has met no head.
    const std::optional<JobKey>& key() const { return key_; }

    /// "munge", "AUTOLAUNCH_JOB_KEY", …: of the key that was used last; empty at a node that has
    /// met no head.
    const std::string& key_described() const { return key_described_; }

    // What connections need.
    const Preamble& preamble() const { return preamble_; }
    /// Calls back once, maybe at once: the secret, or null and the reason.
    using SecretFound =
        std::function<void(std::shared_ptr<const TlsSecret> secret, const std::string& reason)>;
    void find_secret(const Preamble& theirs, const SecretFound& found);
    /// Where the key of that connection comes from: the head's to say.
    JobKey::Source key_source(const Preamble& theirs) const {
        return preamble_.key_source.value_or(theirs.key_source.value_or(JobKey::Source::given));
    }
    const TlsContext& context(JobKey::Source source);
    /// For one read or write at a time: contents last until the next.
    std::span<char> scratch() { return scratch_; }

private:
    ControlSecurity(const JobIdentity& identity, ControlRole role);
    void open_credential(const std::string& credential, const SecretFound& found);
    void use(const JobKey& key, const SecretFound& found);
    std::string given_here_only(const std::string& head_has_it_from) const;

    asio::io_context* io_ = nullptr;  // a node's
    JobIdentity identity_;
    Preamble preamble_;
    std::optional<HeadKey> head_key_;
    std::optional<JobKey> key_;
    KeyPlan plan_;
    std::shared_ptr<const TlsSecret> head_secret_;
    std::map<TlsKeyExchange, TlsContext> contexts_;
    std::string key_described_;
    std::vector<char> scratch_;
};

}  // namespace autolaunch::launcher
