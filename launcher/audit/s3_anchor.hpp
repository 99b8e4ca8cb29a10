#pragma once
#include "audit/audit_chain.hpp"
#include "base/environment.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Heads of a trail as objects of a bucket: PREFIX/CHAIN/SEQ, SEQ with 12 digits. Each is put where
/// there is none (If-None-Match: *), and locked until its retention is over where the bucket has
/// object lock: then nobody changes or deletes it before, whoever has the key.
///
/// Owner: AuditTrail, or `audit verify`. Threads: one. Blocks: each call, some seconds at most.
class S3Anchor {
public:
    /// Throws Error: no credentials, no libcurl, an address that is none.
    S3Anchor(const std::string& url, const Environment& environment);
    ~S3Anchor();

    /// Throws Error where it is not there in the end: the server refuses, it is not reached, or
    /// another head has that place already.
    void put(const AuditHead& head, const std::string& time, std::optional<int> keep_days);

    struct Anchored {
        AuditHead head;
        std::string locked_until;  ///< empty: not locked
    };
    /// All heads of a trail, by number. Throws Error.
    std::vector<Anchored> heads_of(const std::string& chain);

    std::string describe() const;

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace autolaunch::launcher
