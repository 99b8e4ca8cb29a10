#pragma once
#include <autolaunch/comm/communicator.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace autolaunch {

/// Runs `action` on every rank and throws on every rank when it threw on any: the exception of the
/// lowest rank that failed, and there the very object. Collective. The action must not call
/// collectives, so that no rank waits for one that failed.
void together(Communicator& world, const std::function<void()>& action);

/// Throws Error{mismatch} with this text on every rank when the ranks' values differ. Collective.
void require_equal(Communicator& world, std::uint64_t value, const std::string& what);

/// root's text, on every rank. Collective.
std::string broadcast_text(Communicator& world, std::string text, int root);

/// Every rank's text, in rank order, on every rank. Collective.
std::vector<std::string> gather_texts(Communicator& world, const std::string& text);

}  // namespace autolaunch
