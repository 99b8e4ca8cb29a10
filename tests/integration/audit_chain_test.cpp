// A trail on a disk: several processes that write to it, those that are killed, files that are
// full, and what becomes of it in the hands of its owner.
#include "audit/audit_chain.hpp"
#include "audit/verify_trail.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace audit_chain_test {

using namespace autolaunch::launcher;
using autolaunch::read_file;
namespace fs = std::filesystem;

namespace {

const AuditActor kAmy = {"amy", 2001, "node1", 1};

AuditChain chain_in(const fs::path& folder, AuditRetention retention = {}) {
    return AuditChain(folder, "node1", kAmy, retention);
}

std::vector<std::string> lines_of(const fs::path& file) {
    auto lines = autolaunch::split(read_file(file), '\n');
    lines.pop_back();
    return lines;
}

void write_lines(const fs::path& file, const std::vector<std::string>& lines) {
    std::ofstream out(file, std::ios::trunc);
    for (const std::string& line : lines)
        out << line << '\n';
}

bool tells(const std::vector<std::string>& texts, const std::string& what) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](const std::string& text) { return text.find(what) != text.npos; });
}

struct Trail {
    fs::path top = fs::temp_directory_path() / ("autolaunch-audit-" + autolaunch::random_hex(8));
    fs::path folder = top / "trails", file = folder / "node1.jsonl";

    Trail() = default;
    Trail(const Trail&) = delete;
    ~Trail() {
        std::error_code ignored;
        fs::remove_all(top, ignored);
    }

    void write(int lines) {
        AuditChain chain = chain_in(folder);
        for (int i = 0; i < lines; ++i)
            chain.append("end", {{"exit_code", i}}, "4711");
    }
};

}  // namespace

TEST_CASE("each line has the digest of the one before, over processes") {
    Trail trail;
    trail.write(3);
    trail.write(2);
    const auto lines = lines_of(trail.file);
    REQUIRE(lines.size() == 6);  // and the first, which begins it
    std::string before = no_audit_digest();
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const auto line = parse_audit_line(lines[i]);
        REQUIRE(line);
        CHECK(line->seq == i);
        CHECK(line->prev == before);
        CHECK(lines[i].substr(15, 64) == before);
        before = audit_digest(lines[i]);
    }
    const TrailVerdict verdict = verify_files(trail.file);
    CHECK(verdict.whole());
    CHECK(verdict.lines == 6);
    CHECK(verdict.head->digest == before);
    struct stat facts {};
    REQUIRE(::stat(trail.file.c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777) == 0600);
}

TEST_CASE("processes that write at a time") {
    Trail trail;
    constexpr int kWriters = 4, kLines = 100;
    std::vector<pid_t> writers;
    for (int i = 0; i < kWriters; ++i) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            trail.write(kLines);
            ::_exit(0);
        }
        writers.push_back(pid);
    }
    for (const pid_t pid : writers) {
        int status = 0;
        REQUIRE(::waitpid(pid, &status, 0) == pid);
        CHECK(status == 0);
    }
    const TrailVerdict verdict = verify_files(trail.file);
    CHECK(verdict.problems == std::vector<std::string>());
    CHECK(verdict.lines == kWriters * kLines + 1);
}

TEST_CASE("what its owner does to it is found") {
    Trail trail;
    trail.write(9);
    auto lines = lines_of(trail.file);
    const auto problems = [&] {
        write_lines(trail.file, lines);
        return verify_files(trail.file).problems;
    };
    CHECK(problems().empty());
    SUBCASE("a byte") {
        lines[4].replace(lines[4].find("4711"), 4, "4712");
        CHECK(tells(problems(), "node1.jsonl:6: the line before it is not the one"));
    }
    SUBCASE("a line is gone") {
        lines.erase(lines.begin() + 4);
        CHECK(tells(problems(), "lines 4 to 4 are missing"));
    }
    SUBCASE("two are exchanged") {
        std::swap(lines[4], lines[5]);
        CHECK(tells(problems(), "comes after number"));
    }
    SUBCASE("one is there twice") {
        lines.insert(lines.begin() + 4, lines[3]);
        CHECK(tells(problems(), "is there twice"));
    }
    SUBCASE("the beginning is gone") {
        lines.erase(lines.begin(), lines.begin() + 3);
        CHECK(tells(problems(), "it begins with number 3"));
    }
    SUBCASE("a line of something else") {
        lines.insert(lines.begin() + 4, "hello");
        CHECK(tells(problems(), "node1.jsonl:5 is no line of a trail"));
    }
    SUBCASE("nothing but something else") {
        lines = {"hello"};
        CHECK(tells(problems(), "has no line of a trail"));
    }
    SUBCASE("the end: only who keeps its head elsewhere knows") {
        const AuditHead head = *verify_files(trail.file).head;
        lines.resize(5);
        CHECK(problems().empty());
        const AnchoredHeads heads = {{head.seq, {head.digest, "journald", 2001U, ""}}};
        CHECK(tells(verify_files(trail.file, {}, &heads).problems, "lines were cut off"));
    }
}

TEST_CASE("a line that was torn stays, and the next one tells of it") {
    Trail trail;
    trail.write(3);
    const std::string whole = read_file(trail.file);
    for (const std::size_t cut : {1U, 5U, 200U}) {
        std::ofstream(trail.file, std::ios::trunc) << whole.substr(0, whole.size() - cut);
        trail.write(1);
        const TrailVerdict verdict = verify_files(trail.file);
        CHECK(verdict.problems == std::vector<std::string>());
        // Without its newline alone it is whole, and none is told of.
        CHECK(verdict.remarks.size() == (cut == 1 ? 0 : 1));
        CHECK(verdict.lines == (cut == 1 ? 5 : 5));
    }
    SUBCASE("and one that is being written is no problem") {
        std::ofstream(trail.file, std::ios::app) << R"({"v":1,"prev")";
        const TrailVerdict verdict = verify_files(trail.file);
        CHECK(verdict.whole());
        CHECK(tells(verdict.remarks, "is not whole"));
    }
}

TEST_CASE("a clock that goes back is told of, and no problem") {
    Trail trail;
    trail.write(1);
    auto lines = lines_of(trail.file);
    AuditLine line = *parse_audit_line(lines.back());
    line.prev = audit_digest(lines.back());
    line.time = "2001-01-01T00:00:00.000000Z";
    ++line.seq;
    lines.push_back(to_text(line));
    write_lines(trail.file, lines);
    const TrailVerdict verdict = verify_files(trail.file);
    CHECK(verdict.whole());
    CHECK(tells(verdict.remarks, "the clock went back"));
}

TEST_CASE("the chain goes on over files, and what is too old is deleted with a word") {
    Trail trail;
    AuditRetention small;
    small.most_bytes = 2000;
    {
        AuditChain chain = chain_in(trail.folder, small);
        for (int i = 0; i < 30; ++i)
            chain.append("end", {{"exit_code", i}}, "4711");
    }
    const TrailVerdict all = verify_files(trail.file);
    CHECK(all.problems == std::vector<std::string>());
    CHECK(all.files >= 3);
    small.keep_days = 30;  // none of them is so old
    chain_in(trail.folder, small).append("end", {}, "4711");
    CHECK(verify_files(trail.file).files >= all.files);
    small.keep_days = 0;
    chain_in(trail.folder, small).append("end", {}, "4711");
    const TrailVerdict rest = verify_files(trail.file);
    CHECK(rest.problems == std::vector<std::string>());
    CHECK(rest.files <= 2);
    CHECK(tells(rest.remarks, "were deleted when their retention was over"));
}

TEST_CASE("a file that takes no more loses a line, and keeps no part of it") {
    Trail trail;
    trail.write(1);
    AuditChain chain = chain_in(trail.folder);
    chain.append("end", {}, "4711");
    const auto before = fs::file_size(trail.file);
    ::signal(SIGXFSZ, SIG_IGN);
    struct rlimit old {};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
    struct rlimit tight = old;
    tight.rlim_cur = before + 100;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
    CHECK_THROWS_AS(chain.append("end", {{"text", std::string(500, 'x')}}, "4711"),
                    autolaunch::SystemError);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK(fs::file_size(trail.file) == before);
    chain.append("end", {}, "4711");
    CHECK(verify_files(trail.file).problems == std::vector<std::string>());
}

TEST_CASE("a hundred thousand lines are read in seconds") {
    Trail trail;
    fs::create_directories(trail.folder);
    {
        std::ofstream out(trail.file);
        AuditLine line;
        line.actor = kAmy;
        line.prev = no_audit_digest();
        line.time = audit_time(std::chrono::system_clock::now());
        line.event = "opened";
        line.detail = {{"chain", std::string(32, '0')}};
        for (int i = 0; i < 100'000; ++i) {
            const std::string text = to_text(line);
            out << text << '\n';
            line.prev = audit_digest(text);
            ++line.seq;
            line.event = "end";
            line.detail = {{"exit_code", 0}};
        }
    }
    const auto begin = std::chrono::steady_clock::now();
    const TrailVerdict verdict = verify_files(trail.file);
    const auto took = std::chrono::steady_clock::now() - begin;
    CHECK(verdict.whole());
    CHECK(verdict.lines == 100'000);
    MESSAGE("verified in ", std::chrono::duration<double>(took).count(), " s");
}

}  // namespace audit_chain_test
