#include "base/hash.hpp"
#include "manifest_sample.hpp"

#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace manifest_test {

using namespace autolaunch;
using autolaunch::testing::example;

namespace {

std::string error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        CHECK((error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported));
        return error.what();
    }
    return "none";
}

// The manifest with `from` replaced by `to` and a right digest, as a wrong writer would make it.
std::string forged(const std::string& from, const std::string& to) {
    std::string text = example().to_text();
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const std::size_t digest_at = text.find(":\"") + 2;
    const std::string body = text.substr(digest_at + 32);
    return text.replace(digest_at, 32, hex128(hash128(body.data(), body.size())));
}

std::string parse_error(const std::string& text) {
    return error_of([&] { Manifest::parse(text).require_complete(); });
}

}  // namespace

TEST_CASE("a manifest reads back as it was written") {
    const Manifest manifest = example();
    CHECK(Manifest::parse(manifest.to_text()) == manifest);
    manifest.require_complete();
    CHECK(manifest.find("h.0.s")->type == f64);
    CHECK(manifest.find("h.0.x") == nullptr);
}

TEST_CASE("any change to the text is noticed") {
    const std::string text = example().to_text();
    for (std::size_t length = 0; length < text.size(); ++length)
        REQUIRE(parse_error(text.substr(0, length)) != "none");
    std::mt19937 random(9);
    for (int round = 0; round < 2000; ++round) {
        std::string damaged = text;
        char& byte = damaged[random() % text.size()];
        byte = static_cast<char>(byte ^ (1 << (random() % 8)));
        REQUIRE(parse_error(damaged) != "none");
    }
    CHECK(parse_error(text + " ") == "manifest does not have the digest it was written with");
}

TEST_CASE("a wrong manifest with a right digest is refused with the field that is wrong") {
    CHECK(parse_error(forged("1200", "1200")) == "none");
    CHECK(parse_error(forged("\"step\":1200", "\"step\":-1"))
              .find("manifest.step is not a whole number") == 0);
    CHECK(parse_error(forged("\"step\":1200", "\"step\":1.5"))
              .find("manifest.step is not a whole number") == 0);
    CHECK(parse_error(forged("\"step\"", "\"stop\"")) == "manifest has no \"step\"");
    CHECK(parse_error(forged("\"version\":2", "\"version\":1")) ==
          "manifest is of version 1; this build reads version 2");
    CHECK(parse_error(forged("shard-00002-model", "../../etc/x")) ==
          "manifest.files[1] has a name that is no file name");
    CHECK(parse_error(forged("\"F64\"", "\"F4\"")) == "safetensors: no type here is called F4");
    CHECK(parse_error(forged("[1,4096,10,10]", "[2,4096,10,10]")) ==
          "manifest.tensors[0].pieces[0] names a file that is not listed");
    CHECK(parse_error(forged("[1,4096,10,10]", "[1,4100,10,10]")) ==
          "manifest.tensors[0].pieces[0] is not inside its file");
    CHECK(parse_error(forged("[1,4096,10,10]", "[1,4096,11,10]")) ==
          "manifest.tensors[0].pieces[0] is not inside its tensor");
    CHECK(parse_error(forged("[1,4096,10,10]", "[1,4096,9,10]")) ==
          "the pieces of tensor h.0.w do not cover it exactly once");
    CHECK(parse_error(forged("\"step\":1200", "\"step\":9223372036854775808"))
              .find("manifest.step is not a whole number") == 0);
    CHECK(parse_error(forged("[4,5]", "[4294967296,4294967296]")) ==
          "tensor h.0.w has an impossible shape");
    CHECK(parse_error(forged("[4,5]", "[9223372036854775807,5]")) ==
          "tensor h.0.w has an impossible shape");
    CHECK(parse_error(forged("[4,5]", "[0,5]")) ==
          "manifest.tensors[0].pieces[0] is not inside its tensor");
    CHECK(parse_error(forged("[4,5]", "[-4,5]"))
              .find("manifest.tensors[0].shape[0] is not a whole number") == 0);
    CHECK(parse_error(forged("[1,4096,10,10]", "[1,4094,10,10]")) ==
          "manifest.tensors[0].pieces[0] does not start on a multiple of its element's size");
    CHECK(parse_error(forged("[1,4096,10,10]", "[1,9223372036854775804,10,10]")) ==
          "manifest.tensors[0].pieces[0] is not inside its file");
    CHECK(parse_error(forged("[0,5000,0,1]", "[0,4104,0,1]")) ==
          "pieces of h.0.w and h.0.s overlap in the file "
          "shard-00001-model-00001-of-00001.safetensors");
    CHECK(parse_error(forged("[\"shard\",2]", "[\"shard\",3]")) ==
          "manifest.mesh does not have world_size ranks");
    CHECK(parse_error(forged("\"rank\":1", "\"rank\":2")) ==
          "manifest.files[1] is of a rank that is not there");
    CHECK(parse_error(forged("shard-00002-model", "shard-00001-model")) ==
          "manifest.files[1] has a name that is taken");
    CHECK(parse_error(forged("h.0.s", "h.0.w")) == "manifest.tensors[1] has a name that is taken");
    CHECK(parse_error(forged("\"mesh\"", "\"step\"")) == "manifest has the name step twice");
    CHECK(parse_error(forged("\"blocks\":[\"00000000000000070000000000000000\"",
                             "\"blocks\":[\"00000000000000080000000000000000\"")) ==
          "manifest.files[1] has a digest that is not that of its blocks");
    CHECK(parse_error(forged("\"mesh\":[", "\"mesh\":" + std::string(100'000, '['))) ==
          "manifest is nested too deeply");
}

TEST_CASE("pieces that leave a hole, overlap or repeat are refused") {
    for (const auto& pieces :
         std::vector<std::vector<Manifest::Piece>>{{},
                                                   {{0, 4096, 0, 10}},
                                                   {{0, 4096, 10, 10}},
                                                   {{0, 4096, 0, 20}, {0, 4096, 0, 20}},
                                                   {{0, 4096, 0, 12}, {0, 4096, 10, 10}}}) {
        Manifest manifest = example();
        manifest.tensors[0].pieces = pieces;
        CHECK(error_of([&] { manifest.require_complete(); }) ==
              "the pieces of tensor h.0.w do not cover it exactly once");
    }
}

TEST_CASE("random bytes after a right digest never crash the parser") {
    std::mt19937 random(13);
    const std::string text = example().to_text();
    const std::size_t digest_at = text.find(":\"") + 2;
    for (int round = 0; round < 3000; ++round) {
        std::string damaged = text;
        for (int i = 0; i < 1 + round % 4; ++i)
            damaged[digest_at + 32 + random() % (text.size() - digest_at - 32)] =
                static_cast<char>(random());
        const std::string body = damaged.substr(digest_at + 32);
        damaged.replace(digest_at, 32, hex128(hash128(body.data(), body.size())));
        parse_error(damaged);  // any Error will do; nothing else may escape
    }
}

}  // namespace manifest_test
