#include "base/running_hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace autolaunch {

struct RunningHash::State {
    XXH3_state_t hash;  // aligned to 64 bytes by its type
};

RunningHash::RunningHash() : state_(std::make_unique<State>()) {
    XXH3_128bits_reset(&state_->hash);
}
RunningHash::RunningHash(RunningHash&&) noexcept = default;
RunningHash& RunningHash::operator=(RunningHash&&) noexcept = default;
RunningHash::~RunningHash() = default;

void RunningHash::update(const void* data, std::size_t bytes) {
    XXH3_128bits_update(&state_->hash, data, bytes);
}

Digest128 RunningHash::take() {
    const XXH128_hash_t digest = XXH3_128bits_digest(&state_->hash);
    XXH3_128bits_reset(&state_->hash);
    return {digest.high64, digest.low64};
}

}  // namespace autolaunch
