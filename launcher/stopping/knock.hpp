#pragma once
#include <string>

namespace autolaunch::launcher {

/// What a machine says to who wants to connect there.
enum class Knock {
    no_answer,  ///< in a second: it is off, cut off, or says nothing to strangers
    refused,    ///< its kernel lives, and nobody listens there
    open        ///< somebody listens
};

/// `host` is a name or an address. Blocks: a second, and what the resolver takes.
Knock knock(const std::string& host, const std::string& port);

}  // namespace autolaunch::launcher
