// nccl.conf as NCCL reads it.

#include "../fuzz/nccl_conf_check.hpp"
#include "fuzz_seeds.hpp"
#include "nccl_env/nccl_conf.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace nccl_conf_test {

using namespace autolaunch::launcher;
namespace fs = std::filesystem;

namespace {

NcclConf parse(const std::string& text) {
    NcclConf conf;
    parse_nccl_conf(text, "/etc/nccl.conf", conf);
    return conf;
}

struct Folder {
    fs::path path;
    Folder() {
        std::string name = fs::temp_directory_path() / "nccl-conf-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { fs::remove_all(path); }
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path / name) << text;
        return path / name;
    }
};

}  // namespace

TEST_CASE("names, values and where they stand") {
    const auto conf = parse("# site\nNCCL_DEBUG=WARN\n\nNCCL_SOCKET_IFNAME==ens1f0\nNCCL_ALGO=");
    REQUIRE(conf.settings.size() == 3);
    CHECK(conf.settings[0].name == "NCCL_DEBUG");
    CHECK(conf.settings[0].value == "WARN");
    CHECK(conf.settings[0].source == "/etc/nccl.conf:2");
    CHECK(conf.settings[1].value == "=ens1f0");
    CHECK(conf.settings[1].source == "/etc/nccl.conf:4");
    CHECK(conf.settings[2].value.empty());
    CHECK(conf.warnings.empty());
}

TEST_CASE("what NCCL takes literally is kept literally, with a warning") {
    for (const auto* text :
         {"NCCL_DEBUG = WARN", " NCCL_DEBUG=WARN", "export NCCL_DEBUG=WARN", "NCCL_DEBUG=WARN\r",
          "NCCL_DEBUG=WARN ", "NCCL_DEBUG=\"WARN\"", "NCCL_DEBUG WARN"}) {
        INFO(text);
        CHECK(parse(text).warnings.size() == 1);
    }
    CHECK(parse("NCCL_DEBUG = WARN").settings[0].name == "NCCL_DEBUG ");
    CHECK(parse("NCCL_DEBUG=\"WARN\"").settings[0].value == "\"WARN\"");
    CHECK(parse("NCCL_DEBUG WARN").settings.empty());
    CHECK(parse("  # a=b").settings.empty());
    CHECK(parse("NCCL_X=" + std::string(2000, 'x')).settings[0].value.size() == 1023);
}

TEST_CASE("the first to name a variable wins") {
    const auto conf = parse("NCCL_DEBUG=WARN\nNCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\n");
    REQUIRE(conf.settings.size() == 1);
    CHECK(conf.settings[0].value == "WARN");
    REQUIRE(conf.warnings.size() == 1);
    CHECK(conf.warnings[0] ==
          "/etc/nccl.conf:2: NCCL_DEBUG=INFO has no effect: /etc/nccl.conf:1 came first with WARN");
}

TEST_CASE("files in NCCL's order") {
    const Folder folder;
    const std::string site = folder.write("site.conf", "NCCL_DEBUG=WARN\nNCCL_IB_TC=41\n");
    const std::string named = folder.write("mine.conf", "NCCL_IB_TC=106\n");
    folder.write(".nccl.conf", "NCCL_IB_TC=7\n");
    const NcclConfPlaces places = {folder.path, folder.path, site};

    const auto home = read_nccl_conf({}, places);
    REQUIRE(home.settings.size() == 2);
    CHECK(home.settings[0].value == "7");
    CHECK(home.settings[1].source == site + ":1");

    CHECK(read_nccl_conf({{"NCCL_CONF_FILE", named}}, places).settings[0].value == "106");
    CHECK(read_nccl_conf({{"NCCL_CONF_FILE", "mine.conf"}}, places).settings[0].value == "106");
    CHECK(read_nccl_conf({{"NCCL_CONF_FILE", ""}}, places).settings[0].value == "7");

    const auto missing = read_nccl_conf({{"NCCL_CONF_FILE", "/no/such"}}, places);
    CHECK(missing.settings.size() == 2);  // the system's file alone
    CHECK(missing.settings[0].value == "WARN");
    CHECK(missing.warnings.size() >= 1);
    CHECK(read_nccl_conf({}, {"", "", "/no/such"}).warnings.empty());
}

TEST_CASE("lines of nccl.conf are settings or warnings, with any bit flipped") {
    std::size_t settings = 0;
    CHECK(autolaunch::check_seeds("nccl_conf", [&](const std::string& bytes) {
              settings += autolaunch::launcher::check_nccl_conf_bytes(bytes);
          }) >= 1);
    CHECK(settings >= 1);
}

}  // namespace nccl_conf_test
