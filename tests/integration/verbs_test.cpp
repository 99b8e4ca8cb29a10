// What libibverbs tells of HCAs, with a library that stands for it.

#include "topology/verbs.hpp"

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "processes.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

namespace verbs_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::TemporaryFolder;

#ifdef FAKE_VERBS

namespace {

/// The HCAs described by `text`.
class FakeHcas {
public:
    explicit FakeHcas(const std::string& text, const std::string& library = FAKE_VERBS) {
        write_file(folder_.path() / "verbs", text);
        ::setenv("FAKE_VERBS_MACHINE", (folder_.path() / "verbs").c_str(), 1);
        devices = ask_verbs(why, library);
    }
    std::optional<std::vector<VerbsDevice>> devices;
    std::string why;

private:
    TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("ports with their MTU, and whether the device takes DMA-BUF memory") {
    const FakeHcas hcas(
        "device mlx5_0\nport 5\ndevice mlx5_1\nport 1\nport 4\ndmabuf 95\ndevice mlx5_2\ndmabuf "
        "93\n");
    REQUIRE_MESSAGE(hcas.devices, hcas.why);
    REQUIRE(hcas.devices->size() == 3);
    const VerbsDevice &first = hcas.devices->at(0), &second = hcas.devices->at(1),
                      &third = hcas.devices->at(2);
    CHECK(first.name == "mlx5_0");
    CHECK(first.trouble.empty());
    REQUIRE(first.ports.size() == 1);
    CHECK(first.ports[0].number == 1);
    CHECK(first.ports[0].mtu_bytes == 4096);
    CHECK(first.takes_dmabuf == true);
    REQUIRE(second.ports.size() == 2);
    CHECK(second.ports[0].mtu_bytes == 256);
    CHECK(second.ports[1].number == 2);
    CHECK(second.ports[1].mtu_bytes == 2048);
    CHECK(second.takes_dmabuf == false);  // EOPNOTSUPP
    CHECK(third.ports.empty());
    CHECK(third.takes_dmabuf == false);  // EPROTONOSUPPORT
}

TEST_CASE("an MTU that verbs do not know is not told") {
    const FakeHcas hcas("device mlx5_0\nport 0\nport 9\n");
    REQUIRE_MESSAGE(hcas.devices, hcas.why);
    CHECK(hcas.devices->at(0).ports.at(0).mtu_bytes == 0);
    CHECK(hcas.devices->at(0).ports.at(1).mtu_bytes == 0);
}

TEST_CASE("a device that cannot be opened is there, with its trouble") {
    const FakeHcas hcas("device mlx5_0\nclosed 13\nport 5\ndevice mlx5_1\nport 5\n");
    REQUIRE_MESSAGE(hcas.devices, hcas.why);
    REQUIRE(hcas.devices->size() == 2);
    CHECK(hcas.devices->at(0).trouble == "Permission denied");
    CHECK_FALSE(hcas.devices->at(0).takes_dmabuf);
    CHECK(hcas.devices->at(1).takes_dmabuf == true);
}

TEST_CASE("a libibverbs that does not know DMA-BUF is to NCCL a device that takes none") {
    const FakeHcas hcas("device mlx5_0\nport 5\n", FAKE_VERBS_OLD);
    REQUIRE_MESSAGE(hcas.devices, hcas.why);
    CHECK(hcas.devices->at(0).takes_dmabuf == false);
    CHECK(hcas.devices->at(0).ports.at(0).mtu_bytes == 4096);
}

TEST_CASE("no library, another library, no RDMA: the reason is told") {
    std::string why;
    CHECK_FALSE(ask_verbs(why, "/nonexistent/libibverbs.so.1"));
    CHECK_MESSAGE(why.find("/nonexistent/libibverbs.so.1") != std::string::npos, why);
    CHECK_FALSE(ask_verbs(why, "libdl.so.2"));
    CHECK(why == "libdl.so.2 lacks functions: it is not libibverbs");
    const FakeHcas none("list 38\n");
    CHECK_FALSE(none.devices);
    CHECK(none.why == "libibverbs lists no devices: Function not implemented");
    const FakeHcas empty("");
    REQUIRE(empty.devices);
    CHECK(empty.devices->empty());
}

TEST_CASE("this machine's libibverbs, where it has one") {
    std::string why;
    const auto devices = ask_verbs(why);
    if (!devices) {
        MESSAGE("skipped: libibverbs of this machine: ", why);
        return;
    }
    for (const VerbsDevice& device : *devices)
        CHECK_FALSE(device.name.empty());
}

#else

TEST_CASE("a build without libibverbs' headers says so") {
    std::string why;
    CHECK_FALSE(ask_verbs(why));
    CHECK(why == "this autolaunch was built without libibverbs' headers");
}

#endif

}  // namespace verbs_test
