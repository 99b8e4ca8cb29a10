// Archives that are unpacked, those of somebody hostile among them, which hostile_archives.py
// makes.
#include "archives/unpack.hpp"
#include "exit_codes/exit_error.hpp"
#include "kill_at_call.hpp"
#include "processes.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/tree_check.hpp"
#include "staging/item_source.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

namespace archives_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::slurp;
namespace fs = std::filesystem;

namespace {

/// The archives, made once, and a folder to unpack into.
class Archives {
public:
    Archives() {
        std::string name = "/dev/shm/autolaunch-archives-XXXXXX";
        path_ = ::mkdtemp(name.data());
        const std::string command = "exec /usr/bin/python3 " AUTOLAUNCH_SOURCE_DIR
                                    "/tests/integration/hostile_archives.py " +
                                    path_.string();
        REQUIRE(std::system(command.c_str()) == 0);
        try {
            unpack("good.tar");
        } catch (const ExitError& error) {
            if (error.exit_code() != exit_code::kUnavailable)
                throw;
            std::printf("skipped: %s\n", error.what());
            std::exit(77);
        }
    }
    Archives(const Archives&) = delete;
    Archives& operator=(const Archives&) = delete;
    ~Archives() {
        const std::string command =
            "chmod -R u+w " + path_.string() + " && rm -rf " + path_.string();
        CHECK(std::system(command.c_str()) == 0);
    }

    fs::path operator/(const char* name) const { return path_ / name; }
    fs::path tree() const { return path_ / "into" / "tree"; }

    Tree unpack(const std::string& name, std::int64_t most = std::int64_t{1} << 40) {
        const UniqueFd above = [&] {
            fs::create_directories(path_ / "into");
            return UniqueFd(::open((path_ / "into").c_str(), kOpenFolder));
        }();
        remove_beneath(above.get(), "tree");
        fs::create_directory(tree());
        const UniqueFd into(::open(tree().c_str(), kOpenFolder));
        const UniqueFd archive(::open((path_ / name).c_str(), O_RDONLY | O_CLOEXEC));
        REQUIRE(archive);
        std::int64_t given = 0;
        UnpackTerms terms{.kind = name.ends_with(".zip") ? ArchiveKind::zip : ArchiveKind::tar,
                          .shown = name};
        terms.make_room = [&](std::int64_t more) {
            if (given + more > most)
                throw ExitError(exit_code::kCannotCreate, ErrorCode::system, "no room", "x");
            given += more;
        };
        return unpack_archive(archive.get(), into.get(), "tree", terms);
    }

    /// What it says; nothing is outside the folder, and nothing of it is believed.
    std::string refusal(const std::string& name, int code = 65,
                        std::int64_t most = std::int64_t{1} << 40) {
        try {
            unpack(name, most);
            FAIL("it was unpacked: " << name);
        } catch (const ExitError& error) {
            CAPTURE(error.what());
            CHECK(error.exit_code() == code);
            CHECK(!error.hint().empty());
            return error.what();
        }
        return {};
    }

private:
    fs::path path_;
};

StagedTree stage_archive(StageCache& cache, const std::string& path) {
    ItemSource from({"a", path, "", "tar"}, {}, nullptr);
    SourceTree source = from.look();
    StagingRequest request;
    request.key = source_key(from.words(), source.tree);
    request.copy.threads = 1;
    from.read_for(request, cache);
    from.verify_for(request);
    CopyProgress progress;
    return stage_tree(cache, source, request, progress);
}

std::string names_of(const Tree& tree) {
    std::string names;
    for (const TreeEntry& entry : tree.entries)
        names += static_cast<char>(entry.kind) + entry.path + ' ';
    return names;
}

}  // namespace

TEST_CASE("an archive is the tree that it holds") {
    Archives archives;
    const std::string noise = slurp(archives / "noise");
    for (const char* name : {"good.tar", "good.tgz", "good.tar.gz", "good.tar.zst", "good.zip"}) {
        if (!fs::exists(archives / name)) {
            std::printf("skipped: %s: no zstd\n", name);
            continue;
        }
        CAPTURE(name);
        const Tree tree = archives.unpack(name);
        const bool is_zip = std::string(name).ends_with(".zip");
        CHECK(names_of(tree) ==
              (is_zip
                   ? "ddeep ddeep/er fdeep/er/ä b fempty frun.sh dsub fsub/noise "
                   : "fagain ddeep ddeep/er fdeep/er/ä b fempty llatest frun.sh dsub fsub/noise "));
        const bool is_same = slurp(archives.tree() / "sub" / "noise") == noise;
        CHECK(is_same);
        CHECK(slurp(archives.tree() / "deep" / "er" / "ä b") == "utf-8");
        if (!is_zip)
            CHECK(fs::read_symlink(archives.tree() / "latest") == "sub/noise");
        struct stat facts {};
        REQUIRE(::stat((archives.tree() / "run.sh").c_str(), &facts) == 0);
        CHECK((facts.st_mode & 07777) == 0555);
        if (!is_zip)
            CHECK(facts.st_mtime == 1700000000);
        const UniqueFd folder(::open(archives.tree().c_str(), kOpenFolder));
        CHECK(why_damaged(folder.get(), tree) == "");
        CHECK(parse_manifest_text(manifest_text(tree)).bytes() == tree.bytes());
    }
}

TEST_CASE("what may not be in an archive is refused, with its place and name") {
    Archives archives;
    const auto says = [&](const char* name, const std::string& words) {
        CAPTURE(name);
        const std::string what = archives.refusal(name);
        CAPTURE(what);
        CHECK(what.find(words) != std::string::npos);
        CHECK(what.find(name) != std::string::npos);
    };
    says("dots.tar", "entry 1, \"a/../../out\", leads out");
    says("dots.zip", "entry 1, \"../out\", leads out");
    says("absolute.tar", "entry 1, \"/etc/autolaunch-was-here\", leads out");
    says("link_out.tar", "is a link that leads out of what is unpacked, to /etc");
    says("link_out.zip", "is a link that leads out of what is unpacked, to /etc");
    says("link_up.tar", "is a link that leads out of what is unpacked, to ../../x");
    says("through.tar", "entry 3, \"a/x\", is below \"a\", which is no folder");
    says("below_file.tar", "is below \"a\", which is no folder");
    says("device.tar", "is neither a file nor a folder nor a link");
    says("pipe.tar", "is neither a file nor a folder nor a link");
    says("setuid.tar", "has a setuid or setgid bit");
    says("setgid.tar", "has a setuid or setgid bit");
    says("twice.tar", "entry 2, \"./x\", is there twice");
    says("file_then_folder.tar", "is there twice");
    says("hard_link_out.tar", "is another name of /etc/passwd, which is no file before it");
    says("hard_link_later.tar", "which is no file before it");
    says("long_name.tar", "is longer or deeper than a path may be");
    says("deep.tar", "is longer or deeper than a path may be");
    says("nothing.tar", "no whole tar archive");
    says("cut.tar", "no whole tar archive");
    says("flipped.zip", "no whole zip archive");
    says("no_archive.tar", "no whole tar archive");
    says("no_archive.zip", "no whole zip archive");
    CHECK_FALSE(fs::exists("/etc/autolaunch-was-here"));
    CHECK_FALSE(fs::exists(archives.tree().parent_path() / "out"));
    CHECK_FALSE(fs::exists(archives / "out"));
}

TEST_CASE("an archive that holds more than there is room for ends before it has taken it") {
    Archives archives;
    CHECK(archives.refusal("bomb.tgz", 73, 16 << 20) == "no room");
    std::uintmax_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(archives.tree()))
        bytes += entry.is_regular_file() ? entry.file_size() : 0;
    CHECK(bytes <= 16 << 20);
    CHECK(archives.refusal("lies.tar", 73, 1 << 30) == "no room");
    CHECK(archives.unpack("bomb.tgz").bytes() == 40 << 20);
}

TEST_CASE("killed at any system call, who unpacks leaves what is whole or not there") {
    Archives archives;
    const std::string archive = archives / "little.tgz";
    const fs::path scratch = archives / "scratch";
    StageCache cache(scratch, std::int64_t{1} << 40);
    const auto killed_at = [&](int fatal) {
        return autolaunch::testing::run_killed(fatal, [&] {
            StageCache its(scratch, std::int64_t{1} << 40);
            stage_archive(its, archive);
        });
    };
    const int calls = killed_at(0);
    if (calls == -77) {
        std::printf("skipped: processes cannot be traced here\n");
        std::exit(77);
    }
    CHECK(calls > 100);
    for (const int fatal : autolaunch::testing::fatal_calls(calls, 6)) {
        CAPTURE(fatal);
        for (const StageCache::Found& found : cache.list())
            CHECK(cache.remove(found.name));
        killed_at(fatal);
        for (const StageCache::Found& found : cache.list())
            if (!found.is_part)
                CHECK(cache.why_damaged(*cache.hold(found.name)) == "");
        const StagedTree after = stage_archive(cache, archive);
        CHECK(cache.why_damaged(after.held) == "");
        CHECK(slurp(after.held.path / "sub" / "a") == "first");
        CHECK(slurp(after.held.path / "b") == "second");
        CHECK(fs::is_empty(cache.path() / "parts"));
    }
}

}  // namespace archives_test
