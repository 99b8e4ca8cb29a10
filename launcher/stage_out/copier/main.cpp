// autolaunch-stageout: copies what ranks have written on this node's own disk to where it is to be.
// The agent starts it, says on its stdin which folder, and reads there how far it is. A process of
// its own, which may hang with a file system or a server while the agent does not; when the agent
// is gone, it ends.
#include "base/environment.hpp"
#include "exit_codes/exit_error.hpp"
#include "hand_over/agent_socket.hpp"
#include "stage_out/copy_job.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

void tell_agent(const OutWord& word) { send_to_agent(as_line(word)); }

std::string hear_order() {
    std::string text;
    char bytes[4096];
    while (text.find('\n') == std::string::npos) {
        const ssize_t got = ::recv(0, bytes, sizeof bytes, 0);
        if (got <= 0)
            ::_exit(0);
        text.append(bytes, static_cast<std::size_t>(got));
    }
    return text.substr(0, text.find('\n'));
}

void end_with_agent() {
    std::thread([] {
        char byte = 0;
        while (::recv(0, &byte, 1, 0) > 0) {
        }
        ::_exit(0);
    }).detach();
}

void copy_as_told() {
    const CopyOrder order = parse_copy_order(hear_order());
    end_with_agent();
    auto folder = OutFolder::open(order.folder, false);
    if (!folder)
        throw Error(ErrorCode::system, order.folder + " is gone, or another process has it");
    if (copy_job(std::make_shared<const OutFolder>(std::move(*folder)), order.names, order.removes,
                 environment_of_process(), tell_agent))
        ::_exit(0);
}

}  // namespace

}  // namespace autolaunch::launcher

int main() {
    using namespace autolaunch;
    try {
        launcher::copy_as_told();
    } catch (const std::exception& error) {
        const launcher::ExitError said = launcher::as_exit_error(error);
        launcher::tell_agent({.done = {{.name = "",
                                        .left_files = 1,
                                        .exit_code = said.exit_code(),
                                        .what = said.what(),
                                        .hint = said.hint()}},
                              .over = true});
    }
    return 0;
}
