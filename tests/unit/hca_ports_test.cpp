// Ports of network adapters that go down while ranks run.
#include "post_mortem/hca_ports.hpp"
#include "../write_file.hpp"
#include "base/hash.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace hca_ports_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
namespace fs = std::filesystem;

namespace {

struct Sys {
    fs::path root = fs::temp_directory_path() / ("autolaunch-hca-" + random_hex(8));
    ~Sys() { fs::remove_all(root); }
    fs::path port(const std::string& adapter, const std::string& number) const {
        return root / "class/infiniband" / adapter / "ports" / number;
    }
    void put(const std::string& adapter, const std::string& number, const std::string& state) {
        fs::create_directories(port(adapter, number));
        write_file(port(adapter, number) / "state", state + "\n");
    }
};

}  // namespace

TEST_CASE("a port that was up and is not any more is told, and no other") {
    Sys sys;
    CHECK(read_hca_ports(sys.root).empty());
    sys.put("mlx5_1", "1", "4: ACTIVE");
    sys.put("mlx5_0", "1", "4: ACTIVE");
    sys.put("mlx5_0", "2", "1: DOWN");
    const auto before = read_hca_ports(sys.root);
    CHECK(before == std::vector<HcaPort>{{"mlx5_0 port 1", "ACTIVE"},
                                         {"mlx5_0 port 2", "DOWN"},
                                         {"mlx5_1 port 1", "ACTIVE"}});
    CHECK(ports_gone_down(before, before).empty());
    sys.put("mlx5_0", "1", "1: DOWN");
    fs::remove_all(sys.port("mlx5_1", "1"));
    CHECK(ports_gone_down(before, read_hca_ports(sys.root)) ==
          std::vector<std::string>{"mlx5_0 port 1 is DOWN", "mlx5_1 port 1 is gone"});
    fs::remove(sys.port("mlx5_0", "1") / "state");  // what cannot be read is not taken for down
    CHECK(ports_gone_down(before, read_hca_ports(sys.root)) ==
          std::vector<std::string>{"mlx5_1 port 1 is gone"});
}

}  // namespace hca_ports_test
