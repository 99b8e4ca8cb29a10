# Writes OUTPUT, a source that holds the bytes of PROGRAM; of none where it is not given.
set(bytes "0")
set(count 0)
if(DEFINED PROGRAM)
  file(READ "${PROGRAM}" hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR count "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes
    "${bytes}")
endif()
file(WRITE "${OUTPUT}" "// Made by the build from guardian_main.cpp.
#include \"spawn/guardian_image.hpp\"

namespace autolaunch::launcher {

alignas(16) const unsigned char kGuardianImage[] = {${bytes}};
const std::size_t kGuardianImageBytes = ${count};

}  // namespace autolaunch::launcher
")
