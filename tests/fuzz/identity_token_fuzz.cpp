// What an OpenID issuer answers: its documents, its keys, its tokens.
//
//     identity_token_fuzz CORPUS tests/fuzz/seeds/identity_token

#include "identity_token_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::oidc::check_issuer_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
