#include "checkpoint/age/encryption_keys.hpp"

#include "checkpoint/crypto/key_command.hpp"

#include <autolaunch/error.hpp>

#include <chrono>
#include <string>

namespace autolaunch {
namespace {}  // namespace

std::vector<age::Recipient> parse_recipients(const EncryptionOptions& options) {
    std::vector<age::Recipient> recipients;
    for (const std::string& text : options.recipients) {
        try {
            recipients.push_back(age::Recipient::parse(text));
        } catch (const Error& error) {
            throw Error(error.code(),
                        "EncryptionOptions::recipients[" + std::to_string(recipients.size()) +
                            "]: " + error.what(),
                        error.hint());
        }
    }
    return recipients;
}

std::vector<age::Identity> find_identities(const EncryptionOptions& options) {
    if (!options.identity_file.empty())
        return age::read_identities(options.identity_file);
    if (!options.identity_command.empty())
        return age::identities_of_command(options.identity_command,
                                          Deadline::after(crypto::kKeyCommandTime));
    throw Error(ErrorCode::invalid_argument, "the checkpoint is encrypted, and no key was given",
                "set checkpoint.identity_file in the spec, or EncryptionOptions::identity_file or "
                "identity_command in the trainer's code");
}

}  // namespace autolaunch
