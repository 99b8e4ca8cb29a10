#include "checkpoint/checkpoint_keys.hpp"

#include "checkpoint/age/encryption_keys.hpp"

#include <algorithm>

namespace autolaunch {

const AuthenticationKeys& CheckpointKeys::authentication() {
    if (!authentication_)
        authentication_ = AuthenticationKeys::find(options_);
    return *authentication_;
}

const crypto::SigningKey& CheckpointKeys::signer() {
    if (!signer_)
        signer_ = options_.signing_key_file.empty()
                      ? crypto::SigningKey()
                      : crypto::SigningKey::read(options_.signing_key_file);
    return *signer_;
}

ReadKeys CheckpointKeys::reading(const Manifest& manifest) {
    ReadKeys keys;
    if (is_authenticated(options_))
        keys.check = BlockCheck::tampering;
    const bool encrypted =
        std::any_of(manifest.files.begin(), manifest.files.end(),
                    [](const Manifest::File& file) { return file.plain_bytes.has_value(); });
    if (!encrypted)
        return keys;
    if (identities_.empty())
        identities_ = find_identities(options_);
    keys.identities = identities_;
    return keys;
}

}  // namespace autolaunch
