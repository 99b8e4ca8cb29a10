#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// What autolaunch prints and records goes through here: plans, messages, events, findings. What it
// cannot know is left as it is, so a mask is no licence to publish a run directory. What ranks
// print themselves is shown as they print it, and the trainer's configuration is written as it is:
// both are the job's own.

/// Stands for a secret that is set; one that is set to nothing stays empty.
inline constexpr std::string_view kMasked = "***";

/// Whether to show what is otherwise masked: --show-secrets, on a terminal, never in a file.
enum class Secrets { mask, show };

/// Whether a variable, option or key of this name holds a secret: HF_TOKEN, --api-key,
/// trainer.env.DB_PASSWORD. Not SECRET_FILE, which names a place, nor PAD_TOKEN, MAX_TOKENS or
/// SORT_KEY, which trainers have. A name with dots is judged by what follows the last one.
bool names_secret(std::string_view name);

/// What variables with such names hold, where it is long and odd enough to be told from other text.
std::vector<std::string> secret_values(const std::map<std::string, std::string>& environment);

/// `text` without the values of `known`; tokens with well-known shapes (hf_…, ghp_…, AKIA…, JWT,
/// private keys in PEM and age's form, …); passwords in URLs; and what follows `NAME=` of a secret
/// name.
std::string mask_secrets(std::string_view text, std::span<const std::string> known = {});

/// A program's arguments: `--token VALUE` too, also within a shell line.
std::vector<std::string> mask_arguments(const std::vector<std::string>& arguments,
                                        std::span<const std::string> known = {});

/// The same in place. Most texts have nothing to mask, and are not copied.
void mask_text(std::string& text, std::span<const std::string> known = {});

/// In place, and the values of `known` alone: for texts that are not ours, which stay as they are
/// otherwise.
void hide_values(std::string& text, std::span<const std::string> known);

/// Every text in a tree of JSON (nlohmann's).
template <class Json>
void mask_texts(Json& value, std::span<const std::string> known = {}) {
    if (value.is_string())
        mask_text(value.template get_ref<std::string&>(), known);
    else if (value.is_structured())
        for (auto& inner : value)
            mask_texts(inner, known);
}

}  // namespace autolaunch::launcher
