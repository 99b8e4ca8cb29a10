#include "spec/include.hpp"

#include "base/hash.hpp"
#include "base/read_at_most.hpp"
#include "spec/interpolate.hpp"
#include "spec/yaml_reader.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace autolaunch::launcher {

namespace {

class IncludeReader {
public:
    IncludeReader(Variables& variables, std::vector<SpecError>& errors)
        : variables_(variables), errors_(errors) {}

    /// `from`: the value that names the file; none for the spec itself.
    Value read(const std::string& file, const Value* from,
               const std::optional<std::string>& known = {});
    std::uint64_t digest() const { return digest_; }

private:
    bool may_read(const std::string& file, const Value* from);
    Value merge_includes(Value including, const std::string& file);
    void report(const Value* from, const std::string& file, std::string message, bool unreadable);

    Variables& variables_;
    std::vector<SpecError>& errors_;
    std::vector<std::string> being_read_;  ///< absolute paths, outermost first
    int files_ = 0;
    std::size_t bytes_ = 0;  ///< of all files
    std::uint64_t digest_ = 0;
};

void IncludeReader::report(const Value* from, const std::string& file, std::string message,
                           bool unreadable) {
    SpecError error = from != nullptr ? error_at(from->at, "include", std::move(message))
                                      : SpecError{file, 0, 0, "", std::move(message), false};
    error.unreadable = unreadable;
    errors_.push_back(std::move(error));
}

bool IncludeReader::may_read(const std::string& absolute, const Value* from) {
    if (std::find(being_read_.begin(), being_read_.end(), absolute) != being_read_.end()) {
        report(from, absolute, absolute + " includes itself, directly or through others", false);
        return false;
    }
    if (++files_ <= kMaxFiles)
        return true;
    if (files_ == kMaxFiles + 1)
        report(from, absolute, "more than " + std::to_string(kMaxFiles) + " files in one spec",
               false);
    return false;
}

Value IncludeReader::read(const std::string& file, const Value* from,
                          const std::optional<std::string>& known) {
    std::error_code ignored;
    std::string absolute = std::filesystem::weakly_canonical(file, ignored).string();
    if (absolute.empty())
        absolute = file;
    if (!may_read(absolute, from))
        return {};
    std::string text;
    try {
        text = known ? *known : read_at_most(file, kMaxSpecBytes);
    } catch (const Error& error) {
        const std::string hint = error.hint().empty() ? "" : "; " + error.hint();
        report(from, file, error.what() + hint, true);
        return {};
    }
    bytes_ += text.size();
    if (from != nullptr && bytes_ > kMaxSpecBytes) {
        report(from, file, "with this file the spec becomes larger than 4 MiB", false);
        return {};
    }
    const std::string all = hex64(digest_) + text;
    digest_ = hash64(all.data(), all.size());
    Value root = read_yaml(text, file, errors_);
    if (!root.is_mapping()) {
        if (!root.is_null())
            errors_.push_back(
                error_at(root.at, "", "a spec is a mapping of sections; found " + describe(root)));
        return {};
    }
    being_read_.push_back(std::move(absolute));
    root = merge_includes(std::move(root), file);
    being_read_.pop_back();
    return root;
}

Value IncludeReader::merge_includes(Value including, const std::string& file) {
    const auto place = std::find_if(including.entries.begin(), including.entries.end(),
                                    [](const Entry& entry) { return entry.key == "include"; });
    if (place == including.entries.end())
        return including;
    Value names = std::move(place->value);
    including.entries.erase(place);
    interpolate(names, variables_, false, "include", errors_);
    if (names.is_null())
        return including;
    if (names.is_scalar()) {
        Value list;
        list.kind = Value::Kind::sequence;
        list.items.push_back(std::move(names));
        names = std::move(list);
    }
    Value base;
    base.kind = Value::Kind::mapping;
    if (names.is_mapping())
        errors_.push_back(error_at(names.at, "include",
                                   "expected a file name or a list of them; found a mapping"));
    for (const auto& name : names.items) {
        if (!name.is_scalar() || name.text.empty() || name.text.find('\0') != std::string::npos) {
            errors_.push_back(
                error_at(name.at, "include", "expected a file name; found " + describe(name)));
            continue;
        }
        Value included =
            read((std::filesystem::path(file).parent_path() / name.text).string(), &name);
        if (included.is_mapping())
            merge_into(base, std::move(included));
    }
    merge_into(base, std::move(including));
    return base;
}

}  // namespace

Value read_with_includes(const std::string& file, const std::optional<std::string>& text,
                         Variables& variables, std::vector<SpecError>& errors,
                         std::uint64_t& digest) {
    IncludeReader reader(variables, errors);
    Value root = reader.read(file, nullptr, text);
    digest = reader.digest();
    return root;
}

}  // namespace autolaunch::launcher
