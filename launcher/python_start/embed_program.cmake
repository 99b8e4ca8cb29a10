# Writes OUTPUT, a source that holds the texts of FOLDER's PARTS, one behind the other, and of script_walk.py, byte by byte.
function(read_bytes into)
  set(bytes "")
  foreach(name IN LISTS ARGN)
    file(READ "${FOLDER}/${name}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    string(APPEND bytes "${hex}")
  endforeach()
  set(${into} "${bytes}0" PARENT_SCOPE)
endfunction()
read_bytes(program ${PARTS})
read_bytes(walk script_walk.py)
file(WRITE "${OUTPUT}" "// Made by the build from ${PARTS} and script_walk.py.
#include \"python_start/warm_program.hpp\"

namespace autolaunch::launcher {

const char kWarmProgram[] = {${program}};
const char kWalkProgram[] = {${walk}};

}  // namespace autolaunch::launcher
")
