#pragma once
#include "control/job_key.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What both ends say in clear text before TLS, so that a stranger can be told by name:
/// docs/control-protocol.md has the bytes. Nothing in it is believed: it only saves a handshake
/// that must fail. Pure.
namespace autolaunch::launcher {

enum class ControlRole : std::uint8_t { node = 1, head = 2 };

struct Preamble {
    std::uint16_t protocol = 0;
    ControlRole role = ControlRole::node;
    std::optional<JobKey::Source> key_source;  ///< the head's: where it has the key from
    std::uint64_t job_digest = 0;              ///< of JobIdentity::name
    std::string credential;                    ///< the head's, with a key from MUNGE
};

inline constexpr std::size_t kCredentialLimit = 4096;

std::string encode_preamble(const Preamble& preamble);

/// What came of a peer's first bytes.
struct PreambleVerdict {
    enum class Kind {
        incomplete,  ///< until `wanted` bytes are there
        welcome,     ///< of our job and the other role: `theirs` is filled
        refused,     ///< `reason` says why
    };
    Kind kind = Kind::incomplete;
    std::size_t wanted = 0;
    std::string reason;
    bool is_autolaunch = false;  ///< when refused: it would understand our own preamble
    Preamble theirs;
};
PreambleVerdict judge_preamble(std::string_view arrived, const Preamble& ours);

}  // namespace autolaunch::launcher
