// The floor under a launcher: start N programs with posix_spawn(3), wait for all. Usage:
// launch_floor N PROGRAM...

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

extern char** environ;

int main(int argc, char** argv) {
    if (argc < 3)
        return 64;
    const int count = std::atoi(argv[1]);
    std::vector<pid_t> pids(static_cast<std::size_t>(count));
    for (auto& pid : pids) {
        if (::posix_spawn(&pid, argv[2], nullptr, nullptr, argv + 2, environ) != 0) {
            std::perror(argv[2]);
            return 71;
        }
    }
    int failed = 0;
    for (const pid_t pid : pids) {
        int status = 0;
        failed |= ::waitpid(pid, &status, 0) != pid || status != 0;
    }
    return failed;
}
