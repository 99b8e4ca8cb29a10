#pragma once
#include "flight_view/flight_picture.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a person is to know of it first, a sentence a line, the most telling first: who waits in
/// which collective, who has not entered it and what he did last, who calls another one. Texts of
/// ranks in it are raw. Pure.
std::vector<std::string> flight_lines(const FlightPicture& picture, std::size_t most_lines);

struct FlightCulprit {
    std::string text;  ///< "rank 3 has not entered all_reduce #2"; empty: nobody is known to be
    std::vector<int> ranks;  ///< that it names, ascending
};

/// Who is to blame where `failed_rank` gave up in a collective: "rank 3 has not entered all_reduce
/// #2 (1 KiB)", of those that others waited for. Empty where it failed otherwise, or in what all of
/// them have entered. Pure.
FlightCulprit flight_culprit(const FlightPicture& picture, int failed_rank);

}  // namespace autolaunch::launcher
