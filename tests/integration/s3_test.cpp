// The S3 client against a real server, Debian's radosgw, also through a network that fails. Skipped
// where it is missing.

#include "checkpoint/crypto/crypto.hpp"
#include "checkpoint/s3/s3_storage.hpp"
#include "s3_server.hpp"
#include "scripted_server.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace s3_test {

using namespace autolaunch;
using namespace autolaunch::s3;
using namespace autolaunch::s3::testing;
using namespace std::chrono_literals;
using Fate = BadNetwork::Fate;

namespace {

Deadline soon() { return Deadline::after(30s); }

// One bucket for all cases; each has a prefix of its own.
S3Client client_of(const std::string& prefix, int port = 0) {
    static const bool made = [] {
        need_s3_server();
        Location location = location_at(server().port(), "weights");
        // Making a bucket is no part of the client: an object with an empty name is the bucket
        // itself.
        S3Client(location, test_credentials()).put("", {}, false, soon());
        return true;
    }();
    (void)made;
    return {location_at(port == 0 ? server().port() : port, "weights", prefix), test_credentials()};
}

std::span<const std::byte> span_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

std::string content_of(S3Client& client, const std::string& key) {
    std::string text(client.find(key, soon()).value(), '\0');
    text.resize(client.get(key, 0, std::as_writable_bytes(std::span(text)), soon()));
    return text;
}

std::string random_text(std::size_t bytes) {
    std::mt19937_64 random(bytes);
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
        const auto word = random();
        std::memcpy(&text[i], &word, 8);
    }
    return text;
}

auto reader_of(const std::string& text) {
    return [&text](std::uint64_t offset, std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), text.data() + offset, bytes.size());
    };
}

template <class Call>
Error refusal(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return error;
    }
    return {ErrorCode::aborted, "it was accepted"};
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what is put is there, in whole and in ranges, and what is removed is not") {
    S3Client client = client_of("plain");
    for (const std::string key : {"a", "dir/b c+d%20&é=~", "dir/sub/x..y", "dir/'quotes\"<>"}) {
        INFO(key);
        CHECK(client.put(key, span_of("0123456789"), false, soon()) == S3Client::Put::created);
        CHECK(client.find(key, soon()) == 10);
        CHECK(content_of(client, key) == "0123456789");
    }
    std::string part(4, '\0');
    const auto get = [&](std::uint64_t offset) {
        part.resize(4);
        part.resize(client.get("a", offset, std::as_writable_bytes(std::span(part)), soon()));
        return part;
    };
    CHECK(get(3) == "3456");
    CHECK(get(8) == "89");
    CHECK(get(10).empty());
    CHECK(get(1000).empty());
    const s3::Listing deep = client.list("dir/", true, soon());
    CHECK(deep.objects.size() == 3);
    CHECK(std::count_if(deep.objects.begin(), deep.objects.end(), [](const Object& object) {
              return object.key == "dir/b c+d%20&é=~" && object.bytes == 10;
          }) == 1);
    const s3::Listing top = client.list("", false, soon());
    REQUIRE(top.objects.size() == 1);
    CHECK(top.objects[0].key == "a");
    CHECK(top.objects[0].bytes == 10);
    CHECK(top.prefixes == std::vector<std::string>{"dir/"});
    client.remove("a", soon());
    client.remove("a", soon());
    CHECK_FALSE(client.find("a", soon()).has_value());
    CHECK(has(refusal([&] { get(0); }).what(), "404 NoSuchKey"));
}

TEST_CASE("a version of an object is read, and no other one") {
    S3Client client = client_of("versions");
    client.put("v", span_of("0123456789"), false, soon());
    client.put("empty", {}, false, soon());
    const auto seen = client.look("v", soon());
    REQUIRE(seen);
    CHECK(seen->bytes == 10);
    CHECK(seen->etag == client.list("v", true, soon()).objects.at(0).etag);
    CHECK(seen->etag.starts_with('"'));
    CHECK_FALSE(seen->modified.empty());
    CHECK(client.look("empty", soon())->bytes == 0);
    CHECK_FALSE(client.look("none", soon()));
    std::string part(4, '\0');
    std::atomic<std::int64_t> arrived = 0;
    std::string etag = seen->etag;
    const auto get = [&] {
        return client.get("v", 2, std::as_writable_bytes(std::span(part)), soon(),
                          {.etag = etag, .arrived = &arrived, .patience = 5s});
    };
    CHECK(get() == 4);
    CHECK(part == "2345");
    CHECK(arrived == 4);
    etag = etag.substr(1, etag.size() - 2);  // as some servers list it
    CHECK(get() == 4);
    client.put("v", span_of("9876543210"), false, soon());
    CHECK(refusal(get).code() == ErrorCode::mismatch);
}

TEST_CASE("a server that says nothing more is waited for as long as patience lasts") {
    S3Client through = client_of("patience");
    through.put("v", span_of("0123456789"), false, soon());
    BadNetwork network(server().port(), std::vector<Fate>(40, Fate::close));
    S3Client client = client_of("patience", network.port());
    std::string part(4, '\0');
    std::atomic<std::int64_t> arrived = 0;
    const auto began = std::chrono::steady_clock::now();
    const Error error = refusal([&] {
        client.get("v", 0, std::as_writable_bytes(std::span(part)), soon(),
                   {.etag = {}, .arrived = &arrived, .patience = 500ms});
    });
    CHECK(error.code() == ErrorCode::timeout);
    CHECK(std::chrono::steady_clock::now() - began < 5s);
}

TEST_CASE("an empty object, and a listing of several pages") {
    S3Client client = client_of("many");
    client.put("empty", {}, false, soon());
    CHECK(client.find("empty", soon()) == 0);
    for (int i = 0; i < 1005; ++i)
        client.put("n/" + std::to_string(i), span_of("x"), false, soon());
    CHECK(client.list("n/", true, soon()).objects.size() == 1005);
}

TEST_CASE("an object that is there is not replaced when it must not be") {
    S3Client client = client_of("once");
    CHECK(client.put("m", span_of("first"), true, soon()) == S3Client::Put::created);
    CHECK(client.put("m", span_of("second"), true, soon()) == S3Client::Put::exists);
    CHECK(content_of(client, "m") == "first");
    client.put("m", span_of("third"), false, soon());
    CHECK(content_of(client, "m") == "third");
}

TEST_CASE("with the bucket in the host's name") {
    client_of("styles").put("k", span_of("value"), false, soon());
    Location location = location_at(server().port(), "weights", "styles");
    location.path_style = false;
    S3Client client(location, test_credentials());
    CHECK(content_of(client, "k") == "value");
    CHECK(client.list("", true, soon()).objects.size() == 1);
}

TEST_CASE("a large object goes in parts, side by side, and is whole") {
    S3Client client = client_of("large");
    const std::string text = random_text((23 << 20) + 5);
    client.upload("big", text.size(), reader_of(text), {.part_bytes = 5 << 20, .parallel = 3},
                  soon());
    CHECK(client.find("big", soon()) == text.size());
    CHECK((content_of(client, "big") == text));
    client.upload("small", 5, reader_of(text), {}, soon());
    CHECK((content_of(client, "small") == text.substr(0, 5)));
    client.upload("none", 0, reader_of(text), {}, soon());
    CHECK(client.find("none", soon()) == 0);
}

TEST_CASE("what is stored is encrypted by the server where that was asked for, and it says so") {
    client_of("kms");
    Location location = location_at(server().port(), "weights", "kms");
    location.server_encryption = "aws:kms";
    location.kms_key_id = "checkpoints";
    S3Client client(location, test_credentials());
    client.put("small", span_of("0123456789"), false, soon());
    CHECK(client.put("once", span_of("first"), true, soon()) == S3Client::Put::created);
    CHECK(client.put("once", span_of("second"), true, soon()) == S3Client::Put::exists);
    CHECK(content_of(client, "small") == "0123456789");
    const std::string text = random_text((11 << 20) + 7);
    client.upload("big", text.size(), reader_of(text), {.part_bytes = 5 << 20, .parallel = 2},
                  soon());
    CHECK((content_of(client, "big") == text));

    location.kms_key_id = "no-such-key";
    const Error unknown = refusal(
        [&] { S3Client(location, test_credentials()).put("lost", span_of("x"), false, soon()); });
    CHECK(has(unknown.what(), "PUT s3://weights/kms/lost"));
    CHECK_FALSE(client.find("lost", soon()).has_value());
    location.server_encryption = "aws:kms:dsse";  // which this server does not know, and says so
    location.kms_key_id.clear();
    CHECK(refusal([&] {
              S3Client(location, test_credentials()).put("lost", span_of("x"), false, soon());
          }).code() == ErrorCode::system);
    // It takes this header for nothing, and stores in the clear.
    location.server_encryption = "AES256";
    const Error ignored = refusal(
        [&] { S3Client(location, test_credentials()).put("clear", span_of("x"), false, soon()); });
    CHECK(ignored.code() == ErrorCode::unsupported);
    CHECK(has(ignored.what(), "does not say that it did it"));
    CHECK_THROWS_AS(
        S3Client(location, test_credentials())
            .upload("clear-big", text.size(), reader_of(text), {.part_bytes = 5 << 20}, soon()),
        Error);
    CHECK_FALSE(client.find("clear-big", soon()).has_value());
    CHECK(client.abort_uploads("", soon()) == 0);
}

TEST_CASE("an upload that fails leaves nothing behind; one that died is taken back later") {
    S3Client client = client_of("failed");
    const std::string text = random_text(12 << 20);
    const auto fails = [&](std::uint64_t offset, std::span<std::byte> bytes) {
        if (offset > 0)
            throw Error(ErrorCode::corrupt, "the source is damaged");
        reader_of(text)(offset, bytes);
    };
    const Error error = refusal([&] {
        client.upload("big", text.size(), fails, {.part_bytes = 5 << 20, .parallel = 2}, soon());
    });
    CHECK(error.code() == ErrorCode::corrupt);
    CHECK(std::string(error.what()) == "the source is damaged");
    CHECK_FALSE(client.find("big", soon()).has_value());
    CHECK(client.abort_uploads("", soon()) == 0);
    // One whose process is gone: killed in the middle, so that nobody takes it back.
    if (const pid_t child = ::fork(); child == 0) {
        try {
            S3Client mine = client_of("failed");
            mine.upload(
                "dead", text.size(),
                [&](std::uint64_t offset, auto) {
                    if (offset > 0)
                        ::_exit(0);
                },
                {.part_bytes = 5 << 20, .parallel = 1}, soon());
        } catch (...) {
        }
        ::_exit(1);
    } else {
        int status = 0;
        ::waitpid(child, &status, 0);
        REQUIRE(WEXITSTATUS(status) == 0);
    }
    CHECK_FALSE(client.find("dead", soon()).has_value());
    CHECK(client.abort_uploads("other/", soon()) == 0);
    CHECK(client.abort_uploads("", soon()) == 1);
    CHECK(client.abort_uploads("", soon()) == 0);
}

TEST_CASE("what a killed process has sent of an object is not sent again") {
    const std::string text = random_text((23 << 20) + 5);  // five parts
    S3Client client = client_of("resumed");
    const auto die_after = [&](std::uint64_t parts, const std::string& what) {
        if (const pid_t child = ::fork(); child == 0) {
            try {
                std::uint64_t sent = 0;
                UploadOptions options{.part_bytes = 5 << 20, .parallel = 1, .resume = true};
                options.pass = [&](std::uint64_t) {
                    if (sent++ == parts)
                        ::_exit(0);
                };
                client_of("resumed").upload("big", what.size(), reader_of(what), options, soon());
            } catch (...) {
            }
            ::_exit(1);
        } else {
            int status = 0;
            ::waitpid(child, &status, 0);
            REQUIRE(WEXITSTATUS(status) == 0);
        }
    };
    std::atomic<std::uint64_t> sent{0};
    UploadOptions options{.part_bytes = 5 << 20, .parallel = 2, .resume = true};
    options.pass = [&](std::uint64_t bytes) { sent += bytes; };
    const auto go_on = [&](const std::string& what) {
        sent = 0;
        client.upload("big", what.size(), reader_of(what), options, soon());
        CHECK((content_of(client, "big") == what));
        CHECK(client.abort_uploads("", soon()) == 0);
        return sent.load();
    };
    die_after(2, text);
    die_after(1, text);  // the third part: the first two are there
    CHECK(go_on(text) == text.size() - 3 * (5 << 20));
    CHECK(go_on(text) == text.size());  // nothing was left
    // Of another object of the name only what is the same counts.
    std::string other = text;
    other[7 << 20] = static_cast<char>(other[7 << 20] ^ 1);
    die_after(3, text);
    CHECK(go_on(other) == other.size() - 2 * (5 << 20));
    // Cut into other parts, none is.
    die_after(2, text);
    options.part_bytes = 6 << 20;
    CHECK(go_on(text) == text.size());
    // Who is stopped leaves what he has sent, too; what is damaged at its source goes.
    options.part_bytes = 5 << 20;
    options.parallel = 1;
    options.pass = [&](std::uint64_t) {
        if (++sent == 3)
            throw AbortedError("stopped");
    };
    sent = 0;
    CHECK(refusal([&] {
              client.upload("big", text.size(), reader_of(text), options, soon());
          }).code() == ErrorCode::aborted);
    options.pass = [&](std::uint64_t bytes) { sent += bytes; };
    CHECK(go_on(text) == text.size() - 2 * (5 << 20));
    const auto damaged = [&](std::uint64_t offset, std::span<std::byte> bytes) {
        if (offset > 0)
            throw Error(ErrorCode::corrupt, "the source is damaged");
        reader_of(text)(offset, bytes);
    };
    refusal([&] { client.upload("big", text.size(), damaged, options, soon()); });
    CHECK(client.abort_uploads("", soon()) == 0);
}

TEST_CASE("checksums are sent where they are wanted, and a server may know nothing of them") {
    const std::string text = random_text(11 << 20);
    client_of("sums");
    for (const bool wanted : {true, false}) {
        Location location = location_at(server().port(), "weights", "sums");
        location.checksums = wanted;
        S3Client client(location, test_credentials());
        client.put("small", span_of("0123456789"), false, soon());
        client.upload("big", text.size(), reader_of(text), {.part_bytes = 5 << 20}, soon());
        CHECK((content_of(client, "big") == text));
    }
    // Scripted servers: one that only listens, and one that has other bytes and says so.
    std::string sent;
    ScriptedServer honest([&](const ScriptedRequest& request) {
        const auto at = request.head.find("x-amz-checksum-sha256: ");
        sent = at == std::string::npos ? "" : request.head.substr(at + 23, 44);
        return ScriptedAnswer{};
    });
    const auto put = [&](const std::string& url, bool wanted) {
        Location location = locate("s3://weights/sums", {{"AWS_ENDPOINT_URL", url}});
        location.checksums = wanted;
        S3Client(location, test_credentials()).put("k", span_of("x"), false, soon());
    };
    put(honest.url(), true);
    CHECK(sent.size() == 44);
    CHECK(sent.back() == '=');
    put(honest.url(), false);
    CHECK(sent.empty());
    ScriptedServer other([](const ScriptedRequest&) {
        return ScriptedAnswer{.headers = "x-amz-checksum-sha256: AAAA\r\n"};
    });
    CHECK(has(refusal([&] { put(other.url(), true); }).what(), "other bytes than were sent"));
}

TEST_CASE("a proxy is used as AWS's own tools use one") {
    client_of("proxied").put("k", span_of("value"), false, soon());
    if (!std::filesystem::exists(server().ca_file())) {
        MESSAGE("skipped: openssl is not installed");
        return;
    }
    const auto over_tls = [&] {
        return content_of(*std::make_unique<S3Client>(
                              locate("s3://weights/proxied",
                                     {{"AWS_ENDPOINT_URL",
                                       "https://localhost:" + std::to_string(server().tls_port())},
                                      {"AWS_CA_BUNDLE", server().ca_file()}}),
                              test_credentials()),
                          "k");
    };
    TunnelProxy proxy;
    ::setenv("HTTPS_PROXY", proxy.url().c_str(), 1);
    CHECK(over_tls() == "value");
    REQUIRE(!proxy.asked().empty());
    CHECK(proxy.asked().front() == "CONNECT localhost:" + std::to_string(server().tls_port()));
    const std::size_t before = proxy.asked().size();
    ::setenv("NO_PROXY", "example.org,localhost", 1);
    CHECK(over_tls() == "value");
    CHECK(proxy.asked().size() == before);
    ::unsetenv("NO_PROXY");
    {
        TunnelProxy refusing(true);
        ::setenv("HTTPS_PROXY", refusing.url().c_str(), 1);
        const Error error = refusal([&] {
            S3Client(locate("s3://weights/proxied",
                            {{"AWS_ENDPOINT_URL",
                              "https://localhost:" + std::to_string(server().tls_port())}}),
                     test_credentials())
                .find("k", Deadline::after(1s));
        });
        CHECK_MESSAGE(has(error.what(), "the proxy answers 407"), error.what());
    }
    ::unsetenv("HTTPS_PROXY");
    // What is not encrypted does not leave this machine.
    TunnelProxy plain;
    ::setenv("http_proxy", plain.url().c_str(), 1);
    ::setenv("ALL_PROXY", plain.url().c_str(), 1);
    S3Client client = client_of("proxied");
    CHECK(content_of(client, "k") == "value");
    CHECK(plain.asked().empty());
    ::unsetenv("http_proxy");
    ::unsetenv("ALL_PROXY");
}

TEST_CASE("a network that fails is asked again, until the deadline") {
    client_of("retry").put("k", span_of("value"), false, soon());
    {
        BadNetwork network(server().port(), {Fate::close, Fate::unavailable, Fate::cut_answer});
        S3Client client = client_of("retry", network.port());
        CHECK(content_of(client, "k") == "value");
        CHECK(network.connections() == 4);
    }
    {
        // The server had it, and only its answer was lost: the second attempt meets the first's
        // object.
        BadNetwork network(server().port(), {Fate::cut_answer});
        S3Client client = client_of("retry", network.port());
        CHECK(client.put("lost", span_of("mine"), true, soon()) == S3Client::Put::exists);
        CHECK(content_of(client, "lost") == "mine");
    }
    {
        BadNetwork network(server().port(), std::vector(1000, Fate::close));
        S3Client client = client_of("retry", network.port());
        const auto start = std::chrono::steady_clock::now();
        const Error error = refusal([&] { client.find("k", Deadline::after(1500ms)); });
        CHECK(error.code() == ErrorCode::timeout);
        CHECK_MESSAGE(has(error.what(), "attempts)"), error.what());
        CHECK(has(error.hint(), "does the server run?"));
        CHECK(network.connections() >= 3);
        CHECK(std::chrono::steady_clock::now() - start < 3s);
    }
    {
        BadNetwork network(server().port(), {Fate::silence});
        S3Client client = client_of("retry", network.port());
        const auto start = std::chrono::steady_clock::now();
        CHECK(refusal([&] { client.find("k", Deadline::after(700ms)); }).code() ==
              ErrorCode::timeout);
        CHECK(std::chrono::steady_clock::now() - start < 2s);
    }
}

TEST_CASE("parts are sent again too, and an upload that cannot end in time is taken back") {
    const std::string text = random_text(11 << 20);
    client_of("parts");
    {
        BadNetwork network(server().port(),
                           {Fate::forward, Fate::close, Fate::unavailable, Fate::cut_answer});
        S3Client client = client_of("parts", network.port());
        client.upload("big", text.size(), reader_of(text), {.part_bytes = 5 << 20, .parallel = 2},
                      soon());
        CHECK((content_of(client, "big") == text));
    }
    S3Client client = client_of("parts");
    BadNetwork network(server().port(), {Fate::forward, Fate::silence, Fate::silence});
    S3Client late = client_of("parts", network.port());
    const Error error = refusal([&] {
        late.upload("late", text.size(), reader_of(text), {.part_bytes = 5 << 20, .parallel = 2},
                    Deadline::after(1s));
    });
    CHECK(error.code() == ErrorCode::timeout);
    CHECK_FALSE(client.find("late", soon()).has_value());
    CHECK(client.abort_uploads("", soon()) == 0);
}

TEST_CASE("refusals say what and why, with advice and without secrets") {
    const auto answer = [&](Location location, Credentials credentials) {
        return refusal([&] { S3Client(location, credentials).list("", true, soon()); });
    };
    client_of("refused");
    const Location location = location_at(server().port(), "weights");
    Credentials wrong = test_credentials();
    wrong.secret.back() = 'x';
    Error error = answer(location, wrong);
    CHECK_MESSAGE(has(error.what(), "GET s3://weights/ at localhost"), error.what());
    CHECK(has(error.what(), "403 SignatureDoesNotMatch"));
    CHECK(has(error.hint(), "the secret is wrong"));
    wrong.key_id = "AKIAWRONG";
    error = answer(location, wrong);
    CHECK(has(error.what(), "403 InvalidAccessKeyId"));
    CHECK_FALSE(has(error.what(), "AKIAWRONG"));
    error = answer(location_at(server().port(), "no-such-bucket"), test_credentials());
    CHECK(has(error.what(), "404 NoSuchBucket"));
    CHECK(has(error.hint(), "make the bucket"));

    // A server that says back what it got.
    BadNetwork network(server().port(), {Fate::repeat_secrets});
    error = answer(location_at(network.port(), "weights"), test_credentials());
    CHECK(has(error.what(), "403 AccessDenied: … "));
    CHECK_FALSE(has(error.what(), "test/secret"));
    CHECK_FALSE(has(error.what(), "AKIATEST"));
}

TEST_CASE("over TLS the server's certificate is checked, at once and clearly") {
    client_of("tls");
    if (!std::filesystem::exists(server().ca_file())) {
        MESSAGE("skipped: openssl is not installed");
        return;
    }
    const auto over_tls = [&](const std::string& host, const std::string& ca_file) {
        Location location = locate(
            "s3://weights/tls",
            {{"AWS_ENDPOINT_URL", "https://" + host + ':' + std::to_string(server().tls_port())},
             {"AWS_CA_BUNDLE", ca_file}});
        return S3Client(location, test_credentials());
    };
    S3Client client = over_tls("localhost", server().ca_file());
    const std::string text = random_text(11 << 20);
    client.upload("big", text.size(), reader_of(text), {.part_bytes = 5 << 20, .parallel = 2},
                  soon());
    CHECK((content_of(client, "big") == text));
    const auto start = std::chrono::steady_clock::now();
    Error error = refusal([&] { over_tls("localhost", "").find("big", soon()); });
    CHECK_MESSAGE(has(error.what(), "certificate is not trusted by the system's certificates"),
                  error.what());
    CHECK(has(error.hint(), "AWS_CA_BUNDLE"));
    error = refusal([&] {
        over_tls("127.0.0.1", server().ca_file()).find("big", soon());
    });  // not the name in it
    CHECK_MESSAGE(has(error.what(), "certificate is not trusted"), error.what());
    error = refusal([&] { over_tls("localhost", "/nonexistent/ca.pem").find("big", soon()); });
    CHECK_MESSAGE(has(error.what(), "/nonexistent/ca.pem cannot be read"), error.what());
    CHECK(std::chrono::steady_clock::now() - start < 5s);
}

TEST_CASE("a bucket of another region is named with its region, and not asked for again") {
    client_of("region");
    BadNetwork network(server().port(), {Fate::other_region});
    S3Client client = client_of("region", network.port());
    const Error error = refusal([&] { client.find("k", soon()); });
    const Error listing = refusal([&] {
        BadNetwork other(server().port(), {Fate::other_region});
        client_of("region", other.port()).list("", true, soon());
    });
    CHECK_MESSAGE(has(listing.what(), "301 PermanentRedirect"), listing.what());
    CHECK_MESSAGE(has(error.hint(), "the bucket is in eu-central-1: set AWS_REGION=eu-central-1"),
                  error.hint());
    CHECK(network.connections() == 1);
}

TEST_CASE("a bucket is read as storage, and never written as one") {
    S3Client client = client_of("store");
    client.put("step-00000001/data", span_of("0123456789"), false, soon());
    client.put("step-00000001/manifest.json", span_of("{}"), false, soon());
    client.put("top", span_of("x"), false, soon());
    const auto storage =
        make_s3_storage(location_at(server().port(), "weights", "store"), test_credentials());
    const std::filesystem::path place = "s3://weights/store";
    CHECK(storage->list(place) == std::vector<std::string>{"step-00000001", "top"});
    CHECK(storage->list(place / "step-00000001") ==
          std::vector<std::string>{"data", "manifest.json"});
    CHECK(storage->list(place / "none").empty());
    CHECK(read_whole(*storage, place / "step-00000001/data", 100) == "0123456789");
    const auto file = storage->open(place / "step-00000001/data");
    std::string part(100, '\0');
    CHECK(file->read_at(7, std::as_writable_bytes(std::span(part))) == 3);
    CHECK(part.substr(0, 3) == "789");
    CHECK(refusal([&] { storage->open(place / "none"); }).code() == ErrorCode::system);
    CHECK(refusal([&] { storage->open("s3://other/x"); }).code() == ErrorCode::invalid_argument);
    CHECK(refusal([&] { storage->create(place / "x"); }).code() == ErrorCode::unsupported);
    CHECK(refusal([&] { storage->remove_all(place / "top"); }).code() == ErrorCode::unsupported);
    CHECK(client.find("top", soon()) == 1);
}

}  // namespace s3_test
