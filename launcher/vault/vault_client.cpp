#include "vault/vault_client.hpp"

#include "base/json_nesting.hpp"
#include "base/text.hpp"
#include "checkpoint/age/age_header.hpp"
#include "exit_codes/exit_error.hpp"
#include "secret_sources/secret_file.hpp"
#include "vault/vault_answer.hpp"
#include "web/http_client.hpp"

#include <fmt/format.h>
#include <string.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

constexpr auto kGiveBackTime = std::chrono::seconds(1);

constexpr std::array kPauses = {std::chrono::milliseconds(200), std::chrono::milliseconds(1000)};

[[noreturn]] void refuse_vault(int code, const std::string& what, const std::string& why,
                               std::string hint = {}) {
    throw ExitError(code, ErrorCode::system, what + ": " + why, std::move(hint));
}

/// Whether it is worth to ask again in a moment. A sealed Vault (503) waits for a person.
bool may_pass(int status) {
    return status == 412 || status == 429 || status == 500 || status == 502 || status == 504;
}

/// Every byte but letters, digits and what a path is made of.
std::string encoded(std::string_view path) {
    std::string text;
    for (const char c : path) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x80 && (std::isalnum(byte) != 0 ||
                            std::string_view("/-_.~").find(c) != std::string_view::npos))
            text += c;
        else
            text += fmt::format("%{:02X}", byte);
    }
    return text;
}

}  // namespace

VaultClient::VaultClient(VaultAccess access)
    : access_(std::move(access)),
      http_(std::make_unique<web::HttpClient>(
          access_.ca_file, std::shared_ptr<const std::atomic<bool>>(), "VAULT_CACERT")) {}

VaultClient::~VaultClient() {
    try {
        if (logged_in_)
            ask("vault", "POST", "auth/token/revoke-self", "", Deadline::after(kGiveBackTime));
    } catch (const std::exception&) {  // it expires by itself
    }
    ::explicit_bzero(token_.data(), token_.size());
}

web::HttpResponse VaultClient::ask(const std::string& what, const std::string& method,
                                  const std::string& path, const std::string& body,
                                  const Deadline& deadline) {
    web::HttpRequest request;
    request.method = method;
    request.url = access_.address + "/v1/" + encoded(path);
    request.direct = access_.address.starts_with("http://");
    request.headers["X-Vault-Request"] = "true";
    if (!access_.vault_namespace.empty())
        request.headers["X-Vault-Namespace"] = access_.vault_namespace;
    if (!token_.empty())
        request.headers["X-Vault-Token"] = token_;
    request.body = std::as_bytes(std::span(body));
    for (std::size_t attempt = 0;; ++attempt) {
        const bool last = attempt == kPauses.size();
        try {
            web::HttpResponse answer = http_->perform(request, deadline);
            if (last || !may_pass(answer.status))
                return answer;
        } catch (const TimeoutError&) {
            refuse_vault(exit_code::kUnavailable, what,
                         "Vault at " + access_.address + " did not answer in time",
                         "is it reachable from the head's node?");
        } catch (const Error& error) {
            if (error.code() == ErrorCode::corrupt)
                refuse_vault(exit_code::kUnavailable, what,
                             "Vault at " + access_.address + " answers with more than 16 MiB",
                             "is it a Vault?");
            if (last || error.code() != ErrorCode::closed)
                refuse_vault(exit_code::kUnavailable, what,
                             "Vault at " + access_.address + ": " + error.what(), error.hint());
        }
        if (deadline.remaining() > kPauses[attempt])
            std::this_thread::sleep_for(kPauses[attempt]);
    }
}

void VaultClient::refuse_status(const std::string& what, int status, const std::string& path,
                                const web::HttpResponse& answer) const {
    const std::string why =
        fmt::format("Vault at {} answers {} for {}", access_.address, status, path);
    if (status / 100 == 3) {
        const auto location = answer.headers.find("location");
        const std::string there = location == answer.headers.end() ? "" : location->second;
        const std::size_t host = there.find("://");
        refuse_vault(exit_code::kUnavailable, what, why + ", a redirect, which is not followed",
                     host == std::string::npos ? "VAULT_ADDR must name the node that answers"
                                               : "VAULT_ADDR must name the node that answers: " +
                                                     there.substr(0, there.find('/', host + 3)));
    }
    switch (status) {
        case 400:
            refuse_vault(exit_code::kNotPermitted, what, why,
                         "the request is refused: is the token, the role or the namespace right?");
        case 401:
        case 403:
            refuse_vault(exit_code::kNotPermitted, what, why,
                         "the token is not valid any more, or its policy does not allow "
                         "that: vault token lookup; vault token capabilities " +
                             path);
        case 404:
            refuse_vault(exit_code::kNoInput, what, why,
                         "nothing is there, or it was deleted: vault kv get " + path);
        case 503:
            refuse_vault(exit_code::kUnavailable, what, why + ": it is sealed, or in maintenance",
                         "vault status tells; who runs it can unseal it");
        default:
            refuse_vault(exit_code::kUnavailable, what, why, "vault status");
    }
}

void VaultClient::log_in(const std::string& what, const Deadline& deadline) {
    if (!token_.empty())
        return;
    if (access_.method == "token") {
        token_ = access_.token.empty() ? std::string(trim(read_secret_of_file(what, access_.file)))
                                       : access_.token;
        if (has_odd_bytes(token_))
            refuse_vault(exit_code::kBadData, what, "the token for Vault has blanks or line ends",
                         "VAULT_TOKEN or ~/.vault-token holds the token and nothing else");
        return;
    }
    const std::string proof(trim(read_secret_of_file(what, access_.file)));
    const bool approle = access_.method == "approle";
    const std::string body = Json{
        {approle ? "role_id" : "role", access_.role},
        {approle ? "secret_id" : "jwt",
         proof}}.dump(-1, ' ', false, Json::error_handler_t::replace);
    const std::string path = "auth/" + access_.mount + "/login";
    const web::HttpResponse answer = ask(what, "POST", path, body, deadline);
    if (answer.status != 200)
        refuse_status(what, answer.status, path, answer);
    std::optional<std::string> token = vault_token_in(answer.body);
    if (!token)
        refuse_vault(exit_code::kUnavailable, what,
                     fmt::format("Vault at {} answers {} without a token", access_.address, path),
                     "is it a Vault?");
    token_ = std::move(*token);
    logged_in_ = true;
}

// As Vault's own command does. Who may not ask that has KV 2 at the first part of the path, by far
// the most common; where nothing is there, KV 1 is tried.
VaultClient::Mount VaultClient::mount_of(const std::string& what, const std::string& path,
                                         const Deadline& deadline) {
    const web::HttpResponse answer =
        ask(what, "GET", "sys/internal/ui/mounts/" + path, "", deadline);
    if (answer.status != 200 && answer.status != 403 && answer.status != 404)
        refuse_status(what, answer.status, path, answer);
    if (const auto found = vault_mount_in(answer.body);
        answer.status == 200 && found && path.starts_with(found->at))
        return {found->at, found->version};
    return {path.substr(0, path.find('/') + 1), 0};
}

std::string VaultClient::read(const std::string& what, const std::string& path,
                              const std::string& key, const Deadline& deadline) {
    log_in(what, deadline);
    const Mount mount = mount_of(what, path, deadline);
    const std::string in_version_2 = mount.at + "data/" + path.substr(mount.at.size());
    bool second = mount.version != 1;
    web::HttpResponse answer = ask(what, "GET", second ? in_version_2 : path, "", deadline);
    if (mount.version == 0 && answer.status == 404) {
        second = false;
        answer = ask(what, "GET", path, "", deadline);
    }
    if (answer.status != 200)
        refuse_status(what, answer.status, path, answer);
    VaultSecretAnswer found = vault_secret_in(answer.body, second, key);
    using Kind = VaultSecretAnswer::Kind;
    if (found.kind == Kind::no_secret)
        refuse_vault(exit_code::kUnavailable, what,
                     fmt::format("Vault at {} answers 200 for {}, and no secret is in it",
                                 access_.address, path),
                     "is it a Vault, and the path that of a key-value engine?");
    if (found.kind == Kind::no_key)
        refuse_vault(exit_code::kNoInput, what,
                     fmt::format("Vault has {}, and no key {} there", path, key),
                     "vault kv get " + path + " lists the keys");
    if (found.kind == Kind::no_text)
        refuse_vault(exit_code::kBadData, what,
                     fmt::format("what Vault has at {}#{} is no text", path, key),
                     "write it as text: vault kv put " + path + " " + key + "=-");
    return std::move(found.text);
}

web::HttpResponse VaultClient::ask_transit(const std::string& what, const TransitKey& key,
                                          const char* to_do, std::string& body,
                                          const Deadline& deadline) {
    log_in(what, deadline);
    const std::string path = key.mount + '/' + to_do + '/' + key.name;
    web::HttpResponse answer = ask(what, "POST", path, body, deadline);
    ::explicit_bzero(body.data(), body.size());
    if (answer.status != 200)
        refuse_transit(what, key, path, answer);
    return answer;
}

// 400 is Vault's answer for a key that is not there and for what a key has not wrapped.
void VaultClient::refuse_transit(const std::string& what, const TransitKey& key,
                                 const std::string& path, const web::HttpResponse& answer) const {
    const std::string why =
        fmt::format("Vault at {} answers {} for {}", access_.address, answer.status, path);
    if (answer.status == 404 || (answer.status == 400 && vault_has_no_key(answer.body)))
        refuse_vault(exit_code::kNoInput, what, why + ": there is no such key",
                     "where it was deleted, what was wrapped with it is lost for ever: nobody can "
                     "unwrap it; else: is " +
                         key.to_text() + " MOUNT/KEY of a transit engine?");
    if (answer.status == 400)
        refuse_vault(exit_code::kBadData, what,
                     why + ": the key does not take that, or has not wrapped it",
                     "is it of this key, a version that it still opens, and the key one that "
                     "encrypts? vault read " +
                         key.mount + "/keys/" + key.name);
    refuse_status(what, answer.status, path, answer);
}

void VaultClient::refuse_empty(const std::string& what, const TransitKey& key,
                               const char* wanted) const {
    refuse_vault(exit_code::kUnavailable, what,
                 fmt::format("Vault at {} answers 200 for {}, and nothing {} is in it",
                             access_.address, key.to_text(), wanted),
                 "is it a Vault, and the path that of a transit engine?");
}

std::string VaultClient::encrypt(const std::string& what, const TransitKey& key,
                                 crypto::Bytes secret, const Deadline& deadline) {
    std::string coded = age::encode_base64(secret), body;
    body.reserve(coded.size() + 64);  // no piece of it is left behind where it would grow
    body.append(R"({"plaintext":")").append(coded);
    body.append((4 - coded.size() % 4) % 4, '=').append(R"("})");
    ::explicit_bzero(coded.data(), coded.size());
    const web::HttpResponse answer = ask_transit(what, key, "encrypt", body, deadline);
    std::optional<std::string> wrapped = vault_ciphertext_in(answer.body);
    if (!wrapped)
        refuse_empty(what, key, "wrapped");
    return std::move(*wrapped);
}

crypto::SecretBytes VaultClient::decrypt(const std::string& what, const TransitKey& key,
                                         const std::string& ciphertext, const Deadline& deadline) {
    std::string body =
        Json{{"ciphertext", ciphertext}}.dump(-1, ' ', false, Json::error_handler_t::replace);
    web::HttpResponse answer = ask_transit(what, key, "decrypt", body, deadline);
    std::optional<crypto::SecretBytes> plain = vault_plaintext_in(answer.body);
    ::explicit_bzero(answer.body.data(), answer.body.size());
    if (!plain)
        refuse_empty(what, key, "unwrapped");
    return std::move(*plain);
}

}  // namespace autolaunch::launcher
