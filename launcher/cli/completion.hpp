#pragma once
#include <string>

namespace autolaunch::launcher {

/// What a shell reads to complete autolaunch's options: "bash", "zsh" or "tcsh". Pure.
std::string completion_script(const std::string& shell);

}  // namespace autolaunch::launcher
