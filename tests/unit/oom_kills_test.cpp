#include "post_mortem/oom_kills.hpp"
#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"

#include <doctest/doctest.h>

#include <filesystem>

namespace oom_kills_test {

using namespace autolaunch;
using launcher::read_oom_kills;
namespace fs = std::filesystem;

namespace {

struct Roots {
    fs::path root = fs::temp_directory_path() / ("autolaunch-oom-" + random_hex(8));
    explicit Roots(const std::string& cgroup_lines) { put("proc/self/cgroup", cgroup_lines); }
    ~Roots() { fs::remove_all(root); }
    void put(const fs::path& file, const std::string& text) {
        fs::create_directories((root / file).parent_path());
        write_file(root / file, text);
    }
    std::optional<std::int64_t> read() const {
        return read_oom_kills("self", root / "proc", root / "cgroup");
    }
};

}  // namespace

TEST_CASE("cgroup v2 counts in memory.events of our own cgroup") {
    Roots roots("0::/slurm/job_7/step_0\n");
    CHECK_FALSE(roots.read());
    roots.put("cgroup/slurm/job_7/step_0/memory.events",
              "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n");
    CHECK(roots.read() == 2);
}

TEST_CASE("cgroup v1 counts in memory.oom_control, whatever else is mounted") {
    Roots roots("9:name=systemd:/\n4:memory:/jobs/a:b\n0::/\n");
    roots.put("cgroup/memory/jobs/a:b/memory.oom_control",
              "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
    CHECK(roots.read() == 5);
}

TEST_CASE("in a container our cgroup is the root of what we see") {
    Roots roots("0::/kubepods/pod1/ctr\n");
    roots.put("cgroup/memory.events", "oom_kill 1\n");
    CHECK(roots.read() == 1);
}

TEST_CASE("no cgroup, or nonsense, is no count") {
    CHECK_FALSE(Roots("").read());
    Roots roots("0::/x\nnonsense\n");
    roots.put("cgroup/x/memory.events", "oom_kill many\n");
    CHECK_FALSE(roots.read());
}

}  // namespace oom_kills_test
