#include "topology/xml.hpp"

#include "topology/capture_parts.hpp"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <type_traits>

namespace autolaunch::launcher {
namespace {

constexpr std::size_t kMostNested = 256;
constexpr std::size_t kMostElements = 1'000'000;
constexpr std::size_t kLongestAttribute = 64 << 10;

/// What the parser's callbacks build. They are called from C, so none may throw: they stop the
/// parser instead.
struct Builder {
    XML_Parser parser = nullptr;
    std::vector<XmlElement> open;  ///< from the root to where the parser is
    XmlElement root;
    std::size_t elements = 0;
    std::string refused;

    void stop(const char* why) noexcept {
        try {
            refused = why;
        } catch (...) {
        }
        XML_StopParser(parser, XML_FALSE);
    }
};

void XMLCALL on_start(void* data, const XML_Char* name, const XML_Char** attributes) noexcept {
    Builder& builder = *static_cast<Builder*>(data);
    if (builder.open.size() >= kMostNested)
        return builder.stop("elements nest deeper than 256");
    if (++builder.elements > kMostElements)
        return builder.stop("more than a million elements");
    try {
        XmlElement element;
        element.name = name;
        element.line = static_cast<int>(XML_GetCurrentLineNumber(builder.parser));
        for (; *attributes; attributes += 2) {
            element.attributes.emplace_back(attributes[0], attributes[1]);
            if (element.attributes.back().second.size() > kLongestAttribute)
                return builder.stop("an attribute is longer than 64 KiB");
        }
        builder.open.push_back(std::move(element));
    } catch (...) {
        builder.stop("no memory for it");
    }
}

void XMLCALL on_end(void* data, const XML_Char*) noexcept {
    Builder& builder = *static_cast<Builder*>(data);
    XmlElement element = std::move(builder.open.back());
    builder.open.pop_back();
    try {
        if (builder.open.empty())
            builder.root = std::move(element);
        else
            builder.open.back().children.push_back(std::move(element));
    } catch (...) {
        builder.stop("no memory for it");
    }
}

}  // namespace

const std::string* XmlElement::find(std::string_view attribute) const {
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const auto& entry) { return entry.first == attribute; });
    return found == attributes.end() ? nullptr : &found->second;
}

XmlElement parse_xml(std::string_view text, const std::string& file) {
    const std::unique_ptr<std::remove_pointer_t<XML_Parser>, decltype(&XML_ParserFree)> parser(
        XML_ParserCreate(nullptr), &XML_ParserFree);
    if (!parser)
        refuse_capture(file, 0, "there is no memory for the XML parser");
    Builder builder;
    builder.parser = parser.get();
    XML_SetUserData(parser.get(), &builder);
    XML_SetElementHandler(parser.get(), &on_start, &on_end);
    if (XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE) !=
        XML_STATUS_OK) {
        const std::string why = builder.refused.empty()
                                    ? XML_ErrorString(XML_GetErrorCode(parser.get()))
                                    : builder.refused;
        refuse_capture(file, static_cast<int>(XML_GetCurrentLineNumber(parser.get())),
                       "the XML is broken: " + why,
                       "save the file again; it may have been cut short");
    }
    return std::move(builder.root);
}

}  // namespace autolaunch::launcher
