# Writes OUTPUT, a source that holds the bytes of PROGRAM.
file(READ "${PROGRAM}" hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR count "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes
  "${bytes}")
file(WRITE "${OUTPUT}" "// Made by the build from guardian_main.cpp.
#include \"spawn/guardian_image.hpp\"

namespace autolaunch::launcher {

const unsigned char kGuardianImage[] = {${bytes}};
const std::size_t kGuardianImageBytes = ${count};

}  // namespace autolaunch::launcher
")
