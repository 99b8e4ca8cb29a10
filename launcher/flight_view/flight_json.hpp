#pragma once
#include "flight_view/flight_picture.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The whole picture as JSON text: docs/flight-recorder.md. Pure.
std::string flight_json(const FlightPicture& picture, const std::vector<std::string>& lines,
                        int generation, const std::string& reason,
                        std::chrono::system_clock::time_point at);

}  // namespace autolaunch::launcher
