#pragma once
#include "top/cell_grid.hpp"
#include "top/top_keys.hpp"
#include "top/top_rows.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a screen is drawn of.
struct TopPicture {
    const JobView& view;
    const TopState& state;
    const std::vector<TopRow>& rows;           ///< of rows_of()
    const std::vector<std::string>& log = {};  ///< of the selected rank, oldest first
    std::string message = {};                  ///< in place of the keys: "reading 12 %"
};

/// Fewest columns and rows of a screen that has all of its columns.
inline constexpr int kFewestColumns = 80, kFewestRows = 10;

/// How a screen of so many rows is shared out.
struct TopLayout {
    int news = 0, table = 0, log = 0;  ///< lines each; `log` is without its title
};
TopLayout layout_of(int rows, const TopState& state);

/// Pure. A screen that is too small says so, and how large it has to be.
CellGrid draw_top(const TopPicture& picture, int rows, int columns, Charset charset);

}  // namespace autolaunch::launcher
