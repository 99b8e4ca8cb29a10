#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/shared_library.hpp"
#include "base/stream_bytes.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

using namespace autolaunch;

namespace {
#define TIME_FUNCTIONS(X) X(gmtime_r) X(timegm)
AUTOLAUNCH_FUNCTION_TABLE(TimeLibrary, TIME_FUNCTIONS)
}  // namespace

TEST_CASE("nearest finds the word that was meant and nothing far-fetched") {
    const std::vector<std::string> keys = {"max_restarts", "grace_period", "policy"};
    CHECK(nearest("max_restart", keys) == "max_restarts");
    CHECK(nearest("grace_preiod", keys) == "grace_period");
    CHECK(nearest("gpus", keys).empty());
}

TEST_CASE("format_list writes the kernel's list format") {
    CHECK(format_list(std::vector<int>{0, 1, 2, 3, 8}) == "0-3,8");
    CHECK(format_list(std::vector<int>{5}) == "5");
    CHECK(format_list(std::vector<int>{}).empty());
}

TEST_CASE("parse_integer takes whole numbers only") {
    long long value = 0;
    CHECK((parse_integer("-12", value) && value == -12));
    CHECK_FALSE(parse_integer("12x", value));
    CHECK_FALSE(parse_integer("", value));
    CHECK_FALSE(parse_integer("99999999999999999999", value));
}

TEST_CASE("split and join are inverse") {
    CHECK(split("a,,b", ',') == std::vector<std::string>{"a", "", "b"});
    CHECK(join(split("a,,b", ','), ",") == "a,,b");
    CHECK(trim(" \tx y\n") == "x y");
}

TEST_CASE("write_file_durably replaces a file whole and leaves no temporary") {
    const auto dir = std::filesystem::temp_directory_path() / ("autolaunch-base-" + random_hex(8));
    std::filesystem::create_directory(dir);
    write_file_durably(dir / "f", "one");
    write_file_durably(dir / "f", "two", 0600);
    CHECK(read_file(dir / "f") == "two");
    CHECK(std::distance(std::filesystem::directory_iterator(dir), {}) == 1);
    std::filesystem::remove_all(dir);
}

TEST_CASE("open_file names the path and the reason, and sets close-on-exec") {
    try {
        open_file("/nonexistent/x", O_WRONLY);
        FAIL("no exception");
    } catch (const SystemError& error) {
        CHECK(error.error_number() == ENOENT);
        CHECK(std::string(error.what()) ==
              "cannot open /nonexistent/x for writing: No such file or directory");
    }
    const UniqueFd fd = open_file("/dev/null", O_RDONLY);
    CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE(
    "hash128 is XXH3-128 with its published value for the empty input, and reads back from its "
    "digits") {
    CHECK(hex128(hash128("", 0)) == "99aa06d3014798d86001c324468d497f");
    CHECK(parse_hex128("99aa06d3014798d86001c324468d497f") == hash128("", 0));
    CHECK_FALSE(parse_hex128("99aa06d3014798d86001c324468d497"));
    CHECK_FALSE(parse_hex128("99aa06d3014798d86001c324468d497g"));
    CHECK_FALSE(parse_hex128("99AA06d3014798d86001c324468d497f"));
    const Digest128 parts[] = {{0x0102030405060708, 0x090a0b0c0d0e0f10},
                               {0x1112131415161718, 0x191a1b1c1d1e1f20}};
    std::string bytes;
    for (char byte = 1; byte <= 32; ++byte)
        bytes += byte;
    CHECK(hash128_of(parts) == hash128(bytes.data(), bytes.size()));
    CHECK(hash128_of({}) == hash128("", 0));
}

TEST_CASE("hash64 is XXH3 with its published value for the empty input") {
    CHECK(hex64(hash64("", 0)) == "2d06800538d394c2");
    CHECK(random_hex(16).size() == 32);
    CHECK(random_hex(16) != random_hex(16));
}

TEST_CASE("a library is loaded when it is needed, and an error says by whom") {
    const SharedLibrary::Need need = {.what = "telling the time needs libc", .hint = "install it"};
    const TimeLibrary library(SharedLibrary("libc.so.6", need));
    const time_t day = 86'400;
    tm parts = {};
    library.gmtime_r(&day, &parts);
    CHECK(parts.tm_mday == 2);
    CHECK(library.timegm(&parts) == day);
    try {
        SharedLibrary("libnone.so.1", need);
        FAIL("no library of this name");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::unsupported);
        CHECK(std::string(error.what())
                  .starts_with("telling the time needs libc: cannot load libnone.so.1: libnone"));
        CHECK(error.hint() == "install it");
    }
    void (*missing)() = nullptr;
    CHECK_THROWS_WITH_AS(SharedLibrary("libc.so.6", need).find(missing, "no_such_function"),
                         "telling the time needs libc: libc.so.6 has no function no_such_function",
                         Error);
    CHECK_THROWS_WITH_AS(SharedLibrary("libc.so.6").find(missing, "no_such_function"),
                         "libc.so.6 has no function no_such_function", Error);
}

TEST_CASE("bytes that are streamed arrive, from any place to any place") {
    std::vector<std::byte> from(1000), to(1100);
    for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = static_cast<std::byte>(i * 7);
    for (const std::size_t shift : {0u, 1u, 17u, 64u}) {
        for (const std::size_t bytes : {0u, 1u, 63u, 64u, 200u, 900u}) {
            std::fill(to.begin(), to.end(), std::byte{0xee});
            stream_bytes(to.data() + shift, from.data() + shift / 2, bytes);
            CHECK(std::memcmp(to.data() + shift, from.data() + shift / 2, bytes) == 0);
            CHECK(to[shift + bytes] == std::byte{0xee});
        }
    }
}
