#include "../write_file.hpp"
#include "base/crc.hpp"
#include "base/file_io.hpp"
#include "base/file_limit.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/json_nesting.hpp"
#include "base/locked_folder.hpp"
#include "base/read_at_most.hpp"
#include "base/shared_library.hpp"
#include "base/stream_bytes.hpp"
#include "base/text.hpp"
#include "base/utc_time.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace base_test {

using namespace autolaunch;
namespace fs = std::filesystem;

namespace {
#define TIME_FUNCTIONS(X) X(gmtime_r) X(timegm)
AUTOLAUNCH_FUNCTION_TABLE(TimeLibrary, TIME_FUNCTIONS)
}  // namespace

TEST_CASE("nearest finds the word that was meant and nothing far-fetched") {
    const std::vector<std::string> keys = {"max_restarts", "grace_period", "policy"};
    CHECK(nearest("max_restart", keys) == "max_restarts");
    CHECK(nearest("grace_preiod", keys) == "grace_period");
    CHECK(nearest("gpus", keys).empty());
    CHECK(nearest("max_rsetarts", keys) == "max_restarts");
    CHECK(nearest(std::string(4 << 20, 'm'), keys).empty());  // without a table of that size
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

namespace {

/// The errno and the text of the SystemError that a call throws.
template <typename Call>
std::pair<int, std::string> failure_of(const Call& call) {
    try {
        call();
    } catch (const SystemError& error) {
        return {error.error_number(), error.what()};
    }
    return {0, "nothing was thrown"};
}

/// A folder, empty, and gone at the end.
struct Folder {
    fs::path path = fs::temp_directory_path() / ("autolaunch-base-" + random_hex(8));
    Folder() { fs::create_directory(path); }
    ~Folder() { fs::remove_all(path); }
    fs::path file(const std::string& name, const std::string& text = "x") const {
        write_file(path / name, text);
        return path / name;
    }
};

const fs::path kTooLong = "/tmp/" + std::string(300, 'a');

}  // namespace

TEST_CASE("what is there, what is absent, and what nobody can tell") {
    const Folder folder;
    const fs::path file = folder.file("file", "seven b");
    fs::create_symlink("nowhere", folder.path / "dangling");
    fs::create_symlink("loop", folder.path / "loop");
    CHECK(path_exists(file));
    CHECK(is_file(file));
    CHECK_FALSE(is_folder(file));
    CHECK(is_folder(folder.path));
    CHECK_FALSE(is_file(folder.path));
    CHECK(file_bytes(file) == 7);
    for (const fs::path& absent :
         {folder.path / "none", file / "below a file", folder.path / "dangling"}) {
        CHECK_FALSE(path_exists(absent));
        CHECK_FALSE(is_file(absent));
        CHECK_FALSE(is_folder(absent));
    }
    CHECK(failure_of([&] { file_bytes(folder.path / "none"); }).first == ENOENT);
    const std::vector<std::pair<fs::path, int>> unknown = {{kTooLong, ENAMETOOLONG},
                                                           {folder.path / "loop", ELOOP}};
    for (const auto& [path, error_number] : unknown)
        for (bool (*question)(const fs::path&) : {&path_exists, &is_file, &is_folder}) {
            const auto [number, text] = failure_of([&] { question(path); });
            CHECK(number == error_number);
            CHECK(text.starts_with("cannot look at " + path.string()));
        }
}

TEST_CASE("a folder that may not be searched is not an empty one") {
    if (::geteuid() == 0) {  // who may search all folders: ask as somebody who may not
        REQUIRE(::seteuid(65534) == 0);
    }
    const Folder folder;
    const fs::path file = folder.file("file");
    ::chmod(folder.path.c_str(), 0);
    CHECK(failure_of([&] { path_exists(file); }).first == EACCES);
    CHECK(failure_of([&] { list_folder(folder.path); }).first == EACCES);
    std::error_code error;
    CHECK(list_folder(folder.path, error).empty());
    CHECK(error.value() == EACCES);
    ::chmod(folder.path.c_str(), 0700);
    CHECK(list_folder(folder.path, error) == std::vector<fs::path>{file});
    CHECK_FALSE(error);
    if (::getuid() == 0)
        REQUIRE(::seteuid(0) == 0);
}

// It was made anew for ever.
TEST_CASE("a locked folder that its maker may not open is an error, and is not left") {
    if (::geteuid() == 0) {
        REQUIRE(::seteuid(65534) == 0);
    }
    const Folder folder;
    const mode_t before = ::umask(0777);
    CHECK(failure_of([&] { LockedFolder::make_unique((folder.path / "of-").string()); }).first ==
          EACCES);
    CHECK(failure_of([&] { LockedFolder(folder.path / "one"); }).first == EACCES);
    ::umask(before);
    CHECK(list_folder(folder.path).empty());
    if (::getuid() == 0)
        REQUIRE(::seteuid(0) == 0);
}

TEST_CASE("folders are made, listed in order, and things in them renamed and removed") {
    const Folder folder;
    const fs::path deep = folder.path / "a/b/c";
    make_folders(deep);
    make_folders(deep);
    CHECK(is_folder(deep));
    folder.file("z");
    const fs::path file = folder.file("f");
    CHECK(list_folder(folder.path) ==
          std::vector<fs::path>{folder.path / "a", file, folder.path / "z"});
    rename_path(file, folder.path / "z");
    CHECK_FALSE(path_exists(file));
    remove_path(folder.path / "z");
    remove_path(folder.path / "z");  // it need not be there
    CHECK_FALSE(path_exists(folder.path / "z"));

    CHECK(failure_of([&] { make_folders(folder.file("in-the-way") / "x"); }).first == ENOTDIR);
    CHECK(failure_of([&] { make_folders(kTooLong); }).second ==
          "cannot create the folder " + kTooLong.string() + ": File name too long");
    CHECK(failure_of([&] { rename_path(file, folder.path / "y"); }).second ==
          "cannot rename " + file.string() + " to " + (folder.path / "y").string() +
              ": No such file or directory");
    CHECK(failure_of([&] { remove_path(folder.path / "a"); }).first == ENOTEMPTY);
    CHECK(failure_of([&] { list_folder(folder.path / "none"); }).second ==
          "cannot list " + (folder.path / "none").string() + ": No such file or directory");
    CHECK(failure_of([&] { list_folder(folder.path / "in-the-way"); }).first == ENOTDIR);
}

TEST_CASE("a working directory that was removed") {
    CHECK(absolute_path("/a/../b") == "/a/../b");
    CHECK(absolute_path("x") == current_folder() / "x");
    const fs::path before = current_folder();
    {
        const Folder folder;
        REQUIRE(::chdir(folder.path.c_str()) == 0);
    }
    const auto [number, text] = failure_of([] { current_folder(); });
    CHECK(number == ENOENT);
    CHECK(text == "cannot tell the working directory: No such file or directory");
    CHECK(failure_of([] { absolute_path("x"); }).first == ENOENT);
    CHECK(absolute_path("/x") == "/x");
    REQUIRE(::chdir(before.c_str()) == 0);
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

TEST_CASE("a quarter of the files that may be open is for those who connect") {
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const auto spare_of = [&](rlim_t files) {
        const rlimit limit{files, before.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
        return spare_files();
    };
    CHECK(spare_of(200) == 50);
    CHECK(spare_of(40) == 16);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("files that users name are read up to a limit, and pipes up to a deadline") {
    const fs::path folder = fs::temp_directory_path() / ("al_pipe_" + std::to_string(::getpid()));
    fs::create_directory(folder);
    const fs::path pipe = folder / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const ReadPatience impatient = {std::chrono::milliseconds(10), std::chrono::milliseconds(10)};
    const auto hint_of = [&](const fs::path& path) {
        try {
            read_at_most(path, 10, impatient);
        } catch (const SystemError& error) {
            CHECK(error.error_number() == ENODATA);
            return error.hint();
        }
        return std::string("it was read");
    };
    CHECK(hint_of(pipe).starts_with("it is a pipe, and nobody opened it"));
    UniqueFd writer(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
    CHECK(hint_of(pipe).starts_with("it is no regular file, and nothing came"));
    write_all(writer.get(), "0123456789abcdef", "pipe");
    CHECK(read_at_most(pipe, 10) == "0123456789a");
    writer.reset();
    const auto refused = [&](const fs::path& path) -> std::string {
        try {
            return read_regular_file(path, 10);
        } catch (const Error& error) {
            return error.what();
        }
    };
    CHECK(refused(pipe) == pipe.string() + " is no regular file");
    CHECK(refused("/dev/zero") == "/dev/zero is no regular file");
    CHECK(refused(folder) == folder.string() + " is no regular file");
    write_file(folder / "ten", "0123456789");
    CHECK(refused(folder / "ten") == "0123456789");
    write_file(folder / "eleven", "0123456789a");
    CHECK(refused(folder / "eleven").ends_with("/eleven has more than 0 MiB"));
    fs::remove_all(folder);

    CHECK(read_at_most("/dev/zero", 5) == std::string(6, '\0'));
    CHECK(read_at_most("/dev/null", 5).empty());
    // As the shell's <(…) and a pipeline's /dev/stdin: its end is an end, also when it is empty.
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd reading(ends[0]);
    UniqueFd writing(ends[1]);
    const std::string name = "/dev/fd/" + std::to_string(reading.get());
    write_all(writing.get(), "text", "pipe");
    writing.reset();
    CHECK(read_at_most(name, 10, impatient) == "text");
    CHECK(read_at_most(name, 10, impatient).empty());
}

TEST_CASE("nests_at_most counts brackets that are not in strings") {
    CHECK(nests_at_most("[[1], {}]", 2));
    CHECK_FALSE(nests_at_most("[[[1]]]", 2));
    CHECK(nests_at_most(R"({"a": "[[[\"[["})", 1));
    CHECK(nests_at_most("[[]][[]]", 2));
    CHECK_FALSE(nests_at_most(std::string(1'000'000, '['), 64));
}

TEST_CASE("hash64 is XXH3 with its published value for the empty input") {
    CHECK(hex64(hash64("", 0)) == "2d06800538d394c2");
    CHECK(random_hex(16).size() == 32);
    CHECK(random_hex(16) != random_hex(16));
}

TEST_CASE("CRCs have their published values, of bytes and of parts of them") {
    const auto of = [](Crc kind, std::string_view text) {
        return crc_of(kind, std::as_bytes(std::span(text)));
    };
    CHECK(of(Crc::crc32, "123456789") == 0xcbf43926);
    CHECK(of(Crc::crc32c, "123456789") == 0xe3069283);
    CHECK(of(Crc::crc64_nvme, "123456789") == 0xae8b14860a799888);
    // RFC 3720, B.4, and NVM Express' NVM command set, of 4096 zeros.
    CHECK(of(Crc::crc32c, std::string(32, '\xff')) == 0x62a8ab43);
    CHECK(of(Crc::crc64_nvme, std::string(4096, '\0')) == 0x6482d367eb22b64e);
    std::string text(5000, '\0');
    for (std::size_t i = 0; i < text.size(); ++i)
        text[i] = static_cast<char>(i * 2654435761U >> 13);
    for (const Crc kind : {Crc::crc32, Crc::crc32c, Crc::crc64_nvme}) {
        CHECK(of(kind, "") == 0);
        CHECK(crc_of_parts(kind, {}, 7, 0) == 0);
        // The shortest go another way than those of 64 bytes and more.
        for (const std::size_t bytes : {1U, 63U, 64U, 65U, 127U, 128U, 200U, 4999U})
            for (const std::size_t part_bytes : {1U, 9U, 63U, 64U, 100U, 6000U}) {
                CAPTURE(bytes);
                CAPTURE(part_bytes);
                const auto whole = std::string_view(text).substr(1, bytes);
                std::vector<std::uint64_t> parts;
                for (std::size_t at = 0; at < bytes; at += part_bytes)
                    parts.push_back(of(kind, whole.substr(at, part_bytes)));
                CHECK(crc_of_parts(kind, parts, part_bytes, (bytes - 1) % part_bytes + 1) ==
                      of(kind, whole));
            }
    }
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

TEST_CASE("a moment in UTC is a date of the calendar, with all digits or none of a fraction") {
    using namespace std::chrono;
    const auto read = [](std::string_view text) {
        const auto time = parse_utc(text);
        return time ? on_clock(*time) : std::nullopt;
    };
    CHECK(read("1970-01-02T00:00:01Z") == system_clock::time_point(24h + 1s));
    CHECK(read("2000-02-29T23:59:59.123Z") ==
          sys_days(year(2000) / 2 / 29) + 24h - 1s + milliseconds(123));
    CHECK(read("2261-12-31T23:59:59.999999999Z"));
    // Of the calendar, but not of the clock, which would overflow.
    for (const char* beyond :
         {"9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "2262-01-01T00:00:00Z"}) {
        CHECK_MESSAGE(parse_utc(beyond), beyond);
        CHECK_MESSAGE(!read(beyond), beyond);
    }
    for (const char* wrong :
         {"", "Z", "2001-02-29T00:00:00Z", "2001-02-28T24:00:00Z", "2001-02-28T00:00:00",
          "2001-02-28 00:00:00Z", "2001-02-28T00:00:00.Z", "2001-02-28T00:00:0aZ",
          "2001-13-28T00:00:00Z", "2001-00-28T00:00:00Z", "2001-02-28T00:00:00.1234567890Z",
          "2001-02-28T00:00:00+01:00Z", "99999-01-01T00:00:00Z", "2001-02-28T-2:00:00Z"})
        CHECK_MESSAGE(!parse_utc(wrong), wrong);
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

}  // namespace base_test
