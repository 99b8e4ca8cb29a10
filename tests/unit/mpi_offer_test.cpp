// MPI for ranks of which nobody knows whether they use it: what they are told before any server is
// there, who came to PMI-1's port, and what gives away a process that went on without.

#include "base/file_io.hpp"
#include "pmi/elf_symbols.hpp"
#include "pmi/mpi_environment.hpp"
#include "pmi/mpi_state.hpp"
#include "pmi/pmi1_port.hpp"
#include "pmi/pmi1_table.hpp"
#include "pmi/pmix_offer.hpp"
#include "pmi/pmixd/pmix_claim.hpp"
#include "pmi/unserved_mpi.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>

namespace mpi_offer_test {

using namespace autolaunch::launcher;

namespace {

using Lines = std::vector<std::string>;

bool has_line(const Lines& lines, const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
}

PmixOffer offer() {
    return {.name_space = "job.0.5ec2e7",
            .rank = 3,
            .node_rank = 1,
            .port = 4242,
            .directory = "/dev/shm/x/mpi-0",
            .node_name = "node1",
            .version = "4.2.2rc2"};
}

std::string maps_of(const Lines& files) {
    std::string text = "55d0c0000000-55d0c0001000 r-xp 00000000 fe:00 1  /usr/bin/solver\n";
    for (const auto& file : files)
        text += "7f0000000000-7f0000001000 r--p 00000000 fe:00 2   " + file + "\n";
    return text + "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0   [stack]\n";
}

std::string environ_of(const Lines& lines) {
    std::string bytes;
    for (const auto& line : lines)
        bytes += line + '\0';
    return bytes;
}

}  // namespace

TEST_CASE("whom a client of PMIx says that it is") {
    const auto message = [](char kind, const std::string& credential) {
        std::string body = std::string("native") + '\0' + std::string(3, '\0') +
                           static_cast<char>(credential.size()) + credential + kind + "job.0.5ec2" +
                           '\0' + std::string{0, 0, 1, 2} + "4.2.2" + '\0';
        std::string header(16, '\0');
        header[8] = static_cast<char>(body.size());
        return header + body;
    };
    for (const std::string& credential : {std::string(), std::string("\0\0\x03\xe8", 4)}) {
        const std::string bytes = message(0, credential);
        CHECK(pmixd::pmix_message_bytes(bytes.substr(0, 16)) == bytes.size());
        const auto claim = pmixd::parse_pmix_claim(bytes);
        REQUIRE(claim);
        CHECK(*claim == pmixd::PmixClaim{"job.0.5ec2", 258});
    }
    CHECK_FALSE(pmixd::parse_pmix_claim(message(3, "")));  // a tool
    const std::string whole = message(0, "abcd");
    for (std::size_t bytes = 0; bytes < whole.size() - 6; ++bytes)  // what follows is not needed
        CHECK_FALSE(pmixd::parse_pmix_claim(whole.substr(0, bytes)));
    CHECK_FALSE(pmixd::parse_pmix_claim(std::string(64, '\xff')));
    CHECK_FALSE(pmixd::pmix_message_bytes("short"));
}

TEST_CASE("a rank is told where PMIx will be as PMIx itself tells it") {
    const Lines lines = foresee_pmix_environment(offer());
    CHECK(has_line(lines, "PMIX_RANK=3"));
    CHECK(has_line(lines, "PMIX_SERVER_URI41=job.0.5ec2e7.pmixd.1;tcp4://127.0.0.1:4242"));
    CHECK(has_line(lines, "PMIX_VERSION=4.2.2rc2"));
    CHECK(find_pmix_surprise(lines, lines).empty());
}

TEST_CASE("a server that is not as it was foreseen is noticed") {
    const Lines foreseen = foresee_pmix_environment(offer());
    const auto with = [&](const std::string& name, const std::string& value) {
        Lines actual = foreseen;
        for (auto& line : actual)
            if (line.starts_with(name + '='))
                line = name + '=' + value;
        return find_pmix_surprise(foreseen, actual);
    };
    CHECK(with("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_FULLY_DESC").find("FULLY") !=
          std::string::npos);
    CHECK_FALSE(with("PMIX_SERVER_URI3", "job.0.5ec2e7.pmixd.1;tcp4://127.0.0.1:1").empty());
    CHECK(with("PMIX_VERSION", "5.0.1") == "it is version 5.0.1");
    CHECK_FALSE(find_pmix_surprise(foreseen, {}).empty());
    // What a rank chooses from, or what does not matter.
    CHECK(with("PMIX_VERSION", "4.2.9").empty());
    CHECK(with("PMIX_GDS_MODULE", "ds21,ds12,hash").empty());
}

TEST_CASE("a rank that MPI is offered to finds both, and no mpirun is told that it is in another") {
    const MpiPlace place{.rank = 3, .world_size = 4, .local_rank = 1, .local_size = 2};
    const Lines both =
        with_mpi({}, offered_environment(place, {}, foresee_pmix_environment(offer()), 4243));
    for (const char* line : {"PMI_PORT=127.0.0.1:4243", "PMI_ID=3", "MPI_LOCALRANKID=1",
                             "MPIR_CVAR_PMI_VERSION=1", "PMIX_RANK=3", "JSM_JSRUN_PORT=0",
                             "AUTOLAUNCH_MPI=offered", "OMPI_COMM_WORLD_LOCAL_RANK=1"})
        CHECK_MESSAGE(has_line(both, line), line);
    const auto starts = [](const Lines& lines, const char* name) {
        return std::any_of(lines.begin(), lines.end(),
                           [&](const std::string& line) { return line.starts_with(name); });
    };
    CHECK_FALSE(starts(both, "OMPI_UNIVERSE_SIZE"));
    CHECK_FALSE(starts(both, "PMI_SIZE"));  // a nested launcher's, if anybody's

    const Lines one = with_mpi({}, offered_environment(place, {}, {}, 4243));
    CHECK(has_line(one, "PMI_ID=3"));
    CHECK_FALSE(starts(one, "PMIX_"));
    CHECK_FALSE(starts(one, "OMPI_"));
    CHECK_FALSE(starts(one, "AUTOLAUNCH_MPI"));  // libautolaunch may be Open MPI's
}

TEST_CASE("PMI-1's port hears which rank it is, and nothing else") {
    CHECK(parse_initack("cmd=initack pmiid=3") == 3);
    CHECK(parse_initack("cmd=initack pmiid=0 ") == 0);
    for (const char* line : {"", "cmd=init pmi_version=1", "cmd=initack pmiid=", "GET / HTTP/1.1",
                             "cmd=initack pmiid=-1", "cmd=initack pmiid=99999999999999999999",
                             "cmd=initack pmiid=1 2", " cmd=initack pmiid=1"})
        CHECK_FALSE(parse_initack(line));
}

TEST_CASE("a second process of a rank begins anew") {
    Pmi1Table table(2, 2, "kvs_0", "(vector,(0,1,2))");
    for (const int rank : {0, 1})
        table.on_line(rank, "cmd=init pmi_version=1 pmi_subversion=1");
    table.on_line(0, "cmd=barrier_in");
    table.begin(0);  // the one that waited is gone
    CHECK_FALSE(table.has_initialised(0));
    CHECK_FALSE(table.on_line(0, "cmd=barrier_in").broken.empty());
    table.begin(0);
    table.on_line(0, "cmd=init pmi_version=1 pmi_subversion=1");
    CHECK_FALSE(table.on_line(1, "cmd=barrier_in").all_in_barrier);
    CHECK(table.on_line(0, "cmd=barrier_in").all_in_barrier);
}

TEST_CASE("MPI is seen in a memory map, and whether it was initialised") {
    CHECK_FALSE(find_mapped_mpi(""));
    CHECK_FALSE(find_mapped_mpi(maps_of({"/usr/lib/libc.so.6", "/usr/lib/libmpi_cxx.so.40.1"})));
    // Without an MPI library these are somebody else's.
    CHECK_FALSE(find_mapped_mpi(maps_of({"/dev/shm/ucx_shm_posix_1 (deleted)"})));
    const auto linked = find_mapped_mpi(maps_of({"/opt/my mpi/lib/libmpi.so.40.30.4"}));
    REQUIRE(linked);
    CHECK(linked->library == "libmpi.so.40.30.4");
    CHECK_FALSE(linked->initialised);
    CHECK(find_mapped_mpi(maps_of({"/opt/impi/lib/libmpi.so"})));  // a copy, not a link
    REQUIRE(linked->files.size() == 1);
    CHECK(linked->files[0].path == "/opt/my mpi/lib/libmpi.so.40.30.4");
    CHECK(linked->files[0].start == 0x7f0000000000);
    for (const char* made :
         {"/dev/shm/vader_segment.vm.0.1", "/tmp/ompi/sm_segment.vm.0.3b110000.0",
          "/usr/lib/openmpi/mca_pml_ob1.so", "/dev/shm/mpich_shm_7187_0",
          "/dev/shm/ucx_shm_posix_1 (deleted)"}) {
        CHECK(find_mapped_mpi(maps_of({"/usr/lib/libmpich.so.12.2.2", made}))->initialised);
        CHECK(find_mapped_mpi(maps_of({made, "/usr/lib/libmpich.so.12.2.2"}))->initialised);
    }
}

TEST_CASE("what an MPI library's own variable says") {
    CHECK(mpi_state_of(0, 0) == MpiState::untouched);
    CHECK(mpi_state_of(0, 1) == MpiState::done);
    CHECK(mpi_state_of(0, 2) == MpiState::done);  // MPI_Finalize
    CHECK(mpi_state_of(1, 1) == MpiState::begun);
    CHECK(mpi_state_of(2, 2) == MpiState::done);
    CHECK(mpi_state_of(3, 1) == MpiState::begun);
    CHECK(mpi_state_of(4, 1) == MpiState::unknown);
}

// The test itself is a file with symbols.
extern "C" {
volatile int autolaunch_test_variable = 77;
}
TEST_CASE("a variable is found by its name, and damaged files are believed nothing") {
    const std::string file = autolaunch::read_file("/proc/self/exe");
    const auto reader = [](const std::string& bytes) {
        return [&bytes](std::uint64_t offset, std::size_t size) {
            return offset < bytes.size() ? bytes.substr(offset, size) : std::string();
        };
    };
    constexpr std::array<std::string_view, 3> kNames = {"no_such_name", "autolaunch_test_variable",
                                                        "main"};
    const auto found = find_elf_variables(reader(file), kNames);
    REQUIRE_FALSE(found.empty());
    CHECK(found[0].name == 1);
    std::string maps = autolaunch::read_file("/proc/self/maps");
    maps.erase(maps.find(std::filesystem::read_symlink("/proc/self/exe").string()));
    maps.erase(0, maps.rfind('\n') + 1);  // its first line; a sanitizer's memory may lie below
    const std::uint64_t start = std::stoull(maps, nullptr, 16);
    CHECK(start + found[0].address - found[0].base ==
          reinterpret_cast<std::uintptr_t>(&autolaunch_test_variable));
    MpiStateReader states;
    CHECK(states.read(::getpid(), {"/proc/self/exe", start}) == MpiState::unknown);

    CHECK(find_elf_variables(reader(file), std::array<std::string_view, 1>{"main"}).empty());
    std::mt19937 random(1);
    for (int round = 0; round < 30; ++round) {
        std::string damaged = file.substr(0, round % 2 == 0 ? file.size() : random() % 65536);
        for (std::size_t at = 0; at < std::min<std::size_t>(64, damaged.size()); ++at)
            if (at >= 16 && random() % 8 == 0)
                damaged[at] = static_cast<char>(random());
        find_elf_variables(reader(damaged), kNames);  // whatever it says
    }
}

TEST_CASE("a process of another launcher is told from one that was told nothing") {
    const auto identity = [](const Lines& lines) {
        return find_mpi_identity(environ_of(lines), {"job.0", "127.0.0.1:42", ""});
    };
    CHECK(identity({"PATH=/bin", "PMIX_NAMESPACE=job.0", "PMI_PORT=127.0.0.1:42"}) ==
          MpiIdentity::ours);
    CHECK(identity({}) == MpiIdentity::none);
    CHECK(identity({"PATH=/bin", "RANK=0"}) == MpiIdentity::none);
    CHECK(identity({"PMIX_NAMESPACE=prterun-1", "PMI_PORT=127.0.0.1:42"}) == MpiIdentity::foreign);
    CHECK(identity({"PMIX_NAMESPACE=job.0", "PMI_FD=9"}) == MpiIdentity::foreign);
    CHECK(identity({"PMI_PORT=127.0.0.1:43"}) == MpiIdentity::foreign);
    const auto of_program_with_mpi = [](const Lines& lines) {
        return find_mpi_identity(environ_of(lines), {"", "", "3"});
    };
    CHECK(of_program_with_mpi({"PMI_FD=3", "PMI_RANK=0"}) == MpiIdentity::ours);
    CHECK(of_program_with_mpi({"PMI_FD=9", "PMI_RANK=0"}) == MpiIdentity::foreign);
    CHECK(of_program_with_mpi({"PMIX_NAMESPACE=prterun-1"}) == MpiIdentity::foreign);
    CHECK(of_program_with_mpi({}) == MpiIdentity::none);
}

}  // namespace mpi_offer_test
