#pragma once
#include "base/deadline.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "vault/transit_key.hpp"
#include "vault/vault_access.hpp"

#include <memory>
#include <string>

namespace autolaunch::web {
class HttpClient;
struct HttpResponse;
}  // namespace autolaunch::web

namespace autolaunch::launcher {

/// Reads secrets of the engines KV 1 and KV 2, and has transit wrap and unwrap, as the user of
/// `access`. Follows no redirect: the token goes to that address alone, and through no proxy on
/// this machine. A token that it has got by a login is given back at the end.
///
/// Owner: whoever asks. Threads: one. Blocks: until the deadline; the destructor a second more.
/// Errors are ExitError, begun by `what` ("secrets.API_KEY"), with the HTTP status and the path: 69
/// nobody answers, or Vault is sealed; 77 the token is refused or may not read that; 66 nothing is
/// there; 65 what is there is no text.
class VaultClient {
public:
    explicit VaultClient(VaultAccess access);
    ~VaultClient();
    VaultClient(const VaultClient&) = delete;
    VaultClient& operator=(const VaultClient&) = delete;

    std::string read(const std::string& what, const std::string& path, const std::string& key,
                     const Deadline& deadline);

    /// What `key` makes of the secret: "vault:v1:…".
    std::string encrypt(const std::string& what, const TransitKey& key, crypto::Bytes secret,
                        const Deadline& deadline);
    /// The reverse. 66 also where the key was deleted; 65 where it has not wrapped that.
    crypto::SecretBytes decrypt(const std::string& what, const TransitKey& key,
                                const std::string& ciphertext, const Deadline& deadline);

private:
    /// An engine of this path: where it is mounted, and its version.
    struct Mount {
        std::string at;  ///< with a slash at its end
        int version = 2;
    };

    web::HttpResponse ask(const std::string& what, const std::string& method,
                         const std::string& path, const std::string& body,
                         const Deadline& deadline);
    void log_in(const std::string& what, const Deadline& deadline);
    Mount mount_of(const std::string& what, const std::string& path, const Deadline& deadline);
    [[noreturn]] void refuse_status(const std::string& what, int status, const std::string& path,
                                    const web::HttpResponse& answer) const;
    web::HttpResponse ask_transit(const std::string& what, const TransitKey& key, const char* to_do,
                                 std::string& body, const Deadline& deadline);
    [[noreturn]] void refuse_transit(const std::string& what, const TransitKey& key,
                                     const std::string& path, const web::HttpResponse& answer) const;
    [[noreturn]] void refuse_empty(const std::string& what, const TransitKey& key,
                                   const char* wanted) const;

    VaultAccess access_;
    std::string token_;
    bool logged_in_ = false;  ///< the token is ours alone
    std::unique_ptr<web::HttpClient> http_;
};

}  // namespace autolaunch::launcher
