#include "base/private_way.hpp"
#include "base/text.hpp"
#include "base/url.hpp"
#include "checkpoint/s3/s3_answers.hpp"
#include "remote_data/object_tree.hpp"
#include "remote_data/remote_errors.hpp"
#include "remote_data/remote_sources.hpp"
#include "web/http_client.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

using web::HttpClient;
using web::HttpRequest;
using web::HttpResponse;

// Of one request, which may be for all of a large file; patience ends it before.
constexpr auto kLongestAnswer = std::chrono::hours(7 * 24);
constexpr int kMostRedirects = 5;

struct HttpPlace {
    std::string url, verify, ca_file;
    RemoteTerms terms;
    std::string shown() const { return shown_url(url); }
};

/// What a server says of a file.
struct HttpFile {
    std::string url;  ///< where redirects have led to
    std::int64_t bytes = 0;
    std::string version, modified;
    bool gives_ranges = false;
};

std::string header_of(const HttpResponse& response, const char* name) {
    const auto found = response.headers.find(name);
    return found == response.headers.end() ? std::string() : found->second;
}

/// Its ETag, else its time.
std::string version_of(const HttpResponse& response) {
    const std::string etag = header_of(response, "etag");
    return etag.empty() ? header_of(response, "last-modified") : etag;
}

std::int64_t number_in(const std::string& text) {
    long long value = -1;
    return parse_integer(text, value) && value >= 0 ? value : -1;
}

/// Of "bytes 5-9/100": 5.
std::int64_t first_in_range(const std::string& range) {
    constexpr std::string_view kUnit = "bytes ";
    return range.starts_with(kUnit)
               ? number_in(range.substr(kUnit.size(), range.find('-') - kUnit.size()))
               : -1;
}

double random_share() {
    thread_local std::mt19937 generator(std::random_device{}());
    return std::uniform_real_distribution<double>()(generator);
}

/// Asks until there is an answer that asking again does not mend, or patience ends.
class HttpAsker {
public:
    explicit HttpAsker(const HttpPlace& place)
        : place_(place), client_(place.ca_file, {}, "SSL_CERT_FILE") {}

    /// `begin` is called before each attempt.
    HttpResponse ask(
        HttpRequest request, const std::function<void()>& begin = [] {}) {
        std::atomic<std::int64_t> of_none = 0;
        std::atomic<std::int64_t>& arrived =
            place_.terms.signs != nullptr ? *place_.terms.signs : of_none;
        request.arrived = &arrived;
        const std::string host = request.url.substr(0, request.url.find('/', 8));
        request.stall =
            std::clamp(std::chrono::duration_cast<std::chrono::seconds>(place_.terms.patience / 2),
                       std::chrono::seconds(1), request.stall);
        request.direct = request.url.starts_with("http://") && why_not_private(host).empty();
        Deadline patience = Deadline::after(place_.terms.patience);
        for (int number = 1;; ++number) {
            const std::int64_t before = arrived;
            begin();
            HttpResponse response = attempt(request);
            if (arrived != before)
                patience = Deadline::after(place_.terms.patience);
            if (response.status != 0 && !s3::is_worth_retrying(response.status, ""))
                return response;
            const auto pause = s3::retry_delay(number + 1, random_share());
            if (patience.remaining() <= pause)
                remote_away("cannot read " + place_.shown() + ": " +
                                (response.status == 0
                                     ? response.body
                                     : "the server says " + std::to_string(response.status)),
                            "the server has to answer; what has come is gone on with");
            std::this_thread::sleep_for(pause);
        }
    }

private:
    /// Status 0: the connection failed; the body says how.
    HttpResponse attempt(const HttpRequest& request) {
        try {
            return client_.perform(request, Deadline::after(kLongestAnswer));
        } catch (const Error& error) {
            if (error.code() != ErrorCode::closed && error.code() != ErrorCode::timeout)
                translate_remote(place_.shown(), error, {});
            HttpResponse failed;
            failed.body = error.what();
            return failed;
        }
    }

    const HttpPlace& place_;
    HttpClient client_;
};

[[noreturn]] void refuse_status(const HttpPlace& place, int status) {
    const std::string what =
        "cannot read " + place.shown() + ": the server says " + std::to_string(status);
    const bool is_signed = place.url.find('?') != std::string::npos;
    if (status == http_status::kUnauthorized || status == http_status::kForbidden)
        remote_forbids(what, is_signed ? "a signed address" : "nothing that proves who asks",
                       is_signed ? "it may have ended: get a new one"
                                 : "name a signed address, or a file that everybody may read");
    if (status == http_status::kNotFound || status == http_status::kGone)
        remote_missing(place.shown() + " (the server says " + std::to_string(status) + ")",
                       "storage.stage_in has to name what is there");
    remote_away(what, "ask who runs the server");
}

/// A redirect may not lead to where anybody could change what is read, unless that would be seen.
void check_way(const HttpPlace& place, const std::string& url) {
    const std::string why = why_not_private(url);
    const bool is_web = scheme_of(url) == "http" || scheme_of(url) == "https";
    if (!is_web || (!why.empty() && !place.verify.starts_with("sha256:")))
        remote_unusable("cannot read " + place.shown() + ": it leads to " + shown_url(url) + ", " +
                            (is_web ? "and " + why : "which is no web server"),
                        "name an address of https, or its digest: verify: sha256:…");
}

HttpFile look_at_file(const HttpPlace& place, HttpAsker& asker) {
    HttpFile file{.url = place.url, .version = {}, .modified = {}};
    HttpResponse response;
    bool with_range = true;
    for (int redirects = 0;; ++redirects) {
        HttpRequest request{.url = file.url, .headers = {}, .body = {}, .into = {}};
        if (with_range)
            request.headers["range"] = "bytes=0-0";
        request.take = [](const HttpResponse& head, std::span<const std::byte> part) {
            return head.status == http_status::kPartial && part.size() == 1;
        };
        response = asker.ask(std::move(request));
        if (response.status == http_status::kNoRange && std::exchange(with_range, false))
            continue;  // it is empty, perhaps
        const std::string location = header_of(response, "location");
        if (response.status / 100 != 3 || location.empty())
            break;
        if (redirects == kMostRedirects)
            remote_away("cannot read " + place.shown() + ": it leads from one address to the next",
                        "name the last of them");
        file.url = resolved_url(file.url, location);
        check_way(place, file.url);
    }
    if (response.status != http_status::kOk && response.status != http_status::kPartial)
        refuse_status(place, response.status);
    const std::string range = header_of(response, "content-range");
    file.gives_ranges = response.status == http_status::kPartial;
    file.bytes = number_in(file.gives_ranges ? range.substr(range.find('/') + 1)
                                             : header_of(response, "content-length"));
    file.version = version_of(response);
    file.modified = header_of(response, "last-modified");
    return file;
}

/// Where a file is at the moment: redirects often lead to addresses that are signed for minutes.
class HttpWay {
public:
    std::string url() const {
        const std::lock_guard lock(mutex_);
        return url_;
    }
    void set(std::string url) {
        const std::lock_guard lock(mutex_);
        url_ = std::move(url);
    }

private:
    mutable std::mutex mutex_;
    std::string url_;
};

class HttpReader final : public RemoteReader {
public:
    HttpReader(const HttpPlace& place, HttpWay& way) : place_(place), way_(way), asker_(place) {}

    void read(const TreeEntry& file, std::int64_t at, std::span<std::byte> into) override {
        const std::int64_t last = at + static_cast<std::int64_t>(into.size()) - 1;
        std::size_t got = 0;
        const auto begin = [&](HttpRequest& request) {
            request.headers["range"] = "bytes=" + std::to_string(at) + '-' + std::to_string(last);
        };
        const auto take = [&](const HttpResponse& head, std::span<const std::byte> part) {
            if (is_first_part_) {
                got = 0;
                is_first_part_ = false;
            }
            if (head.status != http_status::kPartial ||
                first_in_range(header_of(head, "content-range")) != at ||
                part.size() > into.size() - got)
                return false;
            std::memcpy(into.data() + got, part.data(), part.size());
            got += part.size();
            return true;
        };
        while (got < into.size()) {
            const HttpResponse head = transfer(file, begin, take);
            if (head.status == http_status::kNoRange)
                remote_changed(place_.shown());
            if (head.status != http_status::kPartial || got < into.size())
                remote_away("cannot read " + place_.shown() +
                                ": the server does not send the range that it was asked for",
                            "ask who runs the server");
        }
    }

    void read_all(const TreeEntry& file, const Take& take) override {
        std::int64_t at = 0;
        const HttpResponse head = transfer(
            file, [](HttpRequest&) {},
            [&](const HttpResponse&, std::span<const std::byte> part) {
                if (is_first_part_)
                    at = 0;
                is_first_part_ = false;
                if (at + static_cast<std::int64_t>(part.size()) > file.bytes)
                    return false;
                take(at, part);
                at += static_cast<std::int64_t>(part.size());
                return true;
            });
        if (head.status != http_status::kOk || at != file.bytes)
            remote_changed(place_.shown());
    }

private:
    using Part = std::function<bool(const HttpResponse& head, std::span<const std::byte> part)>;

    /// The head of an answer that `take` has got all of, of the file's own version.
    HttpResponse transfer(const TreeEntry& file, const std::function<void(HttpRequest&)>& begin,
                          const Part& take) {
        for (bool is_again = false;; is_again = true) {
            HttpRequest request{.url = way_.url(), .headers = {}, .body = {}, .into = {}};
            if (file.version.starts_with('"'))
                request.headers["if-match"] = file.version;
            begin(request);
            // An attempt that broke off is followed by one from the beginning.
            request.take = [&](const HttpResponse& head, std::span<const std::byte> part) {
                return is_of(file, head) && take(head, part);
            };
            const HttpResponse head = ask(std::move(request));
            if (head.status == http_status::kOtherVersion ||
                (head.status / 100 == 2 && !is_of(file, head)))
                remote_changed(place_.shown());
            if (head.status / 100 == 2 || head.status == http_status::kNoRange)
                return head;
            if (is_again || way_.url() == place_.url)
                refuse_status(place_, head.status);
            way_.set(look_at_file(place_, asker_).url);
        }
    }

    HttpResponse ask(HttpRequest request) {
        is_first_part_ = true;
        return asker_.ask(std::move(request), [this] { is_first_part_ = true; });
    }

    static bool is_of(const TreeEntry& file, const HttpResponse& head) {
        const std::string version = version_of(head);
        return version.empty() || version == file.version;
    }

    const HttpPlace& place_;
    HttpWay& way_;
    HttpAsker asker_;
    bool is_first_part_ = true;
};

class HttpSource final : public RemoteSource {
public:
    explicit HttpSource(HttpPlace place) : place_(std::move(place)) {}

    Tree look() override {
        HttpAsker asker = make_asker();
        const HttpFile file = look_at_file(place_, asker);
        way_.set(file.url);
        gives_ranges_ = file.gives_ranges;
        if (file.bytes < 0)
            remote_unusable(place_.shown() + ": the server does not say how long it is",
                            "name a file that the server has as one, and does not make anew");
        if (file.version.empty() && place_.verify.empty())
            remote_unusable(place_.shown() +
                                ": the server says neither ETag nor Last-Modified, so that no "
                                "version of it can be told from another",
                            "name its digest: verify: sha256:…");
        const std::string name = name_in_url(place_.url);
        if (!is_path_within(name) || name.find('/') != std::string::npos || name.size() > 255)
            remote_unusable(place_.shown() + " has no name that a file can have",
                            "name a file of the server, and no folder");
        Tree tree;
        tree.is_file = true;
        tree.entries.push_back(remote_file(
            name, file.bytes, file.version.empty() ? place_.verify : file.version, file.modified));
        return tree;
    }

    std::unique_ptr<RemoteReader> connect() const override {
        try {
            return std::make_unique<HttpReader>(place_, way_);
        } catch (const Error& error) {
            translate_remote(place_.shown(), error, {});
        }
    }
    bool gives_ranges() const override { return gives_ranges_; }

private:
    HttpAsker make_asker() const {
        try {
            return HttpAsker(place_);
        } catch (const Error& error) {
            translate_remote(place_.shown(), error, {});
        }
    }

    const HttpPlace place_;
    mutable HttpWay way_;
    bool gives_ranges_ = true;
};

}  // namespace

std::unique_ptr<RemoteSource> make_http_source(const std::string& from, const std::string& verify,
                                               const Environment& environment,
                                               const RemoteTerms& terms) {
    HttpPlace place{.url = from.substr(0, from.find('#')),
                    .verify = verify,
                    .ca_file = value_of(environment, "SSL_CERT_FILE"),
                    .terms = terms};
    check_way(place, place.url);
    return std::make_unique<HttpSource>(std::move(place));
}

}  // namespace autolaunch::launcher
