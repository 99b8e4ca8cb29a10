// autolaunch-capture.so: what load_capture() loads.

#include "topology/capture.hpp"
#include "topology/load_capture.hpp"

#include <exception>
#include <string_view>

namespace autolaunch::launcher {

extern "C" __attribute__((visibility("default"))) ReadCaptureFunction autolaunch_read_capture;

extern "C" bool autolaunch_read_capture(const char* path, const char* layout, CaptureReply* reply) {
    if (std::string_view(layout) != AUTOLAUNCH_TOPOLOGY_LAYOUT)
        return false;
    try {
        reply->topology = read_capture(path);
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
