#include "top/cell_grid.hpp"

#include "report/terminal_text.hpp"

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostCellBytes = 32;  // a character and some that combine with it

}  // namespace

std::string plain_words(std::string_view text, Charset charset) {
    std::string words = in_charset(escape_for_terminal(text, Colours::strip), charset);
    for (std::size_t tab = 0; (tab = words.find('\t', tab)) != words.npos; ++tab)
        words[tab] = ' ';
    return words;
}

CellGrid::CellGrid(int rows, int columns, Charset charset)
    : rows_(std::max(rows, 0)),
      columns_(std::max(columns, 0)),
      charset_(charset),
      cells_(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_)) {}

const Cell& CellGrid::at(int row, int column) const {
    return cells_.at(static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
                     static_cast<std::size_t>(column));
}

int CellGrid::put(int row, int column, std::string_view text, Ink ink, int width) {
    width = std::min(width, columns_ - column);
    if (row < 0 || row >= rows_ || column < 0 || width <= 0)
        return 0;
    const std::string words = fit_width(plain_words(text, charset_), width, charset_);
    Cell* const first = &cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
                                static_cast<std::size_t>(column)];
    int taken = 0;
    for (std::string_view rest = words; !rest.empty();) {
        const std::size_t bytes = std::max<std::size_t>(1, decode_character(rest).bytes);
        const std::string_view character = rest.substr(0, bytes);
        const int columns = display_width(character);
        if (columns == 0) {
            if (taken > 0 && first[taken - 1].text.size() + bytes <= kMostCellBytes)
                first[taken - 1].text += character;
        } else if (taken + columns <= width) {
            first[taken++] = {std::string(character), ink};
            if (columns == 2)
                first[taken++] = {"", ink};
        }
        rest.remove_prefix(bytes);
    }
    return taken;
}

void CellGrid::put_right(int row, int end, std::string_view text, Ink ink) {
    const int width = display_width(plain_words(text, charset_));
    put(row, std::max(0, end - width), text, ink, std::min(width, end));
}

void CellGrid::ink_row(int row, Ink ink) {
    if (row < 0 || row >= rows_)
        return;
    for (int column = 0; column < columns_; ++column)
        cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
               static_cast<std::size_t>(column)]
            .ink = ink;
}

std::string CellGrid::text() const {
    std::string all;
    for (int row = 0; row < rows_; ++row) {
        std::string line;
        for (int column = 0; column < columns_; ++column)
            line += at(row, column).text;
        line.erase(line.find_last_not_of(' ') + 1);
        all += line + '\n';
    }
    return all;
}

}  // namespace autolaunch::launcher
