// For store_torch_test.sh. `store_helper serve NODES` serves a store with a relay for each further
// node, prints the port of each node's and ends with its standard input. `store_helper client PORT`
// talks to a store that somebody else serves, and to the Python process beside it.
#include "store_nodes.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/store.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

using namespace autolaunch;
using namespace std::chrono_literals;

namespace {

int serve(int count) {
    testing::StoreNodes nodes(count);
    for (int node = 0; node < count; ++node)
        std::printf("%d\n", int{nodes.port(node)});
    std::fflush(stdout);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}

int failures = 0;

void expect(bool good, const char* what) {
    if (good)
        return;
    ++failures;
    std::fprintf(stderr, "store_helper: not so: %s\n", what);
}

bool times_out(Store& store) {
    try {
        store.get("never", 50ms);
    } catch (const TimeoutError&) {
        return true;
    }
    return false;
}

int client(const char* port) {
    StoreOptions options;
    options.port = static_cast<std::uint16_t>(std::atoi(port));
    options.timeout = 60s;
    Store store = Store::connect(options);
    const std::vector<std::string> keys = {"a", "n"};
    store.set("a", "from C++");
    expect(store.add("n", 5) == 5 && store.add("n", -7) == -2, "add");
    expect(store.get("n") == "-2", "a number is kept in decimal");
    expect(times_out(store), "a wait times out");
    expect(store.check(keys), "check, after a wait was taken back");
    expect(store.compare_set("c", "", "x") == "x" && store.compare_set("c", "y", "z") == "x",
           "compare_set");
    expect(store.delete_key("c") && !store.delete_key("c"), "delete_key");
    expect(store.get("from_python") == "hello", "what Python set");
    try {
        store.append("a", "!");
        expect(store.get("a") == "from C++!", "append");
        store.multi_set(keys, std::vector<std::string>{"1", "2"});
        expect(store.multi_get(keys) == std::vector<std::string>{"1", "2"}, "multi_get");
        std::printf("all requests\n");
    } catch (const Error& error) {
        expect(error.code() == ErrorCode::unsupported, error.what());
        std::printf("no APPEND, MULTI_SET or MULTI_GET\n");
    }
    store.set("from_cpp", "done");
    return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    if (mode == "serve" && argc > 2)
        return serve(std::atoi(argv[2]));
    if (mode == "client" && argc > 2)
        return client(argv[2]);
    std::fprintf(stderr, "usage: store_helper serve NODES | client PORT\n");
    return 2;
} catch (const autolaunch::Error& error) {
    std::fprintf(stderr, "store_helper: %s\n", error.what());
    return 1;
}
