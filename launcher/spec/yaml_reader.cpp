#include "spec/yaml_reader.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// Thrown through the parser when reading on makes no sense; caught in read_yaml.
struct Unreadable {
    SpecError error;
};

struct Extent {
    std::size_t values = 0, bytes = 0;
};

void add_extent(const Value& value, Extent& extent) {
    ++extent.values;
    extent.bytes += value.text.size();
    for (const auto& item : value.items)
        add_extent(item, extent);
    for (const auto& entry : value.entries) {
        extent.bytes += entry.key.size();
        add_extent(entry.value, extent);
    }
}

Extent extent_of(const Value& value) {
    Extent extent;
    add_extent(value, extent);
    return extent;
}

/// The parser writes "\_" and "\N", a blank that does not break and a line's end, as one byte each.
/// All else that it gives is UTF-8, as the file is.
std::string as_utf8(const std::string& text) {
    std::string whole;
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        if (lead == 0x85 || lead == 0xA0) {
            whole.append("\xC2").append(1, text[i++]);
            continue;
        }
        const std::size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        whole.append(text, i, length);
        i += length;
    }
    return whole;
}

/// Builds the tree from the parser's events. Lives for one document; nothing blocks.
class TreeBuilder : public YAML::EventHandler {
public:
    TreeBuilder(std::shared_ptr<const std::string> file, std::vector<SpecError>& errors)
        : file_(std::move(file)), errors_(errors) {}

    Value take() { return std::move(root_); }

    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        Value value;
        value.at = origin(mark);
        add(std::move(value), anchor);
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& text) override;
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        open(Value::Kind::sequence, mark, tag, anchor);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        open(Value::Kind::mapping, mark, tag, anchor);
    }
    void OnMapEnd() override { close(); }

private:
    struct Key {
        std::string text;
        Origin at;
        bool merge = false;
    };
    /// A collection that is not closed yet.
    struct Frame {
        Value value;
        YAML::anchor_t anchor = 0;
        std::optional<Key> key;
        std::unordered_map<std::string, Origin> seen;
        std::vector<Value> merged;
    };

    Origin origin(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }
    [[noreturn]] void stop(const Origin& at, std::string message) const {
        throw Unreadable{error_at(at, "", std::move(message))};
    }
    void count(const Extent& more, const Origin& at);
    void open(Value::Kind kind, const YAML::Mark& mark, const std::string& tag,
              YAML::anchor_t anchor);
    void close();
    void add(Value value, YAML::anchor_t anchor);
    void add_key(Frame& frame, const Value& value);
    void add_merge(Frame& frame, Value value);
    static void apply_merges(Frame& frame);

    std::shared_ptr<const std::string> file_;
    std::vector<SpecError>& errors_;
    Value root_;
    std::vector<Frame> open_;
    std::map<YAML::anchor_t, Value> anchored_;
    Extent extent_;
};

void TreeBuilder::count(const Extent& more, const Origin& at) {
    extent_.values += more.values;
    extent_.bytes += more.bytes;
    if (extent_.values > kMaxValues)
        stop(at,
             "the file has more than " + std::to_string(kMaxValues) + " values, aliases expanded");
    if (extent_.bytes > kMaxTextBytes)
        stop(at, "the file has more than 16 MiB of text, aliases expanded");
}

/// The parser's tags: "?" plain, "!" quoted, else what the file says; "!!int" arrives in its long
/// form.
std::string short_tag(const std::string& tag) {
    constexpr std::string_view kCore = "tag:yaml.org,2002:";
    if (tag == "?" || tag == "!")
        return {};
    return tag.starts_with(kCore) ? "!!" + tag.substr(kCore.size()) : tag;
}

void TreeBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                           const std::string& text) {
    Value value;
    value.kind = Value::Kind::scalar;
    value.plain = tag == "?";
    value.text = as_utf8(text);
    value.tag = short_tag(tag);
    value.at = origin(mark);
    add(std::move(value), anchor);
}

void TreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end())
        stop(origin(mark), "the alias refers to a value that contains it");
    const auto& value = found->second;
    if (static_cast<int>(open_.size()) + depth_of(value) > kMaxDepth)
        stop(origin(mark), "nested more than " + std::to_string(kMaxDepth) + " levels deep");
    count(extent_of(value), origin(mark));
    add(Value(value), 0);
}

void TreeBuilder::open(Value::Kind kind, const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor) {
    if (static_cast<int>(open_.size()) + 1 >= kMaxDepth)
        stop(origin(mark), "nested more than " + std::to_string(kMaxDepth) + " levels deep");
    Frame frame;
    frame.value.kind = kind;
    frame.value.tag = short_tag(tag);
    frame.value.at = origin(mark);
    frame.anchor = anchor;
    open_.push_back(std::move(frame));
}

void TreeBuilder::close() {
    Frame frame = std::move(open_.back());
    open_.pop_back();
    apply_merges(frame);
    add(std::move(frame.value), frame.anchor);
}

void TreeBuilder::add(Value value, YAML::anchor_t anchor) {
    count({1, value.text.size()}, value.at);
    if (anchor != 0) {
        count(extent_of(value), value.at);
        anchored_[anchor] = value;
    }
    if (open_.empty()) {
        root_ = std::move(value);
        return;
    }
    Frame& frame = open_.back();
    if (frame.value.is_sequence()) {
        frame.value.items.push_back(std::move(value));
    } else if (!frame.key) {
        add_key(frame, value);
    } else {
        Key key = *std::exchange(frame.key, std::nullopt);
        if (key.merge)
            add_merge(frame, std::move(value));
        else if (frame.seen.emplace(key.text, key.at).second)
            frame.value.entries.push_back({std::move(key.text), key.at, std::move(value)});
        else
            errors_.push_back(error_at(key.at, key.text,
                                       "this key was given before, on line " +
                                           std::to_string(frame.seen.at(key.text).line) +
                                           "; remove one of the two"));
    }
}

void TreeBuilder::add_key(Frame& frame, const Value& value) {
    if (value.is_sequence() || value.is_mapping())
        stop(value.at, "a key must be text, found " + describe(value));
    if (value.is_null())
        stop(value.at, "a key must be text, found nothing; put null in quotes where it is a name");
    if (value.text.size() > kMaxKeyBytes)
        stop(value.at, "a key has more than " + std::to_string(kMaxKeyBytes) + " bytes");
    frame.key = Key{value.text, value.at, value.plain && value.text == "<<"};
}

void TreeBuilder::add_merge(Frame& frame, Value value) {
    std::vector<Value> sources;
    if (value.is_sequence())
        sources = std::move(value.items);
    else
        sources.push_back(std::move(value));
    for (auto& source : sources) {
        if (source.is_mapping())
            frame.merged.push_back(std::move(source));
        else
            errors_.push_back(error_at(source.at, "<<",
                                       "expected a mapping to merge, found " + describe(source)));
    }
}

/// What the mapping says itself wins, then the earlier source: the rule of YAML's merge key.
void TreeBuilder::apply_merges(Frame& frame) {
    for (auto& source : frame.merged) {
        for (auto& entry : source.entries) {
            if (frame.seen.emplace(entry.key, entry.key_at).second)
                frame.value.entries.push_back(std::move(entry));
        }
    }
}

/// How many bytes the UTF-8 character at the front of `text` has, or 0 when it is malformed or
/// forbidden in YAML.
std::size_t character_length(std::string_view text) {
    const auto byte = [&](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
    };
    const unsigned lead = byte(0);
    if (lead < 0x80)
        return lead >= 0x20 ? (lead == 0x7F ? 0 : 1)
                            : (lead == '\t' || lead == '\n' || lead == '\r');
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0) != 0x80)
            return 0;
    }
    const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
    const bool outside = (lead == 0xED && byte(1) >= 0xA0) || (lead == 0xF4 && byte(1) >= 0x90);
    return overlong || outside ? 0 : length;
}

Origin origin_of_offset(std::string_view text, std::size_t offset,
                        std::shared_ptr<const std::string> file) {
    const std::string_view before = text.substr(0, offset);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t line_start =
        before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    return {std::move(file), static_cast<int>(line), static_cast<int>(offset - line_start) + 1};
}

/// The first line that is indented with a tab, which YAML forbids and parsers explain badly.
std::optional<std::size_t> first_indenting_tab(std::string_view text) {
    for (std::size_t line = 0; line < text.size();) {
        const std::size_t content = text.find_first_not_of(' ', line);
        if (content != std::string_view::npos && text[content] == '\t')
            return content;
        const std::size_t end = text.find('\n', line);
        if (end == std::string_view::npos)
            break;
        line = end + 1;
    }
    return std::nullopt;
}

std::string_view line_of(std::string_view text, int line) {
    for (; line > 0 && !text.empty(); --line)
        text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    return text.substr(0, text.find('\n'));
}

SpecError syntax_error(const YAML::ParserException& exception, std::string_view text,
                       const std::shared_ptr<const std::string>& file) {
    if (const auto tab = first_indenting_tab(text))
        return error_at(origin_of_offset(text, *tab, file), "",
                        "the line is indented with a tab; YAML wants spaces");
    const bool has_variable =
        line_of(text, exception.mark.line).find("${") != std::string_view::npos;
    return error_at(
        {file, exception.mark.line + 1, exception.mark.column + 1}, "",
        "not valid YAML: " + exception.msg +
            (has_variable ? "; within { } and [ ], ${VAR} must be in quotes: \"${VAR}\"" : ""));
}

Value parse(std::string_view text, const std::shared_ptr<const std::string>& file,
            std::vector<SpecError>& errors) {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(file, errors);
    parser.HandleNextDocument(builder);
    Value root = builder.take();
    std::vector<SpecError> ignored;
    TreeBuilder second(file, ignored);
    if (parser.HandleNextDocument(second)) {
        const Value extra = second.take();
        if (!extra.is_null())
            errors.push_back(error_at(
                extra.at, "", "a second YAML document begins here; a spec is one document"));
    }
    return root;
}

}  // namespace

std::size_t first_unprintable(std::string_view text) {
    for (std::size_t offset = 0; offset < text.size();) {
        const std::size_t length = character_length(text.substr(offset, 4));
        if (length == 0)
            return offset;
        offset += length;
    }
    return std::string_view::npos;
}

Value read_yaml(std::string_view text, const std::string& file, std::vector<SpecError>& errors) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    const auto name = std::make_shared<const std::string>(file);
    if (text.starts_with(kByteOrderMark))
        text.remove_prefix(kByteOrderMark.size());
    if (text.size() > kMaxSpecBytes) {
        errors.push_back(error_at({name, 0, 0}, "", "larger than 4 MiB: this is not a job's spec"));
        return {};
    }
    if (const auto offset = first_unprintable(text); offset != std::string_view::npos) {
        errors.push_back(error_at(origin_of_offset(text, offset, name), "",
                                  "not text: a spec is YAML in UTF-8, without control characters"));
        return {};
    }
    try {
        return parse(text, name, errors);
    } catch (const Unreadable& unreadable) {
        errors.push_back(unreadable.error);
    } catch (const YAML::ParserException& exception) {
        errors.push_back(syntax_error(exception, text, name));
    } catch (const YAML::Exception& exception) {
        errors.push_back(
            error_at({name, 0, 0}, "", std::string("not valid YAML: ") + exception.what()));
    }
    return {};
}

}  // namespace autolaunch::launcher
