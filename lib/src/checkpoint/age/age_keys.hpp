#pragma once
#include "base/deadline.hpp"
#include "checkpoint/crypto/crypto.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::age {

/// Who can read what is encrypted for him: a public key, "age1…".
struct Recipient {
    crypto::Point point = {};

    /// Throws Error{invalid_argument}.
    static Recipient parse(std::string_view text);
    std::string to_text() const;
    bool operator==(const Recipient&) const = default;
};

/// The secret half, "AGE-SECRET-KEY-1…". Wiped when it goes.
class Identity {
public:
    static Identity generate();
    /// Throws Error{invalid_argument}, which never quotes the text.
    static Identity parse(std::string_view text);
    crypto::SecretBytes to_text() const;

    const Recipient& recipient() const { return recipient_; }
    crypto::Bytes secret() const { return secret_; }

private:
    explicit Identity(crypto::SecretBytes secret);

    crypto::SecretBytes secret_;
    Recipient recipient_;
};

/// Whether a file of keys has one that Vault has wrapped (the launcher's wrapped_identity.hpp),
/// whole or not: no file of plain keys begins so. Pure.
bool looks_wrapped(std::string_view text);

/// Lines of "AGE-SECRET-KEY-1…", empty ones, and comments that start with '#', as age-keygen writes
/// them. `source` names them in errors. Throws Error{invalid_argument} with the line's number, and
/// when there is no key at all.
std::vector<Identity> parse_identities(std::string_view text, const std::string& source);
/// Throws Error{invalid_argument} when anybody but its owner may read or write the file, or the
/// owner is another user.
std::vector<Identity> read_identities(const std::filesystem::path& file);
/// What `/bin/sh -c COMMAND` prints. Blocks until it has ended; at the deadline it is killed with
/// its process group, and TimeoutError is thrown. Its stderr is ours. Errors name the command, and
/// never quote its output.
std::vector<Identity> identities_of_command(const std::string& command, const Deadline& deadline);

}  // namespace autolaunch::age
