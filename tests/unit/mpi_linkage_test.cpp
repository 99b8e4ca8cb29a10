// Which MPI a program is linked with, and which interface follows: ELF files good and bad, and the
// rules.

#include "pmi/mpi_linkage.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "pmi/elf_file.hpp"

#include <doctest/doctest.h>
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>

namespace mpi_linkage_test {

using namespace autolaunch::launcher;

namespace {

std::string bytes_of(const void* data, std::size_t size) {
    return {static_cast<const char*>(data), size};
}

/// A small program by hand: one segment with all of it, a dynamic section and, if asked,
/// libautolaunch's note.
std::string make_elf(const std::vector<std::string>& needed, const std::string& runpath,
                     bool with_note) {
    std::string strings(1, '\0');
    std::vector<Elf64_Dyn> dynamic;
    const auto add = [&](Elf64_Sxword tag, Elf64_Xword value) {
        Elf64_Dyn entry{};
        entry.d_tag = tag;
        entry.d_un.d_val = value;
        dynamic.push_back(entry);
    };
    const auto text = [&](const std::string& word) {
        const auto index = strings.size();
        strings += word + '\0';
        return index;
    };
    for (const auto& name : needed)
        add(DT_NEEDED, text(name));
    if (!runpath.empty())
        add(DT_RUNPATH, text(runpath));
    std::string note;
    if (with_note) {
        const Elf64_Nhdr header{11, 4, 1};
        note = bytes_of(&header, sizeof header) + std::string("autolaunch\0\0\1\0\0\0", 16);
    }
    const std::size_t segments = with_note ? 3 : 2;
    const std::size_t strings_at = sizeof(Elf64_Ehdr) + segments * sizeof(Elf64_Phdr);
    const std::size_t note_at = strings_at + strings.size();
    const std::size_t dynamic_at = note_at + note.size();
    constexpr std::uint64_t kAddress = 0x400000;
    add(DT_STRTAB, kAddress + strings_at);
    add(DT_STRSZ, strings.size());
    add(DT_NULL, 0);
    const std::size_t size = dynamic_at + dynamic.size() * sizeof(Elf64_Dyn);

    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<Elf64_Half>(segments);
    const auto segment = [&](std::uint32_t type, std::uint64_t offset, std::uint64_t bytes) {
        Elf64_Phdr made{};
        made.p_type = type;
        made.p_offset = offset;
        made.p_vaddr = kAddress + offset;
        made.p_filesz = bytes;
        made.p_align = 4;
        return bytes_of(&made, sizeof made);
    };
    std::string elf = bytes_of(&header, sizeof header) + segment(PT_LOAD, 0, size) +
                      segment(PT_DYNAMIC, dynamic_at, dynamic.size() * sizeof(Elf64_Dyn));
    if (with_note)
        elf += segment(PT_NOTE, note_at, note.size());
    return elf + strings + note + bytes_of(dynamic.data(), dynamic.size() * sizeof(Elf64_Dyn));
}

std::optional<ElfFile> parse(const std::string& bytes, std::size_t* asked = nullptr) {
    return parse_elf([&](std::uint64_t offset, std::size_t size) {
        if (asked != nullptr)
            *asked += size;
        return offset >= bytes.size() ? std::string() : bytes.substr(offset, size);
    });
}

class Folder {
public:
    Folder() {
        std::string name =
            (std::filesystem::temp_directory_path() / "autolaunch-elf-XXXXXX").string();
        path_ = ::mkdtemp(name.data());
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string add(const std::string& name, const std::string& bytes) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        autolaunch::write_file(path_ / name, bytes);
        return path_ / name;
    }
    std::string at(const std::string& name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

}  // namespace

TEST_CASE("an ELF file says what it needs") {
    const auto file = parse(make_elf({"libmpi.so.40", "libc.so.6"}, "$ORIGIN/../lib", false));
    REQUIRE(file);
    CHECK(file->needed == std::vector<std::string>{"libmpi.so.40", "libc.so.6"});
    CHECK(file->runpath == "$ORIGIN/../lib");
    CHECK_FALSE(file->has_our_note);
    CHECK(parse(make_elf({}, "", true))->has_our_note);
}

TEST_CASE("what is no such file says nothing") {
    CHECK_FALSE(parse(""));
    CHECK_FALSE(parse("#!/bin/sh\n"));
    CHECK_FALSE(parse(std::string(4096, '\xff')));
    CHECK_FALSE(read_elf("/dev/null"));
    CHECK_FALSE(read_elf("/nonexistent"));
    CHECK_FALSE(read_elf("/"));
    std::string other = make_elf({"libmpi.so.40"}, "", false);
    other[EI_CLASS] = ELFCLASS32;
    CHECK_FALSE(parse(other));
}

TEST_CASE("no file, however broken, is believed") {
    const std::string good = make_elf({"libmpi.so.40", "libfoo.so", "libc.so.6"}, "/opt/lib", true);
    for (std::size_t size = 0; size < good.size(); ++size)
        parse(good.substr(0, size));
    std::mt19937 random(7);
    for (int round = 0; round < 20'000; ++round) {
        std::string bad = good;
        for (int changes = 0; changes < 1 + round % 8; ++changes)
            bad[random() % bad.size()] = static_cast<char>(random() % 3 == 0 ? 0xFF : random());
        std::size_t asked = 0;
        parse(bad, &asked);
        CHECK(asked < std::size_t{64} << 20);
    }
    // Every 8 bytes in turn as large as can be: offsets, sizes, addresses, indices.
    for (std::size_t at = 0; at + 8 <= good.size(); ++at) {
        std::string bad = good;
        bad.replace(at, 8, 8, '\xff');
        parse(bad);
    }
}

TEST_CASE("MPI libraries are known by their names") {
    CHECK(mode_of_library("libmpi.so.40") == MpiMode::pmix);
    CHECK(mode_of_library("libmpi.so.20") == MpiMode::pmix);
    CHECK(mode_of_library("libmpi.so.12") == MpiMode::pmi1);
    CHECK(mode_of_library("libmpich.so.12") == MpiMode::pmi1);
    CHECK(mode_of_library("libmpi_abi.so.1") == MpiMode::offered);
    CHECK(mode_of_library("libmpi.so.40.30.4") == MpiMode::pmix);
    CHECK(mode_of_library("libmpi.so.12.2.2") == MpiMode::pmi1);
    for (const char* name :
         {"libmpi.so", "libmpi_cxx.so.40", "libmpi.so.x", "libmpix.so.40", "libc.so.6", ""})
        CHECK(mode_of_library(name) == MpiMode::none);
}

TEST_CASE("MPI is found through the libraries of a program") {
    const Folder folder;
    folder.add("lib/libmiddle.so", make_elf({"libouter.so"}, "", false));
    folder.add("other/libouter.so", make_elf({"libmpi.so.40"}, "", false));
    const std::string program =
        folder.add("bin/program", make_elf({"libmiddle.so"}, "$ORIGIN/../lib", false));
    CHECK(find_mpi_linkage(program, {"LD_LIBRARY_PATH=" + folder.at("other")}).mode ==
          MpiMode::pmix);
    CHECK(find_mpi_linkage(program, {}).mode ==
          MpiMode::none);  // libouter.so is not found, as the loader would not

    const std::string direct = folder.add("bin/direct", make_elf({"libmpich.so.12"}, "", false));
    const MpiLinkage linkage = find_mpi_linkage(direct, {});
    CHECK(linkage.mode == MpiMode::pmi1);
    CHECK(linkage.library == "libmpich.so.12");
    CHECK_FALSE(linkage.through_libautolaunch);
    CHECK(find_mpi_linkage(folder.add("bin/script", "#!/bin/sh\nexec mpi\n"), {}).mode ==
          MpiMode::none);

    // Two libraries that need each other.
    folder.add("loop/liba.so", make_elf({"libb.so"}, "$ORIGIN", false));
    folder.add("loop/libb.so", make_elf({"liba.so"}, "$ORIGIN", false));
    CHECK(find_mpi_linkage(folder.at("loop/liba.so"), {}).mode == MpiMode::none);
}

TEST_CASE("MPI that only libautolaunch needs is told apart") {
    const Folder folder;
    const std::string trainer = folder.add("trainer", make_elf({"libmpi.so.40"}, "", true));
    CHECK(find_mpi_linkage(trainer, {}).through_libautolaunch);
    folder.add("libautolaunch_comm.so", make_elf({"libmpi.so.40"}, "", true));
    folder.add("libown.so", make_elf({"libmpi.so.40"}, "", false));
    const std::string indirect =
        folder.add("indirect", make_elf({"libautolaunch_comm.so"}, "$ORIGIN", false));
    CHECK(find_mpi_linkage(indirect, {}).through_libautolaunch);
    const std::string both =
        folder.add("both", make_elf({"libautolaunch_comm.so", "libown.so"}, "$ORIGIN", false));
    CHECK_FALSE(find_mpi_linkage(both, {}).through_libautolaunch);
}

TEST_CASE("the mode is what was asked for, else what the program needs") {
    const MpiLinkage open_mpi{MpiMode::pmix, "libmpi.so.40", false},
        mpich{MpiMode::pmi1, "libmpich.so.12", false};
    CHECK(choose_mpi({.setting = "none", .linkage = open_mpi}).mode == MpiMode::none);
    CHECK(choose_mpi({.setting = "pmi1", .linkage = open_mpi}).mode == MpiMode::pmi1);
    CHECK(choose_mpi({.setting = "pmix"}).asked_for);
    CHECK(choose_mpi({.linkage = open_mpi}).mode == MpiMode::pmix);
    CHECK(choose_mpi({.linkage = mpich}).mode == MpiMode::pmi1);
    CHECK(choose_mpi({.linkage = mpich}).reason.find("libmpich.so.12") != std::string::npos);
    CHECK_FALSE(choose_mpi({.linkage = open_mpi}).asked_for);
}

TEST_CASE("a program that is linked with no MPI may start one that is") {
    CHECK(choose_mpi({}).mode == MpiMode::offered);
    CHECK_FALSE(choose_mpi({}).asked_for);
    CHECK(choose_mpi({.has_pmixd = false}).mode == MpiMode::offered);
    CHECK(choose_mpi({.has_pmixd = false}).reason.find("no autolaunch-pmixd") != std::string::npos);
    CHECK(choose_mpi({.several_ranks = false}).mode == MpiMode::none);
    const MpiLinkage new_abi{MpiMode::offered, "libmpi_abi.so.1", false};
    CHECK(choose_mpi({.linkage = new_abi}).mode == MpiMode::offered);
    CHECK(choose_mpi({.linkage = new_abi}).reason.find("libmpi_abi.so.1") != std::string::npos);
}

TEST_CASE("libautolaunch gets MPI where it would use it") {
    const MpiLinkage ours{MpiMode::pmix, "libmpi.so.40", true};
    CHECK(choose_mpi({.linkage = ours}).mode == MpiMode::offered);
    CHECK(choose_mpi({.several_nodes = true, .linkage = ours}).mode == MpiMode::pmix);
    CHECK(choose_mpi({.backend = "mpi", .linkage = ours}).mode == MpiMode::pmix);
    CHECK(choose_mpi({.several_nodes = true, .has_pmixd = false, .linkage = ours}).mode ==
          MpiMode::none);
}

TEST_CASE("of several programs in one job all count") {
    const ProgramMpi script{"./prepare.sh", choose_mpi({})};
    const ProgramMpi solver{"./solver",
                            choose_mpi({.linkage = {MpiMode::pmix, "libmpi.so.40", false}})};
    const ProgramMpi other{"./other",
                           choose_mpi({.linkage = {MpiMode::pmi1, "libmpich.so.12", false}})};
    CHECK(choose_mpi_together({script, script}).mode == MpiMode::offered);
    CHECK(choose_mpi_together({solver, solver}).mode == MpiMode::pmix);
    for (const auto& programs : {std::vector{script, solver}, std::vector{solver, script}}) {
        const MpiChoice together = choose_mpi_together(programs);
        CHECK(together.mode == MpiMode::offered);
        CHECK(together.reason.find("./solver: the program needs libmpi.so.40") !=
              std::string::npos);
        CHECK(find_mpi_conflict(programs).empty());
    }
    CHECK(choose_mpi_together({solver, other}).mode == MpiMode::offered);
    CHECK(find_mpi_conflict({solver, script, other}).find("./solver and ./other") !=
          std::string::npos);
}

}  // namespace mpi_linkage_test
