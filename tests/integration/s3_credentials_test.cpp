// Credentials that others give for a time: STS, a container's agent, an instance's metadata. None
// of them can be had in a test: SCRIPTED servers on loopback stand in their place, by the variables
// that AWS's own tools have for it, and say what AWS's documentation says that the real ones do.

#include "base/file_io.hpp"
#include "checkpoint/s3/credential_source.hpp"
#include "scripted_server.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace s3_credentials_test {

using namespace autolaunch;
using namespace autolaunch::s3;
using namespace autolaunch::s3::testing;
using namespace std::chrono_literals;

namespace {

const std::string kSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                  kToken = "AQoDYXdzEJr//token==", kLater = "2126-11-29T17:02:03Z";

Deadline soon() { return Deadline::after(10s); }

std::string json_of(const std::string& end = kLater) {
    return R"({"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"ASIAEXAMPLE","SecretAccessKey":")" +
           kSecret + R"(","Token":")" + kToken + R"(","Expiration":")" + end + "\"}";
}

std::string xml_of(const std::string& end = kLater) {
    return "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
           "<AssumeRoleWithWebIdentityResult><Audience>c</Audience><Credentials><SessionToken>" +
           kToken + "</SessionToken><SecretAccessKey>" + kSecret +
           "</SecretAccessKey><Expiration>" + end +
           "</Expiration><AccessKeyId>ASIAEXAMPLE</AccessKeyId></Credentials>"
           "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

void check_good(const std::shared_ptr<CredentialSource>& source) {
    const auto credentials = source->get(soon());
    CHECK(credentials->key_id == "ASIAEXAMPLE");
    CHECK(crypto::as_text(credentials->secret) == kSecret);
    CHECK(crypto::as_text(credentials->session_token) == kToken);
}

template <class Call>
Error refusal(const Call& call) {
    try {
        call();
    } catch (const Error& error) {
        const std::string all = std::string(error.what()) + error.hint();
        for (const std::string& secret : {kSecret, kToken, std::string("the.signed.token")})
            CHECK_MESSAGE(!has(all, secret), all);
        return error;
    }
    return {ErrorCode::aborted, "it was accepted"};
}

struct TokenFile {
    explicit TokenFile(const std::string& text) { std::ofstream(path) << text; }
    ~TokenFile() { std::filesystem::remove(path); }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("autolaunch-token-" + random_hex(8));
};

// A service that answers so, whatever it is asked.
std::string said_by(const ScriptedAnswer& answer) {
    ScriptedServer agent([&](const ScriptedRequest&) { return answer; });
    const Error error = refusal([&] {
        find_credential_source({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.url() + "/x"}})
            ->get(soon());
    });
    return error.what();
}

void need_libraries() {
    try {
        HttpClient("");
        crypto::sha256({});
    } catch (const Error& error) {
        std::printf("skipped: %s\n", error.what());
        std::exit(77);
    }
}

}  // namespace

TEST_CASE("a token that somebody has signed is shown to STS, anew each time") {
    need_libraries();
    const TokenFile token("the.signed.token\n");
    ScriptedServer sts([&](const ScriptedRequest&) {
        // They are to be renewed at once.
        const auto end = std::chrono::system_clock::now() + 2s;
        const std::time_t when = std::chrono::system_clock::to_time_t(end);
        char text[32];
        std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&when));
        return ScriptedAnswer{.body = xml_of(text)};
    });
    const Environment environment = {{"AWS_WEB_IDENTITY_TOKEN_FILE", token.path},
                                     {"AWS_ROLE_ARN", "arn:aws:iam::1:role/r"},
                                     {"AWS_ROLE_SESSION_NAME", "me@here"},
                                     {"AWS_ENDPOINT_URL_STS", sts.url()}};
    const auto source = find_credential_source(environment);
    CHECK(sts.requests().empty());  // not before they are wanted
    check_good(source);
    check_good(source);
    REQUIRE(sts.requests().size() == 1);
    const ScriptedRequest asked = sts.requests()[0];
    CHECK(asked.line == "POST /");
    CHECK(has(asked.head, "content-type: application/x-www-form-urlencoded"));
    CHECK(!has(asked.head, "authorization:"));
    CHECK(asked.body ==
          "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&"
          "RoleSessionName=me%40here&Version=2011-06-15&WebIdentityToken=the.signed.token");
    std::ofstream(token.path) << "another.token";
    std::this_thread::sleep_for(1100ms);
    check_good(source);
    REQUIRE(sts.requests().size() == 2);
    CHECK(has(sts.requests()[1].body, "WebIdentityToken=another.token"));

    ScriptedServer refuses([](const ScriptedRequest&) {
        return ScriptedAnswer{400,
                              "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>no "
                              "provider for the.signed.token</Message></Error></ErrorResponse>"};
    });
    Environment wrong = environment;
    wrong["AWS_ENDPOINT_URL_STS"] = refuses.url();
    const Error error = refusal([&] { find_credential_source(wrong)->get(soon()); });
    CHECK_MESSAGE(has(error.what(), "/ says 400 InvalidIdentityToken"), error.what());
    CHECK(has(error.hint(), "AWS_ROLE_ARN"));
    wrong["AWS_ENDPOINT_URL_STS"] = "http://sts.example.org";
    CHECK(has(refusal([&] { find_credential_source(wrong); }).what(), "AWS_ENDPOINT_URL_STS is"));
    wrong.erase("AWS_ROLE_ARN");
    CHECK(has(refusal([&] { find_credential_source(wrong); }).what(), "AWS_ROLE_ARN is not"));
}

TEST_CASE("a container's agent is asked with the token that it wants") {
    need_libraries();
    const TokenFile token("pod-token");
    ScriptedServer agent([](const ScriptedRequest&) { return ScriptedAnswer{.body = json_of()}; });
    Environment environment = {
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.url() + "/v1/credentials"},
        {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.path},
        {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "not this one"}};
    const auto source = find_credential_source(environment);
    check_good(source);
    check_good(source);
    REQUIRE(agent.requests().size() == 1);
    CHECK(agent.requests()[0].line == "GET /v1/credentials");
    CHECK(has(agent.requests()[0].head, "\nauthorization: pod-token\r\n"));
    // A server says that they have ended: there are others.
    CHECK(source->have_ended(*source->get(soon())));
    check_good(source);
    CHECK(agent.requests().size() == 2);
    for (const char* away : {"http://10.0.0.1/x", "http://169.254.170.2.example.org/x",
                             "http://169.254.170.2@example.org/x", "ftp://127.0.0.1/x"}) {
        environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = away;
        CHECK_MESSAGE(has(refusal([&] { find_credential_source(environment); }).what(),
                          "AWS_CONTAINER_CREDENTIALS_FULL_URI is"),
                      away);
    }
}

TEST_CASE("an instance's metadata are asked by their second version, at once") {
    need_libraries();
    ScriptedServer metadata([](const ScriptedRequest& request) {
        if (request.line == "PUT /latest/api/token")
            return ScriptedAnswer{.body = "session-token"};
        if (!has(request.head, "\nx-aws-ec2-metadata-token: session-token\r\n"))
            return ScriptedAnswer{401, ""};
        if (request.line == "GET /latest/meta-data/iam/security-credentials/")
            return ScriptedAnswer{.body = "trainer-role\n"};
        if (request.line == "GET /latest/meta-data/iam/security-credentials/trainer-role")
            return ScriptedAnswer{.body = json_of()};
        return ScriptedAnswer{404, ""};
    });
    const auto source =
        find_credential_source({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url() + "/"}});
    CHECK(metadata.requests().size() == 3);
    CHECK(has(metadata.requests()[0].head, "x-aws-ec2-metadata-token-ttl-seconds: "));
    check_good(source);
    CHECK(metadata.requests().size() == 3);

    ScriptedServer no_role([](const ScriptedRequest& request) {
        return request.line.starts_with("PUT") ? ScriptedAnswer{.body = "t"}
                                               : ScriptedAnswer{404, ""};
    });
    const Error none = refusal([&] {
        find_credential_source({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", no_role.url()}});
    });
    CHECK(none.code() == ErrorCode::invalid_argument);
    CHECK_MESSAGE(has(none.what(),
                      "AWS_ACCESS_KEY_ID is not set, and there is no file "
                      "~/.aws/credentials, and this machine's metadata have none: "),
                  none.what());
    // Nobody answers: that takes no longer than it must.
    ScriptedServer silent([](const ScriptedRequest&) {
        std::this_thread::sleep_for(1500ms);
        return ScriptedAnswer{};
    });
    const auto start = std::chrono::steady_clock::now();
    refusal([&] { find_credential_source({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", silent.url()}}); });
    CHECK(std::chrono::steady_clock::now() - start < 2500ms);
    const Error off = refusal([&] {
        find_credential_source({{"AWS_EC2_METADATA_DISABLED", "true"},
                                {"AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url()}});
    });
    CHECK(!has(off.what(), "metadata"));
    CHECK(metadata.requests().size() == 3);
}

TEST_CASE("answers that are no credentials are refused, and never quoted") {
    need_libraries();
    CHECK(has(said_by({.body = "<html>welcome</html>"}), "is no JSON"));
    CHECK(has(said_by({.body = std::string(100'000, 'x')}), "longer than what was asked for"));
    CHECK(has(said_by({.body = std::string(50'000, '[')}), "is no JSON"));
    CHECK(has(said_by({.body = json_of("soon")}), "until when they are good"));
    CHECK(has(said_by({.body = json_of("2016-02-25T06:03:31Z")}), "have ended already"));
    CHECK(has(said_by({.body = R"({"Code":"AssumeRoleUnauthorizedAccess"})"}), "there are none"));
    CHECK(has(
        said_by(
            {.body =
                 R"({"AccessKeyId":"A\r\nx: y","SecretAccessKey":"s","Token":"t","Expiration":")" +
                 kLater + "\"}"}),
        "has no key id that can be one"));
    CHECK(has(said_by({500, "<Error><Code>" + kSecret + "</Code></Error>"}), "says 500"));
}

}  // namespace s3_credentials_test
