#include "spec/section_reader.hpp"

#include "base/text.hpp"
#include "spec/checkpoint_words.hpp"
#include "spec/container_words.hpp"
#include "spec/field_reader.hpp"
#include "spec/path_words.hpp"
#include "spec/pipeline_words.hpp"
#include "spec/scalar.hpp"
#include "spec/schema.hpp"
#include "spec/secret_words.hpp"
#include "spec/stage_out_words.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

std::string path_of(std::string_view section, std::string_view key) {
    return std::string(section) + '.' + std::string(key);
}

/// "; did you mean "max_restarts"? (expects a whole number >= 0)", or all keys when none is near.
std::string unknown_key_advice(const Section& section, const std::string& key) {
    const auto names = section.key_names();
    const std::string near = nearest(key, names);
    if (near.empty())
        return "; " + std::string(section.name) + " has " + join(names, ", ");
    return "; did you mean \"" + near + "\"? (expects " + expectation(*section.find(near)) + ")";
}

void read_section(const Section& section, const Value& value, JobSpec& spec,
                  std::vector<SpecError>& errors) {
    if (section.of_pipeline)
        return read_pipeline(value, spec.pipeline, errors);
    if (section.of_secrets)
        return read_secrets(value, spec.given_secrets, errors);
    if (section.free_form || section.of_site || section.of_sweep || value.is_null())
        return;
    if (!value.is_mapping()) {
        errors.push_back(error_at(value.at, std::string(section.name),
                                  "expected a mapping with " + join(section.key_names(), ", ") +
                                      "; found " + describe(value)));
        return;
    }
    const bool foreign = value.find("_target_") != nullptr;
    for (const auto& entry : value.entries) {
        const Key* key = section.find(entry.key);
        const std::string path = path_of(section.name, entry.key);
        const bool has_target = contains_target(entry.value);
        if (key != nullptr && key->form == Form::of_site)
            continue;
        if (key != nullptr && !has_target)
            read_field(*key, path, entry.value, spec, errors);
        else if (key == nullptr && !foreign && !has_target)
            errors.push_back(error_at(entry.key_at, path,
                                      "unknown key" + unknown_key_advice(section, entry.key)));
    }
}

/// What the keys of model_size say together.
void check_model_size(const Value& root, const ModelSizeSpec& size,
                      std::vector<SpecError>& errors) {
    const Entry* section = root.find("model_size");
    if (section == nullptr || !section->value.is_mapping() || section->value.entries.empty())
        return;
    const Entry* parameters = section->value.find("parameters");
    if (parameters == nullptr || parameters->value.is_null()) {
        errors.push_back(error_at(section->key_at, "model_size",
                                  "needs parameters, the number of them in the whole model"));
        return;
    }
    if (!size.parameters || !size.hidden || !size.vocabulary)
        return;
    const std::int64_t embedding = *size.hidden * *size.vocabulary;
    if (embedding > *size.parameters)
        errors.push_back(error_at(
            parameters->value.at, "model_size.parameters",
            "is less than vocabulary x hidden, the embedding's " + std::to_string(embedding)));
}

void report_unknown_section(const Entry& entry, std::vector<SpecError>& errors) {
    const auto to_come = sections_to_come();
    if (std::find(to_come.begin(), to_come.end(), entry.key) != to_come.end()) {
        errors.push_back(
            error_at(entry.key_at, entry.key,
                     "this section is not yet supported; remove it to run with this version"));
        return;
    }
    const std::string near = nearest(entry.key, section_names());
    errors.push_back(error_at(entry.key_at, entry.key,
                              "unknown section" +
                                  (near.empty() ? "; there are " + join(section_names(), ", ")
                                                : "; did you mean \"" + near + "\"?") +
                                  " (the trainer's own settings belong in trainer.config, or in a "
                                  "section with a _target_)"));
}

/// Whether ${VAR} in quotes is what the key expects nevertheless: within { } there is no other way.
bool is_typed_form(Form form) {
    return form == Form::boolean || form == Form::whole_number || form == Form::number;
}

/// The trainer gets of our keys what we read ourselves, with its type.
nlohmann::ordered_json entry_to_json(const Section* section, const Entry& entry,
                                     const std::string& path, std::vector<SpecError>& errors) {
    const Key* key = section == nullptr ? nullptr : section->find(entry.key);
    if (key == nullptr || !entry.value.is_scalar())
        return to_json(entry.value, path, errors);
    Value value = entry.value;
    value.plain = value.plain || (value.interpolated && is_typed_form(key->form));
    return to_json(value, path, errors, key->form == Form::text ? Typing::text_key : Typing::free);
}

/// Whether the trainer gets this entry of one of our sections.
bool reaches_trainer(const Section& section, const Value& value, const Entry& entry) {
    const Key* key = section.find(entry.key);
    if (key != nullptr && key->form == Form::free_form)
        return true;
    return section.for_trainer || value.find("_target_") != nullptr || contains_target(entry.value);
}

std::string trainer_config(const Value& root, std::vector<SpecError>& errors) {
    auto config = nlohmann::ordered_json::object();
    for (const auto& entry : root.entries) {
        const Section* section = find_section(entry.key);
        const bool whole = section == nullptr ? contains_target(entry.value) : section->free_form;
        if (whole) {
            config[entry.key] = to_json(entry.value, entry.key, errors);
        } else if (section != nullptr && !section->of_sweep && entry.value.is_mapping()) {
            auto part = nlohmann::ordered_json::object();
            for (const auto& inner : entry.value.entries) {
                if (reaches_trainer(*section, entry.value, inner))
                    part[inner.key] =
                        entry_to_json(section, inner, path_of(section->name, inner.key), errors);
            }
            if (!part.empty())
                config[entry.key] = std::move(part);
        }
    }
    return config.dump();
}

/// The keys of one of our sections that are the site's.
Value keys_of_site(const Section& section, const Value& value) {
    Value part = value;
    std::erase_if(part.entries, [&](const Entry& entry) {
        const Key* key = section.find(entry.key);
        return key == nullptr || key->form != Form::of_site || contains_target(entry.value);
    });
    return part;
}

}  // namespace

Value site_sections(const Value& root) {
    Value sections;
    sections.kind = Value::Kind::mapping;
    sections.at = root.at;
    for (const Entry& entry : root.entries) {
        const Section* section = find_section(entry.key);
        if (section == nullptr || contains_target(entry.value))
            continue;
        Entry kept = entry;
        if (!section->of_site)
            kept.value = keys_of_site(*section, entry.value);
        if (section->of_site || !kept.value.entries.empty())
            sections.entries.push_back(std::move(kept));
    }
    return sections;
}

void read_sections(const Value& root, JobSpec& spec, std::vector<SpecError>& errors) {
    if (!root.is_mapping())
        return;
    for (const auto& entry : root.entries) {
        if (const Section* section = find_section(entry.key))
            read_section(*section, entry.value, spec, errors);
        else if (!contains_target(entry.value))
            report_unknown_section(entry, errors);
    }
    check_secret_names(root, spec.given_secrets, errors);
    check_identity_secret(root, spec.given_secrets, errors);
    check_model_size(root, spec.model_size, errors);
    check_container(root, spec.container, errors);
    check_checkpoint(root, spec.checkpoint, errors);
    check_storage(root, spec.storage, errors);
    check_paths(root, errors);
    spec.trainer_config = trainer_config(root, errors);
}

}  // namespace autolaunch::launcher
