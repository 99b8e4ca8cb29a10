#pragma once
#include <autolaunch/cxx20.hpp>

/// After a member that returns a pointer, a reference or a view into its object: the overload for
/// temporaries, of which nothing would be left to look at:
///     float* w = unit.unshard()["w"].data();   // refused: resharded at the semicolon
///     auto params = unit.unshard();            // this one stays
///     float* w = params["w"].data();
#if defined(__cpp_deleted_function) && __cpp_deleted_function >= 202403L
#define AUTOLAUNCH_NOT_FROM_A_TEMPORARY \
    = delete ("the object ends with this expression: give it a name first, auto x = ...;")
#else
#define AUTOLAUNCH_NOT_FROM_A_TEMPORARY = delete
#endif
