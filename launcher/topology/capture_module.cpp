// autolaunch-capture.so: what load_capture() loads.

#include "topology/capture.hpp"
#include "topology/load_capture.hpp"

#include <cstdlib>
#include <exception>
#include <string_view>

namespace autolaunch::launcher {
namespace {

NodeTopology read(const char* path) {
    // hwloc's plugins look at the machine it runs on, which nobody wants here, and take longer than
    // all the rest. Its own XML parser reads what lstopo writes; libxml, which is a plugin, reads
    // all of XML.
    const bool chosen = std::getenv("HWLOC_PLUGINS_PATH") != nullptr;
    if (!chosen)
        ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
    try {
        return read_capture(path);
    } catch (const Error&) {
        if (chosen)
            throw;
        ::unsetenv("HWLOC_PLUGINS_PATH");
        return read_capture(path);
    }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ReadCaptureFunction autolaunch_read_capture;

extern "C" bool autolaunch_read_capture(const char* path, const char* layout, CaptureReply* reply) {
    if (std::string_view(layout) != AUTOLAUNCH_TOPOLOGY_LAYOUT)
        return false;
    try {
        reply->topology = read(path);
        return true;
    } catch (const Error& error) {
        reply->code = error.code();
        reply->what = error.what();
        reply->hint = error.hint();
    } catch (const std::exception& error) {
        reply->what = error.what();
    }
    reply->failed = true;
    return true;
}

}  // namespace autolaunch::launcher
