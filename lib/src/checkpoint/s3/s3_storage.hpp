#pragma once
#include "checkpoint/s3/s3_client.hpp"
#include "checkpoint/storage/storage.hpp"

#include <atomic>
#include <chrono>
#include <memory>

namespace autolaunch::s3 {

/// Checkpoints in a bucket, to be read: paths are "s3://bucket/key", as the location's. Whatever
/// would write throws Error{unsupported}: a bucket has no rename, so checkpoints come there through
/// a Drain. Threads: any, a file one. Blocks: every call, at most `call_timeout`, and not for long
/// after `stop`, which may be null, is true.
std::unique_ptr<Storage> make_s3_storage(
    const Location& location, std::shared_ptr<CredentialSource> credentials,
    std::chrono::milliseconds call_timeout = std::chrono::minutes(2),
    std::shared_ptr<const std::atomic<bool>> stop = {});
inline std::unique_ptr<Storage> make_s3_storage(const Location& location,
                                                const Credentials& credentials) {
    return make_s3_storage(location, fixed_credentials(credentials));
}

}  // namespace autolaunch::s3
