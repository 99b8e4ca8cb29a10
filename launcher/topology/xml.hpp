#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// An element of a small XML file with what is in it; text between elements is dropped. Private to
/// this folder.
struct XmlElement {
    std::string name;
    int line = 0;  ///< of its opening tag, from 1
    std::vector<std::pair<std::string, std::string>> attributes;
    std::vector<XmlElement> children;

    /// The attribute's value, or nothing.
    const std::string* find(std::string_view attribute) const;
};

/// The root element. Throws Error{invalid_argument} with `file` and the line for what is not
/// well-formed, nests deeper than 256 elements or has more than a million. Entities stand for
/// nothing outside the text; no network, no files.
XmlElement parse_xml(std::string_view text, const std::string& file);

}  // namespace autolaunch::launcher
