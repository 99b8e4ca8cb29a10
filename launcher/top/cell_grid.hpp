#pragma once
#include "report/charset.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// How a cell looks; without colours all but `reversed` look the same or bolder.
enum class Ink { plain, bold, dim, red, yellow, green, reversed };

/// One place of a terminal's screen: a character with what combines with it. The place behind a
/// wide one is empty.
struct Cell {
    std::string text = " ";
    Ink ink = Ink::plain;
    bool operator==(const Cell&) const = default;
};

/// What a screen shows. Whatever is put into it can only be characters: escape sequences of others
/// are dropped, and what is left of them is made visible. Pure.
class CellGrid {
public:
    CellGrid(int rows, int columns, Charset charset);

    int rows() const { return rows_; }
    int columns() const { return columns_; }
    const Cell& at(int row, int column) const;

    /// Cut at `width` columns and at the row's end, with an ellipsis. Gives the columns taken.
    int put(int row, int column, std::string_view text, Ink ink = Ink::plain, int width = 1 << 20);
    /// The same, ending before `end`.
    void put_right(int row, int end, std::string_view text, Ink ink = Ink::plain);
    /// The whole row, with what is in it.
    void ink_row(int row, Ink ink);

    /// Rows as lines without blanks at their ends.
    std::string text() const;

private:
    int rows_, columns_;
    Charset charset_;
    std::vector<Cell> cells_;
};

/// What `text` becomes on a screen: no sequences, no control characters, blanks for tabs. Pure.
std::string plain_words(std::string_view text, Charset charset);

}  // namespace autolaunch::launcher
