#pragma once
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What our own words may be made of. Ranks' bytes are theirs.
enum class Charset { utf8, ascii };

/// As the locale's names say it, the first that is set: LC_ALL, LC_CTYPE, LANG. Where none is, as
/// in containers and batch jobs, UTF-8 is taken. Pure.
Charset charset_of(std::string_view lc_all, std::string_view lc_ctype, std::string_view lang);
/// Of this process.
Charset charset_of_environment();

/// Our own text in it: of what ASCII has not, our signs become words ("…" three dots, "✗" an x),
/// all else \u{NNNN}. Pure.
std::string in_charset(std::string_view text, Charset charset);

/// "…" or "...".
std::string_view ellipsis(Charset charset);

}  // namespace autolaunch::launcher
