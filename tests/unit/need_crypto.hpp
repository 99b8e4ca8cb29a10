#pragma once
#include "checkpoint/crypto/crypto.hpp"

#include <autolaunch/error.hpp>

#include <cstdio>
#include <cstdlib>

namespace autolaunch::testing {

/// Whether this build and this machine have libcrypto; says why where they have not.
inline bool have_crypto() {
    try {
        crypto::sha256({});
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported)
            throw;
        std::printf("skipped: %s\n", error.what());
        return false;
    }
}

/// Exits with 77 where there is none.
inline void need_crypto() {
    if (!have_crypto())
        std::exit(77);
}

}  // namespace autolaunch::testing
