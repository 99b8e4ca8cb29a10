#include "control/openssl_library.hpp"

#include "base/shared_library.hpp"
#include "control/rendezvous_error.hpp"
#include "exit_codes/exit_codes.hpp"

#include <string>

namespace autolaunch::launcher {

OpenSslLibrary::OpenSslLibrary() try {
    const std::string version = std::to_string(OPENSSL_SHLIB_VERSION);
    const SharedLibrary ssl("libssl.so." + version);
    const SharedLibrary crypto("libcrypto.so." + version);
#define AUTOLAUNCH_FIND(name) ssl.find(name, #name);
    AUTOLAUNCH_LIBSSL(AUTOLAUNCH_FIND)
#undef AUTOLAUNCH_FIND
#define AUTOLAUNCH_FIND(name) crypto.find(name, #name);
    AUTOLAUNCH_LIBCRYPTO(AUTOLAUNCH_FIND)
#undef AUTOLAUNCH_FIND
} catch (const Error& error) {
    throw RendezvousError(
        exit_code::kUnavailable,
        std::string("a job of several nodes needs OpenSSL's library: ") + error.what(),
        "install it on all nodes (Debian: libssl3, Fedora: openssl-libs)");
}

const OpenSslLibrary& openssl() {
    static const OpenSslLibrary library;
    return library;
}

}  // namespace autolaunch::launcher
