#include "web/curl_library.hpp"

#if AUTOLAUNCH_HAVE_CURL
#include <autolaunch/error.hpp>

#include <algorithm>
#include <new>

namespace autolaunch::web {

namespace {

CurlLibrary started() {
    const CurlLibrary library(SharedLibrary(
        "libcurl.so.4", {.what = "S3, Vault and messages of alerts need libcurl",
                         .hint = "install it on all nodes (Debian: libcurl4, Fedora: libcurl)"}));
    if (library.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        throw Error(ErrorCode::unsupported, "libcurl does not start");
    return library;
}

}  // namespace

const CurlLibrary& curl_library() {
    static const CurlLibrary loaded = started();
    return loaded;
}

void CurlList::add(const std::string& line) {
    curl_slist* longer = curl_library().curl_slist_append(list_, line.c_str());
    if (longer == nullptr)
        throw std::bad_alloc();
    list_ = longer;
}

long curl_milliseconds(long long left) {
    return static_cast<long>(std::min<long long>(left, 1'000'000'000));
}

void fail_old_curl() {
    throw Error(ErrorCode::unsupported, "libcurl does not know an option",
                "7.75 or newer is needed");
}

}  // namespace autolaunch::web
#endif
