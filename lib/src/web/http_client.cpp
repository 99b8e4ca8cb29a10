#include "web/http_client.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <exception>
#include <utility>

#if AUTOLAUNCH_HAVE_CURL
#include "base/text.hpp"
#include "web/curl_library.hpp"
#endif

namespace autolaunch::web {

#if AUTOLAUNCH_HAVE_CURL

namespace {

constexpr std::size_t kMaxBodyBytes = 16 << 20;
constexpr long kConnectMs = 10'000;

/// What arrives, and where it goes.
struct Arrival {
    CURL* handle = nullptr;
    std::span<std::byte> into;
    const HttpRequest* request = nullptr;
    HttpResponse response;
    bool too_long = false, enough = false;
    std::exception_ptr failure;

    std::size_t body(const char* data, std::size_t bytes) {
        long status = 0;
        curl_library().curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
        response.status = static_cast<int>(status);
        if (request->arrived != nullptr)
            *request->arrived += static_cast<std::int64_t>(bytes);
        if (request->take && status / 100 == 2) {
            enough = !request->take(response, {reinterpret_cast<const std::byte*>(data), bytes});
            return enough ? 0 : bytes;
        }
        if (!into.empty() && status / 100 == 2) {
            too_long = bytes > into.size() - response.into_bytes;
            if (too_long)
                return 0;
            std::memcpy(into.data() + response.into_bytes, data, bytes);
            response.into_bytes += bytes;
        } else {
            too_long = bytes > kMaxBodyBytes - response.body.size();
            if (too_long)
                return 0;
            response.body.append(data, bytes);
        }
        return bytes;
    }
    void header(std::string_view line) {
        if (line.starts_with("HTTP/"))
            response.headers.clear();  // 100 Continue came before
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos)
            return;
        std::string name(line.substr(0, colon));
        for (char& c : name)
            c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        response.headers[name] = std::string(trim(line.substr(colon + 1)));
    }
};

// No exception may pass through libcurl, which reports an error of writing.
std::size_t on_body(char* data, std::size_t size, std::size_t count, void* arrival) {
    try {
        return static_cast<Arrival*>(arrival)->body(data, size * count);
    } catch (...) {
        static_cast<Arrival*>(arrival)->failure = std::current_exception();
        return 0;
    }
}

int on_progress(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<const std::atomic<bool>*>(stop)->load() ? 1 : 0;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* arrival) {
    try {
        static_cast<Arrival*>(arrival)->header({data, size * count});
        return size * count;
    } catch (...) {
        return 0;
    }
}

}  // namespace

class HttpClient::Impl {
public:
    Impl(std::string ca_file, std::shared_ptr<const std::atomic<bool>> stop,
         const char* ca_variable)
        : ca_file_(std::move(ca_file)),
          ca_variable_(ca_variable),
          stop_(std::move(stop)),
          handle_(curl_library().curl_easy_init()) {
        if (handle_ == nullptr)
            throw Error(ErrorCode::system, "libcurl cannot make a handle");
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl() { curl_library().curl_easy_cleanup(handle_); }

    HttpResponse perform(const HttpRequest& request, const Deadline& deadline) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining()).count();
        if (left <= 0)
            throw TimeoutError(request.method + ": no time was left to ask the server");
        curl_library().curl_easy_reset(handle_);  // its connections stay
        Arrival arrival;
        arrival.handle = handle_;
        arrival.into = request.into;
        arrival.request = &request;
        CurlList headers;
        set_request(request, headers);
        set(CURLOPT_TIMEOUT_MS, curl_milliseconds(left));
        set(CURLOPT_CONNECTTIMEOUT_MS,
            std::min<long>(static_cast<long>(std::min<long long>(left, kConnectMs)), kConnectMs));
        set(CURLOPT_WRITEFUNCTION, &on_body);
        set(CURLOPT_WRITEDATA, &arrival);
        set(CURLOPT_HEADERFUNCTION, &on_header);
        set(CURLOPT_HEADERDATA, &arrival);
        if (stop_) {
            set(CURLOPT_NOPROGRESS, 0L);
            set(CURLOPT_XFERINFOFUNCTION, &on_progress);
            set(CURLOPT_XFERINFODATA, stop_.get());
        }
        const CURLcode code = curl_library().curl_easy_perform(handle_);
        if (arrival.failure)
            std::rethrow_exception(arrival.failure);
        if (arrival.enough)
            return std::move(arrival.response);
        if (arrival.too_long)
            throw Error(ErrorCode::corrupt,
                        "the server's answer is longer than what was asked for");
        if (code == CURLE_ABORTED_BY_CALLBACK)
            throw AbortedError(request.method + ": stopped");
        if (code == CURLE_OPERATION_TIMEDOUT && deadline.passed())
            throw TimeoutError(request.method + ": the server did not answer in time");
        refuse_untrusted(code);
        refuse_proxy(code);
        if (code != CURLE_OK)
            throw Error(ErrorCode::closed, std::string("the connection failed: ") +
                                               curl_library().curl_easy_strerror(code));
        long status = 0;
        curl_library().curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
        arrival.response.status = static_cast<int>(status);
        return std::move(arrival.response);
    }

private:
    // Asking again helps nobody who is not trusted.
    void refuse_untrusted(CURLcode code) const {
        const std::string file = ca_file_.empty() ? "the system's certificates" : ca_file_;
        if (code == CURLE_SSL_CACERT_BADFILE)
            throw Error(ErrorCode::invalid_argument,
                        "the certificates in " + file + " cannot be read",
                        ca_variable_ + " is a file of certificates in PEM");
        if (code == CURLE_PEER_FAILED_VERIFICATION)
            throw Error(ErrorCode::system, "the server's certificate is not trusted by " + file,
                        "set " + ca_variable_ +
                            " to the certificate of who signed it; the name in it must be the "
                            "endpoint's");
    }

    // A tunnel that was not opened: the answer is the proxy's.
    void refuse_proxy(CURLcode code) const {
        long status = 0;
        if (code == CURLE_OK ||
            curl_library().curl_easy_getinfo(handle_, CURLINFO_HTTP_CONNECTCODE, &status) !=
                CURLE_OK ||
            status == 0 || status / 100 == 2)
            return;
        throw Error(status / 100 == 5 ? ErrorCode::closed : ErrorCode::system,
                    "the proxy answers " + std::to_string(status) + " and opens no way",
                    "see HTTPS_PROXY, with a name and a password where it wants them, and NO_PROXY "
                    "for hosts that are reached without one");
    }

    template <class Value>
    void set(CURLoption option, Value value) {
        set_curl_option(handle_, option, value);
    }

    void set_request(const HttpRequest& request, CurlList& headers) {
        set(CURLOPT_URL, request.url.c_str());
        set(CURLOPT_PATH_AS_IS, 1L);
        set(CURLOPT_NOSIGNAL, 1L);
        if (request.direct)
            set(CURLOPT_PROXY, "");
        set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
        set(CURLOPT_LOW_SPEED_LIMIT, 1L);
        set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall.count()));
        set(CURLOPT_BUFFERSIZE, 512L * 1024);
        set(CURLOPT_UPLOAD_BUFFERSIZE, 1024L * 1024);
        if (!ca_file_.empty())
            set(CURLOPT_CAINFO, ca_file_.c_str());
        const bool has_body = request.method == "PUT" || request.method == "POST";
        if (has_body) {
            set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
            set(CURLOPT_POSTFIELDS,
                request.body.empty() ? "" : reinterpret_cast<const char*>(request.body.data()));
        }
        if (request.method == "HEAD")
            set(CURLOPT_NOBODY, 1L);
        if (request.method != "GET" && request.method != "HEAD")
            set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
        for (const auto& [name, value] : request.headers)
            headers.add(name + ": " + value);
        // What libcurl would add by itself: a form's type, and a wait before each body.
        headers.add("Content-Type:");
        headers.add("Expect:");
        set(CURLOPT_HTTPHEADER, headers.get());
    }

    std::string ca_file_, ca_variable_;
    std::shared_ptr<const std::atomic<bool>> stop_;
    CURL* handle_;
};

HttpClient::HttpClient(std::string ca_file, std::shared_ptr<const std::atomic<bool>> stop,
                       const char* ca_variable)
    : impl_(std::make_unique<Impl>(std::move(ca_file), std::move(stop), ca_variable)) {}
HttpResponse HttpClient::perform(const HttpRequest& request, const Deadline& deadline) {
    return impl_->perform(request, deadline);
}

#else

class HttpClient::Impl {};

HttpClient::HttpClient(std::string, std::shared_ptr<const std::atomic<bool>>, const char*) {
    throw Error(ErrorCode::unsupported,
                "this build has no S3, no Vault, no messages of alerts and no data from servers",
                "install libcurl's headers (Debian: libcurl4-openssl-dev) and build with "
                "AUTOLAUNCH_WITH_CURL=ON");
}
HttpResponse HttpClient::perform(const HttpRequest&, const Deadline&) { return {}; }

#endif

HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

}  // namespace autolaunch::web
