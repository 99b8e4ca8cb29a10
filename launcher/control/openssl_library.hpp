#pragma once
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

namespace autolaunch::launcher {

// Every function of OpenSSL that we call; what OpenSSL has as a macro is written out where it is
// used.
#define AUTOLAUNCH_LIBSSL(X)                 \
    X(SSL_CIPHER_find)                       \
    X(SSL_CTX_ctrl)                          \
    X(SSL_CTX_free)                          \
    X(SSL_CTX_new)                           \
    X(SSL_CTX_set_ciphersuites)              \
    X(SSL_CTX_set_num_tickets)               \
    X(SSL_CTX_set_options)                   \
    X(SSL_CTX_set_psk_find_session_callback) \
    X(SSL_CTX_set_psk_use_session_callback)  \
    X(SSL_SESSION_free)                      \
    X(SSL_SESSION_new)                       \
    X(SSL_SESSION_set1_master_key)           \
    X(SSL_SESSION_set_cipher)                \
    X(SSL_SESSION_set_protocol_version)      \
    X(SSL_do_handshake)                      \
    X(SSL_free)                              \
    X(SSL_get_error)                         \
    X(SSL_get_ex_data)                       \
    X(SSL_is_init_finished)                  \
    X(SSL_new)                               \
    X(SSL_read_ex)                           \
    X(SSL_set_accept_state)                  \
    X(SSL_set_bio)                           \
    X(SSL_set_connect_state)                 \
    X(SSL_set_ex_data)                       \
    X(SSL_shutdown)                          \
    X(SSL_write_ex)                          \
    X(TLS_client_method)                     \
    X(TLS_server_method)
#define AUTOLAUNCH_LIBCRYPTO(X) \
    X(BIO_clear_flags)          \
    X(BIO_free)                 \
    X(BIO_get_data)             \
    X(BIO_get_new_index)        \
    X(BIO_meth_free)            \
    X(BIO_meth_new)             \
    X(BIO_meth_set_create)      \
    X(BIO_meth_set_ctrl)        \
    X(BIO_meth_set_read)        \
    X(BIO_meth_set_write)       \
    X(BIO_new)                  \
    X(BIO_set_data)             \
    X(BIO_set_flags)            \
    X(BIO_set_init)             \
    X(ERR_clear_error)          \
    X(ERR_peek_error)           \
    X(ERR_reason_error_string)  \
    X(EVP_sha256)               \
    X(HMAC)

/// The system's OpenSSL, loaded when a job has more than one node: linked, it would cost every
/// launch 0.3 ms (static) to 0.7 ms (shared). Constant once loaded.
struct OpenSslLibrary {
    OpenSslLibrary();

#define AUTOLAUNCH_MEMBER(name) decltype(&::name) name;
    AUTOLAUNCH_LIBSSL(AUTOLAUNCH_MEMBER)
    AUTOLAUNCH_LIBCRYPTO(AUTOLAUNCH_MEMBER)
#undef AUTOLAUNCH_MEMBER
};

/// Loads it at the first call. One a process, as the library is: what OpenSSL calls back has
/// nothing else to find it by. Throws RendezvousError(69) where it is missing. Blocks: while the
/// library is read.
const OpenSslLibrary& openssl();

}  // namespace autolaunch::launcher
