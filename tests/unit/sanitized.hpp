#pragma once

/// What a test does less of under sanitizers, which take ten times as long and see in a part of many
/// like cases what they see at all. Every case is run without them, in the preset `ci`.
namespace autolaunch {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

/// Of trials at random: all, or a tenth.
constexpr int trials(int all) { return kSanitized ? all / 10 : all; }

/// Of a list of cases: every one, or every seventh, for 7 has no factor in common with the sizes of
/// bytes and tables.
constexpr unsigned kStride = kSanitized ? 7 : 1;

}  // namespace autolaunch
