#pragma once
#include <autolaunch/export.hpp>

#include <string>

namespace autolaunch {

/// A library that is loaded only when it is needed, and then for good: what it registered to run at
/// exit must stay. Throws Error{unsupported} with the loader's own words. Blocks: while the library
/// is read.
class AUTOLAUNCH_API SharedLibrary {
public:
    /// What an error begins with ("S3 needs libcurl"), and its hint.
    struct Need {
        std::string what;
        std::string hint;
    };

    explicit SharedLibrary(const std::string& soname, Need need = {});

    template <class Function>
    void find(Function*& function, const char* name) const {
        function = reinterpret_cast<Function*>(address_of(name));
    }

private:
    void* address_of(const char* name) const;
    [[noreturn]] void fail(const std::string& why) const;

    std::string soname_;
    Need need_;
    void* handle_ = nullptr;
};

}  // namespace autolaunch

/// A struct of pointers to a library's functions, by their own names; made from a SharedLibrary.
/// LIST(X) is X(name) of each, and their declarations are known:
///     #define LIBM(X) X(cos) X(sin)
///     AUTOLAUNCH_FUNCTION_TABLE(MathLibrary, LIBM)
///     const MathLibrary math(SharedLibrary("libm.so.6"));
// clang-format off
#define AUTOLAUNCH_FUNCTION_TABLE(Table, LIST)                                                 \
    struct Table {                                                                             \
        explicit Table(const autolaunch::SharedLibrary& from) { LIST(AUTOLAUNCH_TABLE_FIND_) } \
        LIST(AUTOLAUNCH_TABLE_MEMBER_)                                                         \
    };
// clang-format on
#define AUTOLAUNCH_TABLE_FIND_(name) from.find(name, #name);
#define AUTOLAUNCH_TABLE_MEMBER_(name) decltype(&::name) name;
