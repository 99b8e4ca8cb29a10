// What is pure of S3: signatures against AWS's published examples, places, credentials, answers,
// and when to try again.

#include "base/hash.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "checkpoint/s3/credential_source.hpp"
#include "checkpoint/s3/object_checksum.hpp"
#include "checkpoint/s3/s3_answers.hpp"
#include "checkpoint/s3/s3_settings.hpp"
#include "checkpoint/s3/sigv4.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>

namespace s3_parts_test {

using namespace autolaunch;
using namespace autolaunch::s3;

namespace {

const std::string kEmptySha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kSecret[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

Credentials example_credentials() {
    const std::string secret = kSecret;
    return {"AKIAIOSFODNN7EXAMPLE", {secret.begin(), secret.end()}, {}};
}

// 2013-05-24T00:00:00Z, of the examples.
const auto kExampleTime = std::chrono::system_clock::from_time_t(1369353600);

std::string signature_of(RequestToSign request) {
    request.headers["host"] = "examplebucket.s3.amazonaws.com";
    sign(request, example_credentials(), "us-east-1", kExampleTime);
    const std::string& text = request.headers["authorization"];
    CHECK(text.starts_with(
        "AWS4-HMAC-SHA256 "
        "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders="));
    return text.substr(text.rfind('=') + 1);
}

template <class Call>
std::string refusal(Call call) {
    try {
        call();
        return "it was accepted";
    } catch (const Error& error) {
        return error.what();
    }
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("paths and queries are encoded as they are signed") {
    CHECK(uri_encode("a b/~-._é+", true) == "a%20b/~-._%C3%A9%2B");
    CHECK(uri_encode("a/b", false) == "a%2Fb");
    CHECK(canonical_query({{"uploads", ""}, {"prefix", "a b"}, {"a-", "1"}, {"a", "&="}}) ==
          "a=%26%3D&a-=1&prefix=a%20b&uploads=");
}

TEST_CASE("a place is a bucket and a prefix, at AWS or at a server of one's own") {
    const Location aws = locate("s3://weights/runs/7", {{"AWS_REGION", "eu-west-1"}});
    CHECK(aws.scheme == "https");
    CHECK(aws.host == "s3.eu-west-1.amazonaws.com");
    CHECK(aws.bucket == "weights");
    CHECK(aws.prefix == "runs/7/");
    CHECK_FALSE(aws.path_style);
    const Location own = locate(
        "s3://weights", {{"AWS_ENDPOINT_URL", "http://127.0.0.1:7480/"}, {"AWS_CA_BUNDLE", "/ca"}});
    CHECK(own.scheme == "http");
    CHECK(own.host == "127.0.0.1:7480");
    CHECK(own.prefix.empty());
    CHECK(own.path_style);
    CHECK(own.ca_file == "/ca");
    CHECK_FALSE(locate("s3://weights",
                       {{"AWS_ENDPOINT_URL_S3", "https://a"}, {"AUTOLAUNCH_S3_STYLE", "host"}})
                    .path_style);
    CHECK(locate("s3://my.weights", {}).path_style);
    CHECK(is_s3_url("s3://a"));
    CHECK_FALSE(is_s3_url("/s3://a"));
    for (const char* url : {"s3://", "s3:///a", "s3://UPPER", "s3://a", "s3://we ights",
                            "s3://we..ights", "s3://weights//x", "http://weights", "s3://../.."})
        CHECK_MESSAGE(refusal([&] { locate(url, {}); }) != "it was accepted", url);
    for (const char* endpoint : {"node1", "ftp://node1", "https://", "https://user@node1",
                                 "https://node1/path", "https://a?b"})
        CHECK_MESSAGE(refusal([&] {
                          locate("s3://weights", {{"AWS_ENDPOINT_URL", endpoint}});
                      }) != "it was accepted",
                      endpoint);
    CHECK(has(refusal([] {
                  locate("s3://weights", {{"AUTOLAUNCH_S3_STYLE", "x"}});
              }),
              "neither path nor host"));
}

TEST_CASE("http is for this machine alone, and the error names the variable and the fix") {
    for (const char* endpoint :
         {"http://node1:7480", "http://10.1.2.3", "http://127.0.0.1.evil.org", "http://0.0.0.0:1",
          "http://localhost.evil.org", "http://[::2]:1", "http://notlocalhost"})
        for (const char* variable : {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}) {
            const std::string what = refusal([&] {
                locate("s3://weights", {{variable, endpoint}});
            });
            CHECK_MESSAGE(
                has(what, std::string(variable) + " is " + endpoint + ": http sends in the clear"),
                what);
        }
    for (const char* endpoint : {"http://127.9.9.9:7480", "http://localhost", "http://[::1]:9",
                                 "http://weights.localhost:80", "https://node1:7480"})
        CHECK(locate("s3://weights", {{"AWS_ENDPOINT_URL", endpoint}}).path_style);
}

TEST_CASE("the server is asked to encrypt in a way that there is") {
    const auto with = [](Environment environment) { return locate("s3://weights", environment); };
    CHECK(with({}).server_encryption.empty());
    CHECK(with({{"AUTOLAUNCH_S3_SSE", "AES256"}}).server_encryption == "AES256");
    const Location kms =
        with({{"AUTOLAUNCH_S3_SSE", "aws:kms"}, {"AUTOLAUNCH_S3_SSE_KMS_KEY_ID", "alias/c"}});
    CHECK(kms.server_encryption == "aws:kms");
    CHECK(kms.kms_key_id == "alias/c");
    for (const Environment& wrong :
         {Environment{{"AUTOLAUNCH_S3_SSE", "aes256"}}, Environment{{"AUTOLAUNCH_S3_SSE", "SSE-C"}},
          Environment{{"AUTOLAUNCH_S3_SSE_KMS_KEY_ID", "k"}},
          Environment{{"AUTOLAUNCH_S3_SSE", "AES256"}, {"AUTOLAUNCH_S3_SSE_KMS_KEY_ID", "k"}},
          Environment{{"AUTOLAUNCH_S3_SSE", "aws:kms"},
                      {"AUTOLAUNCH_S3_SSE_KMS_KEY_ID", "k\r\nx-amz-acl: public-read"}}})
        CHECK(has(refusal([&] { with(wrong); }), "AUTOLAUNCH_S3_SSE"));
}

TEST_CASE("checksums are asked for, but where AWS's own tools would not either") {
    CHECK(locate("s3://weights", {}).checksums);
    CHECK(
        locate("s3://weights", {{"AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_SUPPORTED"}}).checksums);
    CHECK(
        !locate("s3://weights", {{"AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_REQUIRED"}}).checksums);
    CHECK(locate("s3://weights", {}).tells_checksums);
    CHECK(!locate("s3://weights", {{"AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required"}})
               .tells_checksums);
}

TEST_CASE("credentials come from variables or a profile, and are never quoted") {
    const Credentials given = find_credentials({{"AWS_ACCESS_KEY_ID", "AK"},
                                                {"AWS_SECRET_ACCESS_KEY", "secret"},
                                                {"AWS_SESSION_TOKEN", "token"}});
    CHECK(given.key_id == "AK");
    CHECK(crypto::as_text(given.secret) == "secret");
    CHECK(crypto::as_text(given.session_token) == "token");
    CHECK(has(refusal([] {
                  find_credentials({{"AWS_ACCESS_KEY_ID", "AK"}});
              }),
              "AWS_SECRET_ACCESS_KEY is not"));
    CHECK(has(refusal([] {
                  find_credentials({{"HOME", "/nonexistent"}});
              }),
              "/nonexistent/.aws/credentials"));

    const std::string file =
        "# mine\n[default]\naws_access_key_id = A1\r\naws_secret_access_key=s3cret\n\n"
        "[ other ]\naws_access_key_id=A2\naws_secret_access_key=t\naws_session_token = u\n[half]\n"
        "aws_access_key_id=A3\naws_secret_access_key=\n";
    const Credentials first = parse_credentials(file, "default", "f");
    CHECK(first.key_id == "A1");
    CHECK(crypto::as_text(first.secret) == "s3cret");
    CHECK(first.session_token.empty());
    CHECK(crypto::as_text(parse_credentials(file, "other", "f").session_token) == "u");
    CHECK(refusal([&] { parse_credentials(file, "none", "f"); }) == "f has no profile [none]");
    CHECK(has(refusal([&] { parse_credentials(file, "half", "f"); }), "f: profile [half] lacks"));
}

TEST_CASE("credentials for a time say until when, at the latest until the clock's last years") {
    using namespace std::chrono;
    const auto end_of = [](const std::string& end) {
        return parse_credentials_json(R"({"AccessKeyId": "A", "SecretAccessKey": "s", "Token": "t",
                                          "Expiration": ")" +
                                      end + "\"}")
            .end;
    };
    CHECK(end_of("2000-02-29T23:59:59.123Z") == sys_days(year(2000) / 2 / 29) + 24h - 1s);
    CHECK(end_of("9999-12-31T23:59:59Z") > sys_days(year(2250) / 1 / 1));
    CHECK(refusal([&] { end_of("2001-02-29T00:00:00Z"); }) != "it was accepted");
}

TEST_CASE("a role's name can stand in a path") {
    CHECK(parse_role_name("a-role\nanother") == "a-role");
    for (const char* wrong : {"", "../x", "a/b", "a?b", "a b", "\n"})
        CHECK_MESSAGE(refusal([&] { parse_role_name(wrong); }) != "it was accepted", wrong);
}

TEST_CASE("credentials for a time are renewed before they end, and serve while nobody answers") {
    using namespace std::chrono;
    system_clock::time_point now{24h};
    int asked = 0;
    bool answers = true;
    const auto source = renewed_credentials(
        [&](const Deadline&) {
            ++asked;
            if (!answers)
                throw Error(ErrorCode::closed, "nobody answers");
            return TemporaryCredentials{{"K" + std::to_string(asked), {'s'}, {'t'}}, now + 1h};
        },
        [&] { return now; });
    const auto key = [&] { return source->get(Deadline::after(1s))->key_id; };
    CHECK(key() == "K1");
    now += 54min;
    CHECK(key() == "K1");
    now += 2min;  // four are left
    answers = false;
    CHECK(key() == "K1");
    CHECK(asked == 2);
    CHECK(key() == "K1");
    CHECK(asked == 2);  // not at every request
    now += 31s;
    answers = true;
    CHECK(key() == "K3");
    now += 61min;
    answers = false;
    CHECK(refusal([&] { key(); }) == "nobody answers");
    answers = true;
    CHECK(key() == "K5");
    CHECK(source->have_ended({"K5", {}, {}}));
    CHECK(key() == "K6");
    CHECK(source->have_ended({"K5", {}, {}}));  // those of before: the new ones stay
    CHECK(key() == "K6");
    CHECK(!fixed_credentials({"F", {}, {}})->have_ended({"F", {}, {}}));
}

TEST_CASE("listings are read, and what is none is refused") {
    const std::string head =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult xmlns=\"http://x\">";
    const ListPage page = parse_list(
        head +
        "<IsTruncated>true</IsTruncated><Contents><Key>a%2Fb+c&amp;d</Key><Size>12</Size>"
        "<ETag>&quot;9b2c&quot;</ETag><LastModified>2026-01-02T03:04:05.678Z</LastModified>"
        "</Contents><Contents><Size>0</Size><Key>e</Key></Contents><CommonPrefixes><Prefix>"
        "step-1%2F</Prefix></CommonPrefixes><NextContinuationToken>1&lt;</"
        "NextContinuationToken></ListBucketResult>");
    CHECK(page.objects ==
          std::vector<Object>{{"a/b c&d", 12, "\"9b2c\"", "2026-01-02T03:04:05.678Z"}, {"e", 0}});
    CHECK(page.prefixes == std::vector<std::string>{"step-1/"});
    CHECK(page.next == "1<");
    CHECK(parse_list(head + "</ListBucketResult>").objects.empty());
    for (const char* bad :
         {"<Contents><Key>a</Key></Contents>", "<Contents><Key>a</Key><Size>-1</Size></Contents>",
          "<Contents><Size>1</Size></Contents>", "<Contents><Key>a</Key><Size>1</Size>",
          "<Contents><Key>%4</Key><Size>1</Size></Contents>",
          "<Contents><Key>%zz</Key><Size>1</Size></Contents>", "<IsTruncated>true</IsTruncated>"})
        CHECK_MESSAGE(refusal([&] { parse_list(head + bad); }) != "it was accepted", bad);
    CHECK(refusal([] { parse_list("<html>welcome</html>"); }) != "it was accepted");
    CHECK(parse_uploads(
              "<ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>2~x</UploadId></Upload>"
              "</ListMultipartUploadsResult>") == UploadPage{{{"k", "2~x"}}, "", ""});
    const UploadPage uploads = parse_uploads(
        "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k%2F</"
        "NextKeyMarker>"
        "<NextUploadIdMarker>3</NextUploadIdMarker><Upload><Key>k</Key><UploadId>2~x</UploadId>"
        "<ChecksumAlgorithm>SHA256</ChecksumAlgorithm></Upload></ListMultipartUploadsResult>");
    CHECK(uploads == UploadPage{{{"k", "2~x", "SHA256"}}, "k/", "3"});
    const std::string parts = "<ListPartsResult xmlns=\"http://x\">";
    CHECK(
        parse_parts(parts +
                    "<IsTruncated>true</IsTruncated><NextPartNumberMarker>2</NextPartNumberMarker>"
                    "<Part><PartNumber>2</PartNumber><ETag>&quot;ab&quot;</ETag><Size>5</Size>"
                    "<ChecksumSHA256>x=</ChecksumSHA256></Part></ListPartsResult>") ==
        PartPage{{{2, 5, "\"ab\"", "x="}}, "2"});
    for (const char* bad :
         {"<Part><Size>5</Size></Part>", "<Part><PartNumber>0</PartNumber><Size>5</Size></Part>",
          "<Part><PartNumber>1</PartNumber></Part>", "<IsTruncated>true</IsTruncated>"})
        CHECK_MESSAGE(refusal([&] { parse_parts(parts + bad); }) != "it was accepted", bad);
    CHECK(refusal([] { parse_parts("<html/>"); }) != "it was accepted");
    CHECK(parse_upload_id("<a><UploadId>2~x</UploadId></a>") == "2~x");
    CHECK(refusal([] { parse_upload_id("<a/>"); }) != "it was accepted");
}

TEST_CASE("a server's refusal is one printable line, with advice") {
    const Problem problem =
        parse_problem("<Error><Code>AccessDenied</Code><Message>no\n\x1b[2J&lt;</Message></Error>");
    CHECK(problem.code == "AccessDenied");
    CHECK(problem.message == "no  [2J<");
    CHECK(parse_problem("<html>").code.empty());
    CHECK(parse_problem("<Error><Code>half").code == "unreadable");
    CHECK(parse_problem("<Error><Message>" + std::string(10'000, 'x') + "</Message></Error>")
              .message.size() == 200);
    CHECK(has(advice(404, "NoSuchBucket"), "make the bucket"));
    CHECK(has(advice(301, ""), "AWS_REGION"));
    CHECK(advice(404, "NoSuchKey").empty());
}

TEST_CASE("parts are large enough to be few") {
    constexpr std::uint64_t kMiB = 1 << 20, kTiB = std::uint64_t{1} << 40;
    CHECK(part_bytes_for(100 * kMiB, 16 * kMiB) == 16 * kMiB);
    for (const std::uint64_t total :
         {10'000 * 16 * kMiB - 1, 10'000 * 16 * kMiB, 10'000 * 16 * kMiB + 1, kTiB, 5 * kTiB}) {
        const std::uint64_t part = part_bytes_for(total, 16 * kMiB);
        CHECK((total + part - 1) / part <= 10'000);
        CHECK(part >= 16 * kMiB);
    }
    CHECK(complete_request({"\"a\"", "\"b\""}) ==
          "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>"
          "<Part><PartNumber>2</PartNumber><ETag>\"b\"</ETag></Part></CompleteMultipartUpload>");
    CHECK(complete_request({"a"}, {"s="}) ==
          "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>a</ETag>"
          "<ChecksumSHA256>s=</ChecksumSHA256></Part></CompleteMultipartUpload>");
}

TEST_CASE("what may pass is tried again, later each time; what will not is not") {
    for (const int status : {0, 408, 429, 500, 502, 503, 504})
        CHECK_MESSAGE(is_worth_retrying(status, ""), status);
    for (const int status : {301, 400, 403, 404, 409, 412, 501})
        CHECK_FALSE_MESSAGE(is_worth_retrying(status, ""), status);
    CHECK(is_worth_retrying(200, "InternalError"));
    CHECK(is_worth_retrying(409, "ConditionalRequestConflict"));
    CHECK(retry_delay(2, 0).count() == 50);
    CHECK(retry_delay(2, 1).count() == 100);
    CHECK(retry_delay(3, 1).count() == 200);
    CHECK(retry_delay(1000, 1).count() == 10'000);
    CHECK(retry_delay(1000, 0).count() == 5'000);
}

// Last: the rest needs no libcrypto.
TEST_CASE("signatures are those of AWS's examples") {
    try {
        crypto::sha256({});
    } catch (const Error& error) {
        std::printf("skipped: %s\n", error.what());
        std::exit(77);
    }
    RequestToSign get{.path = "/test.txt",
                      .query = {},
                      .headers = {{"range", "bytes=0-9"}},
                      .payload_sha256 = kEmptySha256};
    CHECK(signature_of(get) == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    const std::string body = "Welcome to Amazon S3.";
    const auto digest = crypto::sha256(crypto::bytes_of(body));
    RequestToSign put{.method = "PUT",
                      .path = "/test$file.text",
                      .query = {},
                      .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                  {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                      .payload_sha256 = hex(digest)};
    CHECK(signature_of(put) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
    RequestToSign lifecycle{
        .query = {{"lifecycle", ""}}, .headers = {}, .payload_sha256 = kEmptySha256};
    CHECK(signature_of(lifecycle) ==
          "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    RequestToSign list{.query = {{"prefix", "J"}, {"max-keys", "2"}},
                       .headers = {},
                       .payload_sha256 = kEmptySha256};
    CHECK(signature_of(list) == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST_CASE("a session's token is sent and signed") {
    Credentials credentials = example_credentials();
    credentials.session_token = {'t', '0'};
    RequestToSign request{.query = {}, .headers = {{"host", "h"}}, .payload_sha256 = kEmptySha256};
    sign(request, credentials, "us-east-1", kExampleTime);
    CHECK(request.headers.at("x-amz-security-token") == "t0");
    CHECK(has(request.headers.at("authorization"),
              "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"));
}

TEST_CASE("of an object's checksums the one that says most is taken, and what is none is refused") {
    using Kind = ObjectChecksum::Kind;
    const std::string crc64 = "rosUhgp5mIg=", crc32 = "y/Q5Jg==", crc32c = "4waSgw==",
                      sha256 = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    const auto bytes = std::as_bytes(std::span("123456789", 9));
    CHECK(base64_of(checksum_of(Kind::crc64_nvme, bytes)) == crc64);
    CHECK(base64_of(checksum_of(Kind::crc32, bytes)) == crc32);
    CHECK(base64_of(checksum_of(Kind::crc32c, bytes)) == crc32c);
    CHECK(checksum_in({}) == std::nullopt);
    CHECK(checksum_in({{"x-amz-checksum-sha1", "2jmj7l5rSw0yVb/vlWAYkK/YBwk="}}) == std::nullopt);
    CHECK(checksum_in({{"x-amz-checksum-crc32", ""}}) == std::nullopt);
    CHECK(checksum_in({{"x-amz-checksum-sha256", sha256}}) ==
          ObjectChecksum{Kind::sha256, sha256, 0});
    CHECK(checksum_in({{"x-amz-checksum-sha256", sha256},
                       {"x-amz-checksum-crc32", crc32},
                       {"x-amz-checksum-crc64nvme", crc64},
                       {"x-amz-checksum-type", "FULL_OBJECT"}}) ==
          ObjectChecksum{Kind::crc64_nvme, crc64, 0});
    CHECK(checksum_in(
              {{"x-amz-checksum-crc32c", crc32c + "-7"}, {"x-amz-checksum-type", "COMPOSITE"}}) ==
          ObjectChecksum{Kind::crc32c, crc32c, 7});
    CHECK(checksum_in({{"x-amz-checksum-crc32", crc32 + "-2"}}) ==
          ObjectChecksum{Kind::crc32, crc32, 2});
    CHECK(checksum_in({{"x-amz-checksum-crc32", crc32}, {"x-amz-checksum-type", "COMPOSITE"}}) ==
          std::nullopt);
    for (const std::string& wrong :
         {crc64, crc32 + "-0", crc32 + "-10001", crc32 + "-", crc32 + "-x", std::string("y/Q5Jg"),
          std::string("y/Q5Jg="), std::string("y/Q5Jh=="), std::string("y/Q5J\n=="),
          std::string("-7"), std::string("=")})
        CHECK_MESSAGE(has(refusal([&] {
                              checksum_in({{"x-amz-checksum-crc32", wrong}});
                          }),
                          "x-amz-checksum-crc32 is no checksum"),
                      wrong);
}

}  // namespace s3_parts_test
