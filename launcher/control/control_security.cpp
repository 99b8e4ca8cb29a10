#include "control/control_security.hpp"

#include "base/hash.hpp"
#include "control/control_message.hpp"
#include "control/munge_credential.hpp"
#include "control/openssl_library.hpp"

#include <autolaunch/error.hpp>

#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr std::size_t kScratchBytes = 16U << 10;  // a TLS record
constexpr std::size_t kLongestName = 128;         // allowed by TLS: 256 in OpenSSL 3.0

std::uint64_t digest_of(const JobIdentity& identity) {
    return hash64(identity.name.data(), identity.name.size());
}

std::string tls_name(const JobIdentity& identity) {
    return identity.name.size() <= kLongestName ? identity.name
                                                : "digest/" + hex64(digest_of(identity));
}

/// A key that one job used and nobody kept needs no second secret; one that a person keeps does.
TlsKeyExchange exchange_for(JobKey::Source source) {
    return source == JobKey::Source::given ? TlsKeyExchange::psk_ecdhe : TlsKeyExchange::psk;
}

}  // namespace

ControlSecurity::ControlSecurity(const JobIdentity& identity, ControlRole role)
    : identity_(identity), scratch_(kScratchBytes) {
    preamble_.protocol = control::kProtocolVersion;
    preamble_.role = role;
    preamble_.job_digest = digest_of(identity);
}

std::shared_ptr<ControlSecurity> ControlSecurity::for_head(const JobIdentity& identity,
                                                           HeadKey key) {
    std::shared_ptr<ControlSecurity> security(new ControlSecurity(identity, ControlRole::head));
    security->preamble_.key_source = key.key.source();
    security->preamble_.credential = key.credential;
    security->key_described_ = key.described;
    security->head_secret_ = std::make_shared<TlsSecret>(TlsSecret{key.key, tls_name(identity)});
    security->key_ = key.key;
    security->head_key_ = std::move(key);
    security->context(security->head_key_->key.source());  // a library that is missing is told now
    return security;
}

std::shared_ptr<ControlSecurity> ControlSecurity::for_peers(const JobIdentity& identity,
                                                            const JobKey& key, ControlRole role) {
    std::shared_ptr<ControlSecurity> security(new ControlSecurity(identity, role));
    security->key_ = JobKey(JobKey::Source::given, key.bytes());
    if (role == ControlRole::head)
        security->preamble_.key_source = JobKey::Source::given;
    security->head_secret_ =
        std::make_shared<TlsSecret>(TlsSecret{*security->key_, tls_name(identity)});
    return security;
}

std::shared_ptr<ControlSecurity> ControlSecurity::for_node(asio::io_context& io,
                                                           const JobIdentity& identity,
                                                           KeyPlan plan) {
    std::shared_ptr<ControlSecurity> security(new ControlSecurity(identity, ControlRole::node));
    security->io_ = &io;
    security->plan_ = std::move(plan);
    openssl();  // a library that is missing is told now
    return security;
}

const TlsContext& ControlSecurity::context(JobKey::Source source) {
    const TlsEnd end = preamble_.role == ControlRole::head ? TlsEnd::server : TlsEnd::client;
    const TlsKeyExchange exchange = exchange_for(source);
    return contexts_.try_emplace(exchange, end, exchange).first->second;
}

void ControlSecurity::find_secret(const Preamble& theirs, const SecretFound& found) {
    if (head_secret_)
        return found(head_secret_, {});
    switch (key_source(theirs)) {
        case JobKey::Source::given:
            if (plan_.given)
                return use(*plan_.given, found);
            return found(nullptr,
                         "the head's key was given by AUTOLAUNCH_JOB_KEY or "
                         "rendezvous.secret_file, and this node was "
                         "given none: give all nodes the same");
        case JobKey::Source::munge:
            if (plan_.given)
                return found(nullptr, given_here_only("munge"));
            return open_credential(theirs.credential, found);
        case JobKey::Source::run_directory:
            break;
    }
    if (plan_.given)
        return found(nullptr, given_here_only("a file in the run directory"));
    const SharedKey shared = read_shared_key(plan_.shared_file);
    if (!shared.key)
        return found(nullptr, shared.reason);
    use(*shared.key, found);
}

std::string ControlSecurity::given_here_only(const std::string& head_has_it_from) const {
    return "this node has its key from " + plan_.given_by + ", the head from " + head_has_it_from +
           ": give all nodes the same";
}

void ControlSecurity::use(const JobKey& key, const SecretFound& found) {
    key_described_ = plan_.described(key.source());
    key_ = key;
    found(std::make_shared<TlsSecret>(TlsSecret{key, tls_name(identity_)}), {});
}

void ControlSecurity::open_credential(const std::string& credential, const SecretFound& found) {
    const auto self = shared_from_this();
    open_munge_credential(*io_, credential, identity_, plan_.munge_socket,
                          [self, found](const OpenedCredential& opened) {
                              if (!opened.key)
                                  return found(nullptr, opened.reason);
                              self->use(*opened.key, found);
                          });
}

}  // namespace autolaunch::launcher
