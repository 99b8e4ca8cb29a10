#pragma once
// With libcurl's headers alone: without them there is nothing in it.
#if AUTOLAUNCH_HAVE_CURL
#include "base/shared_library.hpp"

#include <curl/curl.h>

#include <string>

namespace autolaunch::web {

#define AUTOLAUNCH_LIBCURL(X) \
    X(curl_easy_cleanup)      \
    X(curl_easy_getinfo)      \
    X(curl_easy_init)         \
    X(curl_easy_perform)      \
    X(curl_easy_reset)        \
    X(curl_easy_setopt)       \
    X(curl_easy_strerror)     \
    X(curl_global_init)       \
    X(curl_slist_append)      \
    X(curl_slist_free_all)

AUTOLAUNCH_FUNCTION_TABLE(CurlLibrary, AUTOLAUNCH_LIBCURL)

/// Loaded and started at the first call. Throws Error{unsupported} where it is not installed.
const CurlLibrary& curl_library();

/// Lines for libcurl: a request's headers, a mail's recipients.
class CurlList {
public:
    CurlList() = default;
    CurlList(const CurlList&) = delete;
    CurlList& operator=(const CurlList&) = delete;
    ~CurlList() { curl_library().curl_slist_free_all(list_); }
    void add(const std::string& line);
    curl_slist* get() const { return list_; }

private:
    curl_slist* list_ = nullptr;
};

/// The most milliseconds that libcurl is given, of those that are left.
long curl_milliseconds(long long left);

[[noreturn]] void fail_old_curl();

/// Sets one option of a handle. Throws Error{unsupported} where this libcurl is too old for it.
template <class Value>
void set_curl_option(CURL* handle, CURLoption option, Value value) {
    if (curl_library().curl_easy_setopt(handle, option, value) != CURLE_OK)
        fail_old_curl();
}

}  // namespace autolaunch::web
#endif
