// A trainer that catches nothing.
//     uncaught name       asks for a unit whose name is misspelt
//     uncaught thread     the same, in a thread of its own
//     uncaught loud       the same, and says much when it is aborted, as Open MPI's stack does
//     uncaught lines      throws an error whose hint has two lines
//     uncaught handler    has a handler of terminate() of its own, which exits with code 3
//     uncaught other      throws what is none of the library's
#include <autolaunch/autolaunch.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace al = autolaunch;

namespace {

[[noreturn]] void say_and_exit() {
    std::fputs("its own last word\n", stderr);
    std::_Exit(3);
}

void print_a_stack(int) {
    for (int line = 0; line < 30; ++line)
        std::fprintf(stderr, "[node1:7] [%2d] a frame of the stack\n", line);
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
}

void misspell(al::Communicator& world) {
    al::fsdp::ShardedModel model(world);
    model.add_unit("attention", {{"w", {4, 4}}});
    model.add_unit("output", {{"w", {4}}});
    model.unit("atention").reduce_grads();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string how = argc > 1 ? argv[1] : "name";
    if (how == "handler")
        std::set_terminate(say_and_exit);
    if (how == "loud")
        std::signal(SIGABRT, print_a_stack);
    auto session = al::Session::from_environment();
    auto world = al::Communicator::world(session, {.backend = "cpu"});
    if (how == "lines")
        throw al::TimeoutError("the first rank did not come", "is it there?\nsee its log");
    if (how == "other")
        throw std::runtime_error("no error of the library");
    if (how == "thread")
        std::thread(misspell, std::ref(world)).join();
    misspell(world);
}
