#include "checkpoint/encryption_environment.hpp"

#include "base/text.hpp"
#include "checkpoint/commit/authentication.hpp"
#include "session/environment.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <string>

namespace autolaunch {

namespace {

void add_recipients(EncryptionOptions& options, const std::string& list) {
    for (const std::string& part : split(list, ',')) {
        std::string recipient(trim(part));
        auto& known = options.recipients;
        if (!recipient.empty() && std::find(known.begin(), known.end(), recipient) == known.end())
            known.push_back(std::move(recipient));
    }
}

// A word that is not known is no permission to write in the clear.
void require_known(const std::string& word) {
    if (!word.empty() && word != env::kEncryptionRequired)
        throw Error(ErrorCode::invalid_argument,
                    std::string(env::kCheckpointEncryption) + " is " + word + ", not " +
                        env::kEncryptionRequired,
                    "unset it, or set it to that");
}

}  // namespace

EncryptionOptions with_environment(EncryptionOptions options, const Environment& environment) {
    add_recipients(options, value_of(environment, env::kCheckpointRecipients));
    if (options.identity_file.empty() && options.identity_command.empty())
        options.identity_file = value_of(environment, env::kCheckpointIdentityFile);
    if (!is_authenticated(options))
        options.authentication_key_file = value_of(environment, env::kCheckpointMacFile);
    const std::string word = value_of(environment, env::kCheckpointEncryption);
    require_known(word);
    if (!word.empty() && options.recipients.empty())
        throw Error(ErrorCode::invalid_argument,
                    "checkpoints must be encrypted here (data_security.encryption_at_rest), and "
                    "nobody is named who may open them",
                    "add to the spec: checkpoint: {recipients: [age1...]}; age-keygen -o key.txt "
                    "makes a key and prints its public half");
    return options;
}

}  // namespace autolaunch
