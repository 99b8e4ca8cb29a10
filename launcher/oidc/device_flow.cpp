#include "oidc/device_flow.hpp"

#include "base/deadline.hpp"
#include "base/private_way.hpp"
#include "base/refuse.hpp"
#include "checkpoint/format/json.hpp"
#include "checkpoint/s3/sigv4.hpp"
#include "oidc/identity_token.hpp"
#include "oidc/key_set.hpp"
#include "web/http_client.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <thread>

namespace autolaunch::launcher::oidc {

namespace {

using Json = nlohmann::json;
using web::HttpClient;
using web::HttpRequest;
using web::HttpResponse;
using std::chrono::seconds;

constexpr seconds kAnswerTime{30}, kLongest{1800}, kLeastPause{1}, kMostPause{60}, kSlower{5};
constexpr std::size_t kMaxAnswer = 256 << 10, kMaxShown = 300;
constexpr char kDeviceGrant[] = "urn:ietf:params:oauth:grant-type:device_code";

[[noreturn]] void refuse_answer(const std::string& what) {
    throw Error(ErrorCode::corrupt, "the issuer's answer: " + what);
}

// The parser's own words would quote names of the answer.
Json parse_answer(std::string_view text, const char* what) {
    if (text.size() > kMaxAnswer)
        refuse_answer(std::string(what) + " has more than 256 KiB");
    try {
        return parse_strictly(text, what);
    } catch (const Error&) {
        refuse_answer(std::string(what) + " is no JSON object, or has a name twice");
    }
}

std::string text_in(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string required(const Json& object, const char* name) {
    std::string text = text_in(object, name);
    if (text.empty())
        refuse_answer(std::string("it has no ") + name);
    return text;
}

// Somebody else's text on the user's terminal.
std::string shown(const Json& object, const char* name) {
    std::string text = text_in(object, name);
    const bool odd =
        std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c > '~'; });
    if (odd || text.size() > kMaxShown)
        refuse_answer(std::string(name) + " cannot be shown");
    return text;
}

std::string private_place(const Json& object, const char* name) {
    std::string url = required(object, name);
    if (const std::string why = why_not_private(url); !why.empty())
        refuse_answer(std::string(name) + ": " + why);
    return url;
}

seconds span_in(const Json& object, const char* name, seconds otherwise, seconds most) {
    const auto found = object.find(name);
    if (found == object.end())
        return otherwise;
    if (!found->is_number())
        refuse_answer(std::string(name) + " is no number");
    const double value = found->get<double>();
    if (!(value >= 0))
        refuse_answer(std::string(name) + " is no time");
    return seconds(static_cast<long long>(std::min(value, static_cast<double>(most.count()))));
}

using Fields = std::map<std::string, std::string>;

class Issuer {
public:
    explicit Issuer(const std::string& ca_file) : http_(ca_file) {}

    std::string get(const std::string& url, const char* what) {
        HttpRequest request;
        request.url = url;
        request.headers["accept"] = "application/json";
        const HttpResponse response = http_.perform(request, Deadline::after(kAnswerTime));
        if (response.status != 200)
            throw Error(ErrorCode::system, std::string(what) + " at " + url + ": the issuer says " +
                                               std::to_string(response.status));
        return response.body;
    }
    HttpResponse post(const std::string& url, const Fields& fields) {
        std::string form;
        for (const auto& [name, value] : fields)
            form += (form.empty() ? "" : "&") + name + '=' + s3::uri_encode(value, false);
        HttpRequest request;
        request.method = "POST";
        request.url = url;
        request.headers["accept"] = "application/json";
        request.headers["content-type"] = "application/x-www-form-urlencoded";
        request.body = std::as_bytes(std::span(form));
        return http_.perform(request, Deadline::after(kAnswerTime));
    }

private:
    HttpClient http_;
};

std::string without_slash(std::string url) {
    if (url.ends_with('/'))
        url.pop_back();
    return url;
}

DeviceCode ask_for_code(Issuer& issuer, const IssuerPlaces& places, const LoginRequest& request) {
    const HttpResponse response = issuer.post(
        places.device_authorization, {{"client_id", request.client_id}, {"scope", request.scope}});
    if (response.status != 200)
        throw Error(ErrorCode::system,
                    "the issuer gives no code to the client " + request.client_id + ": it says " +
                        std::to_string(response.status),
                    "is the client known there, public, and allowed the device flow?");
    return parse_device_code(response.body);
}

std::string wait_for_token(Issuer& issuer, const IssuerPlaces& places, const LoginRequest& request,
                           const DeviceCode& code) {
    const Deadline over = Deadline::after(code.lasts);
    for (seconds pause = code.interval; !over.passed();) {
        std::this_thread::sleep_for(std::min<Deadline::Clock::duration>(over.remaining(), pause));
        const HttpResponse response = issuer.post(places.token, {{"client_id", request.client_id},
                                                                 {"device_code", code.device_code},
                                                                 {"grant_type", kDeviceGrant}});
        const TokenAnswer answer = parse_token_answer(response.status, response.body);
        if (!answer.token.empty())
            return answer.token;
        if (answer.slow_down)
            pause = std::min(pause + kSlower, kMostPause);
    }
    throw TimeoutError("nobody confirmed the code in " + std::to_string(code.lasts.count()) + " s",
                       "try again, and go to the address at once");
}

}  // namespace

IssuerPlaces parse_discovery(std::string_view json, const std::string& issuer) {
    const Json document = parse_answer(json, "the discovery document");
    if (text_in(document, "issuer") != issuer)
        refuse_answer("the discovery document is of another issuer than " + issuer);
    return {private_place(document, "device_authorization_endpoint"),
            private_place(document, "token_endpoint"), private_place(document, "jwks_uri")};
}

DeviceCode parse_device_code(std::string_view json) {
    const Json answer = parse_answer(json, "the device code");
    DeviceCode code;
    code.device_code = required(answer, "device_code");
    code.user_code = shown(answer, "user_code");
    code.address = shown(answer, "verification_uri");
    code.whole_address = shown(answer, "verification_uri_complete");
    if (code.user_code.empty() || code.address.empty())
        refuse_answer("it has no user_code or no verification_uri");
    code.lasts = span_in(answer, "expires_in", kLongest, kLongest);
    code.interval = std::max(span_in(answer, "interval", kSlower, kMostPause), kLeastPause);
    return code;
}

TokenAnswer parse_token_answer(int status, std::string_view json) {
    const Json answer = parse_answer(json, "the token");
    if (status == 200)
        return {required(answer, "id_token"), false, false};
    const std::string error = text_in(answer, "error");
    if (error == "authorization_pending")
        return {{}, true, false};
    if (error == "slow_down")
        return {{}, true, true};
    if (error == "access_denied")
        throw Error(ErrorCode::mismatch, "the login was refused at the issuer");
    if (error == "expired_token")
        throw Error(ErrorCode::mismatch, "the code is over: nobody confirmed it in time");
    throw Error(ErrorCode::mismatch, "the issuer gives no token: it says " +
                                         std::to_string(status) + " " + shown(answer, "error"));
}

Login login_by_device(const LoginRequest& request,
                      const std::function<void(const std::string&)>& say) {
    if (const std::string why = why_not_private(request.issuer); !why.empty())
        refuse("--issuer " + request.issuer + ": " + why, "its address begins with https://");
    if (request.client_id.empty())
        refuse("a client's name is needed", "--client-id: as autolaunch is known at the issuer");
    Issuer issuer(request.ca_file);
    const IssuerPlaces places = parse_discovery(
        issuer.get(without_slash(request.issuer) + "/.well-known/openid-configuration",
                   "the discovery document"),
        request.issuer);
    const DeviceCode code = ask_for_code(issuer, places, request);
    say("open " + (code.whole_address.empty() ? code.address : code.whole_address) +
        " in a browser, and confirm the code " + code.user_code + " (" +
        std::to_string(code.lasts.count()) + " s)");
    Login login;
    login.token = wait_for_token(issuer, places, request, code);
    // The keys of now: the issuer may have changed them while the user was on his way.
    const VerifiedToken verified = verify_identity_token(
        login.token, parse_key_set(issuer.get(places.keys, "the key set")),
        {request.issuer, request.client_id, std::nullopt, std::chrono::system_clock::now()});
    login.subject = verified.subject;
    login.expires = verified.expires;
    return login;
}

}  // namespace autolaunch::launcher::oidc
