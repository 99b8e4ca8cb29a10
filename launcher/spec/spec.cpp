#include "spec/spec.hpp"

#include "spec/include.hpp"
#include "spec/interpolate.hpp"
#include "spec/override.hpp"
#include "spec/schema.hpp"
#include "spec/section_reader.hpp"
#include "spec/sweep_words.hpp"

#include <algorithm>
#include <tuple>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMaxErrors = 1000;  // nobody reads more

/// ${…} that cannot name a variable is an error in our keys, and left alone in what is the
/// trainer's. In the site's nothing is replaced: no limit comes from a variable.
void interpolate_sections(Value& root, Variables& variables, std::vector<SpecError>& errors) {
    for (auto& entry : root.entries) {
        const Section* section = find_section(entry.key);
        if (section != nullptr && section->of_site && !contains_target(entry.value))
            continue;
        const bool foreign =
            section == nullptr || section->free_form || entry.value.find("_target_") != nullptr;
        if (foreign || !entry.value.is_mapping()) {
            interpolate(entry.value, variables, foreign, entry.key, errors);
            continue;
        }
        for (auto& inner : entry.value.entries) {
            const Key* key = section->find(inner.key);
            if (key != nullptr && key->form == Form::of_site)
                continue;
            const bool free_form =
                (key != nullptr && key->form == Form::free_form) || contains_target(inner.value);
            interpolate(inner.value, variables, free_form, entry.key + '.' + inner.key, errors);
            if (variables.keeps && key != nullptr && !free_form && key->form != Form::text)
                unquote_replaced(inner.value);
        }
    }
}

/// What the job reads: `root` as written, with overrides.
StoredSpec stored_spec(const Value& root, const SpecRequest& request,
                       std::vector<SpecError>& errors) {
    StoredSpec stored{root, {}, {}};
    Variables variables = {.environment = request.environment, .keeps = stays_in_stored_spec};
    interpolate_sections(stored.root, variables, errors);
    for (const std::string& name : variables.kept)
        (is_known_to_job_alone(name) ? stored.of_job : stored.secret).push_back(name);
    refuse_stored_secrets(stored.root, errors);
    return stored;
}

void check_module(const Value& root, std::vector<SpecError>& errors) {
    const Entry* trainer = root.find("trainer");
    if (trainer == nullptr)
        return;
    const Entry* command = trainer->value.find("command");
    const Entry* module = trainer->value.find("module");
    if (command == nullptr || module == nullptr || !command->value.is_scalar() ||
        module->value.is_null())
        return;
    errors.push_back(error_at(
        command->value.at, "trainer.command",
        "expected a list of strings, the arguments of trainer.module; found a shell line"));
}

/// Files in the order in which they first had an error, each from top to bottom; what is said twice
/// is said once.
void order(std::vector<SpecError>& errors) {
    std::map<std::string, std::size_t> file_order;
    for (const auto& error : errors)
        file_order.emplace(error.file, file_order.size());
    std::stable_sort(errors.begin(), errors.end(), [&](const SpecError& a, const SpecError& b) {
        return std::tuple(file_order[a.file], a.line, a.column) <
               std::tuple(file_order[b.file], b.line, b.column);
    });
    const auto same = [](const SpecError& a, const SpecError& b) {
        return to_string(a) == to_string(b);
    };
    errors.erase(std::unique(errors.begin(), errors.end(), same), errors.end());
    if (errors.size() <= kMaxErrors)
        return;
    const std::size_t more = errors.size() - kMaxErrors;
    errors.resize(kMaxErrors);
    errors.push_back(
        {errors.back().file, 0, 0, "", "and " + std::to_string(more) + " more errors", false});
}

}  // namespace

SpecResult with_settings(const SpecResult& read, const SweepElement& settings,
                         const JobSpec& base) {
    SpecResult result{.spec = base};
    result.spec.spec_file = read.spec.spec_file;
    result.spec.source_digest = read.spec.source_digest;
    result.root = read.root;
    result.stored = read.stored;
    for (const SweepSetting& setting : settings) {
        set_path(result.root, setting.key, setting.value, setting.key_at, result.errors);
        std::vector<SpecError> same;
        if (result.stored.root.is_mapping())
            set_path(result.stored.root, setting.key, setting.value, setting.key_at, same);
    }
    for (Value* root : {&result.root, &result.stored.root})
        std::erase_if(root->entries, [](const Entry& entry) { return entry.key == "sweep"; });
    check_module(result.root, result.errors);
    read_sections(result.root, result.spec, result.errors);
    result.sweep = read.sweep;
    result.sweep.values = settings;
    result.site = site_sections(result.root);
    if (const Entry* checkpoint = result.root.find("checkpoint"))
        result.checkpoint = checkpoint->value;
    order(result.errors);
    return result;
}

SpecResult load_spec(const SpecRequest& request) {
    SpecResult result{.spec = request.base};
    result.spec.spec_file = request.file;
    Variables variables = {.environment = request.environment,
                           .secrets = request.secrets,
                           .for_later = request.for_later};
    Value root = read_with_includes(request.file, request.text, variables, result.errors,
                                    result.spec.source_digest);
    const bool whole = root.is_mapping() || result.errors.empty();
    if (whole) {
        root.kind = Value::Kind::mapping;  // an empty file is an empty spec
        if (request.secrets == Secrets::mask)
            mark_secrets(root);
        for (const auto& text : request.overrides)
            apply_override(root, text, request.secrets, result.errors);
        if (request.for_later)
            result.stored = stored_spec(root, request, result.errors);
        interpolate_sections(root, variables, result.errors);
        if (request.secrets == Secrets::mask)
            mark_secrets(root);
        check_module(root, result.errors);
        read_sections(root, result.spec, result.errors);
        result.site = site_sections(root);
        if (const Entry* sweep = root.find("sweep"))
            read_sweep(sweep->value, result.sweep, result.errors);
        if (const Entry* checkpoint = root.find("checkpoint"))
            result.checkpoint = checkpoint->value;
        result.root = std::move(root);
    }
    order(result.errors);
    return result;
}

}  // namespace autolaunch::launcher
