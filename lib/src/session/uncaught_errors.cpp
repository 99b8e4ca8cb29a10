#include "session/uncaught_errors.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <typeinfo>

namespace autolaunch::session {
namespace {

std::atomic<std::terminate_handler> handler_before = nullptr;

// stdio may be in any state here, and its lock taken.
void say(std::string_view text) noexcept {
    while (!text.empty()) {
        const auto written = ::write(STDERR_FILENO, text.data(), text.size());
        if (written <= 0)
            return;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

bool is_of_the_runtime(std::terminate_handler handler) noexcept {
#ifdef __GLIBCXX__
    return handler == &__gnu_cxx::__verbose_terminate_handler;
#else
    return handler == nullptr;
#endif
}

std::string type_of(const Error& error) {
    int status = 0;
    char* name = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
    std::string type = name ? name : typeid(error).name();
    std::free(name);
    return type;
}

// In libstdc++'s words, which readers of logs know, and with the hint in the same form.
std::string last_words(const Error& error, bool whole) {
    std::string words;
    if (whole)
        words = "terminate called after throwing an instance of '" + type_of(error) +
                "'\n  what():  " + error.what() + '\n';
    words += "  hint():  ";
    const std::string& hint = error.hint();
    for (const char letter : hint)
        words += letter == '\n' ? std::string("\n           ") : std::string(1, letter);
    return words + '\n';
}

[[noreturn]] void end_with_hint() {
    const std::terminate_handler before = handler_before;
    const bool ours_alone = is_of_the_runtime(before);
    try {
        if (const std::exception_ptr thrown = std::current_exception())
            std::rethrow_exception(thrown);
    } catch (const Error& error) {
        if (!error.hint().empty()) {
            say(last_words(error, ours_alone));
            if (ours_alone)
                std::abort();
        }
    } catch (...) {  // the handler before has words for it
    }
    if (before)
        before();
    std::abort();
}

}  // namespace

void show_hints_of_uncaught_errors() noexcept {
    const std::terminate_handler current = std::get_terminate();
    if (current == &end_with_hint)
        return;
    handler_before = current;
    std::set_terminate(&end_with_hint);
}

}  // namespace autolaunch::session
