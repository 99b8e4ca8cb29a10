// What makes programs write whole lines to their logs, and when nothing does.

#include "stdio/line_buffering.hpp"
#include "stdio/program_kind.hpp"

#include "../write_file.hpp"
#include "base/hash.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <string>

namespace line_buffering_test {

using namespace autolaunch::launcher;

namespace {

constexpr const char* kLibrary = "/opt/autolaunch/libexec/autolaunch/autolaunch-lines.so";

std::map<std::string, std::string> values_of(const OutputChoice& choice,
                                             const EnvironmentMap& found) {
    std::map<std::string, std::string> values;
    for (const VariableChoice& variable : output_environment(choice, found)) {
        values[variable.name] = variable.value;
        CHECK_FALSE(variable.reason.empty());
    }
    return values;
}

struct Folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("autolaunch-kinds-" + autolaunch::random_hex(8));
    Folder() { std::filesystem::create_directory(path); }
    ~Folder() { std::filesystem::remove_all(path); }
    void add(const std::string& name, const std::string& content) const {
        autolaunch::write_file(path / name, content, 0755);
    }
};

}  // namespace

TEST_CASE("the library is preloaded where it helps and can be, and a reason is always there") {
    const OutputFacts fine{.library = kLibrary};
    CHECK(choose_output(fine).preload == kLibrary);
    CHECK(choose_output(fine).by_lines);
    OutputFacts facts = fine;
    facts.line_buffered = false;
    CHECK_FALSE(choose_output(facts).by_lines);
    CHECK(choose_output(facts).preload.empty());
    facts = fine;
    facts.terminal = true;
    CHECK_FALSE(choose_output(facts).by_lines);
    facts = fine;
    facts.none_preloaded = true;
    CHECK(choose_output(facts).preload.empty());
    CHECK(choose_output(facts).by_lines);  // Fortran and Python need no library
    facts = fine;
    facts.against = "the program is static";
    CHECK(choose_output(facts).preload.empty());
    CHECK(choose_output(facts).reason == "the program is static");
    facts = fine;
    facts.library.clear();
    CHECK(choose_output(facts).reason.find("autolaunch-lines.so") != std::string::npos);
    for (const char* path : {"/home/a b/autolaunch-lines.so", "/a:b/autolaunch-lines.so",
                             "/$LIB/autolaunch-lines.so"}) {
        facts.library = path;
        CHECK(choose_output(facts).preload.empty());
        CHECK(choose_output(facts).reason.find(path) != std::string::npos);
    }
}

TEST_CASE("the user's variables come first and win") {
    const OutputChoice choice{true, kLibrary, ""};
    using Values = std::map<std::string, std::string>;
    CHECK(values_of(choice, {}) == Values{{"LD_PRELOAD", kLibrary},
                                          {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                          {"GFORTRAN_UNBUFFERED_PRECONNECTED", "y"},
                                          {"PYTHONUNBUFFERED", "1"}});
    CHECK(values_of(choice, {{"LD_PRELOAD", "libtcmalloc.so /b.so"},
                             {"ASAN_OPTIONS", "detect_leaks=0"},
                             {"GFORTRAN_UNBUFFERED_PRECONNECTED", "n"},
                             {"PYTHONUNBUFFERED", ""}}) ==
          Values{{"LD_PRELOAD", std::string("libtcmalloc.so /b.so:") + kLibrary},
                 {"ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"},
                 {"GFORTRAN_UNBUFFERED_PRECONNECTED", "n"},
                 {"PYTHONUNBUFFERED", ""}});
    const Values within = values_of(choice, {{"LD_PRELOAD", std::string("a.so:") + kLibrary},
                                             {"ASAN_OPTIONS", "verify_asan_link_order=1"}});
    CHECK(within.at("LD_PRELOAD") == std::string("a.so:") + kLibrary);  // of an outer launch
    CHECK_FALSE(within.contains("ASAN_OPTIONS"));
    CHECK(values_of({true, "", "static"}, {}) ==
          Values{{"GFORTRAN_UNBUFFERED_PRECONNECTED", "y"}, {"PYTHONUNBUFFERED", "1"}});
    CHECK(values_of({false, "", "a terminal"}, {}).empty());
}

TEST_CASE("programs are told apart by their files") {
    const Folder folder;
    const std::string workdir = folder.path;
    const std::vector<std::string> environment = {"PATH=" + workdir + ":/usr/bin:/bin"};
    const auto kind = [&](const std::string& name) {
        return kind_of_program(name, environment, workdir);
    };
    CHECK(kind("sh") == ProgramKind::preloadable);
    CHECK(kind("/bin/sh") == ProgramKind::preloadable);
    CHECK(kind("no-such-program") == ProgramKind::missing);
    CHECK(kind("/opt/bin/apptainer") == ProgramKind::contained);
    folder.add("script", "#!/bin/sh\n");
    folder.add("by-env", "#! /usr/bin/env sh\n");
    folder.add("of-script", "#!./script\n");
    folder.add("of-nothing", "#!/no/such/interpreter\n");
    folder.add("loop", "#!./loop\n");
    folder.add("text", "no program\n");
    for (const char* name : {"script", "./by-env", "of-script"})
        CHECK(kind(name) == ProgramKind::preloadable);
    CHECK(kind("of-nothing") == ProgramKind::foreign);
    CHECK(kind("loop") == ProgramKind::missing);
    CHECK(kind("text") == ProgramKind::foreign);

    // The shell, with something else in its place.
    const std::string shell = autolaunch::read_file(std::filesystem::canonical("/bin/sh"));
    const auto changed = [&](const std::string& from, const std::string& to) {
        std::string bytes = shell;
        const std::size_t at = bytes.find(from);
        REQUIRE(at != std::string::npos);
        return bytes.replace(at, to.size(), to);
    };
    const std::string loader = shell.substr(shell.find("/ld-linux") + 1, 8);
    folder.add("musl", changed(loader, "ld-musl-"));
    CHECK(kind("musl") == ProgramKind::other_libc);
    std::string other = shell;
    other[4] = 1;  // 32 bits
    folder.add("small", other);
    CHECK(kind("small") == ProgramKind::foreign);
    other = shell;
    other[18] = 2;  // SPARC
    folder.add("sparc", other);
    CHECK(kind("sparc") == ProgramKind::foreign);
    folder.add("sanitized",
               changed(std::string("\0getpid\0", 8), std::string("\0__asan_init\0", 13)));
    CHECK(kind("sanitized") == ProgramKind::sanitized);
    folder.add("mine", shell);
    REQUIRE(::chmod((folder.path / "mine").c_str(), 04755) == 0);
    CHECK(kind("mine") == ProgramKind::privileged);
}

}  // namespace line_buffering_test
