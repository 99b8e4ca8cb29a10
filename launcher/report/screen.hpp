#pragma once
#include "report/charset.hpp"
#include "report/text_style.hpp"
#include "secrets/secrets.hpp"

#include <map>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// The way of a command's own text to the terminal, or to where stdout and stderr lead otherwise;
/// while a job runs, Console is. It quotes files, keys and variables of others, so all of it goes
/// through here: secrets are masked, what a terminal would obey is made visible, and where the
/// locale has no UTF-8 it is ASCII.
class Screen {
public:
    /// The environment must outlive it.
    explicit Screen(const std::map<std::string, std::string>& environment,
                    Secrets secrets = Secrets::mask);

    /// To stdout, for people. Throws SystemError where it cannot be written.
    void print(std::string_view text) const;
    /// To stdout, for programs: the same values, in ASCII where a terminal would obey them.
    void print_json(std::string_view text) const;
    /// To stderr. Nobody is left to be told when that cannot be written.
    void complain(std::string_view text) const;

private:
    std::string safe(std::string_view text) const;
    std::string masked(std::string_view text) const;
    std::string masked_json(std::string_view text) const;

    const std::map<std::string, std::string>& environment_;
    Secrets secrets_;
    Charset charset_ = Charset::utf8;
};

/// Colours where stdout is a terminal that shows them, unless NO_COLOR is set.
TextStyle style_of_stdout();

}  // namespace autolaunch::launcher
