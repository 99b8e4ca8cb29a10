"""Wrappers, limits and programs of other languages that fail, run for real: scripts in sh, of which rank FAULT_RANK runs its part.

name: (cause, programs that it needs, script). In it $F is the compiled program of faults.cpp, and $D a folder of its own."""

TCPP = "g++ -w -O0 -o $D/a"
WILD = {
    # Wrappers, which hide a signal or say it in words of their own.
    "make_segv": ("crash", "make", "printf 'all:\\n\\t%s segv\\n' $F >$D/m; make -f $D/m"),
    "make_kill": ("killed", "make", "printf 'all:\\n\\t%s sigkill\\n' $F >$D/m; make -f $D/m"),
    "xargs_segv": ("crash", "xargs", "echo segv | xargs $F"),
    "xargs_kill": ("killed", "xargs", "echo sigkill | xargs $F"),
    "gnu_time_segv": ("crash", "/usr/bin/time", "/usr/bin/time $F segv"),
    "unshare_segv": ("crash", "unshare", "unshare --fork $F segv"),
    "script_segv": ("crash", "script", "script -qec \"$F segv\" /dev/null"),
    "timeout_segv": ("crash", "timeout", "timeout 100 $F segv"),
    "flock_segv": ("crash", "flock", "flock $D/l $F segv"),
    "su_abort": ("crash", "su", "su -s /bin/sh root -c \"$F abort\""),
    "perl_system_kill": ("killed", "perl", "perl -e 'system(@ARGV); die \"killed by signal \", $? & 127, \"\\n\" if $?' $F sigkill"),
    "node_child_segv": ("crash", "node", "node -e 'require(\"child_process\").execFileSync(process.argv[1], [\"segv\"])' $F"),
    "python_returncode": ("crash", "python3", "python3 -c 'import subprocess, sys; p = subprocess.run(sys.argv[1:]); "
                          "print(\"solver ended with\", p.returncode, file=sys.stderr); sys.exit(p.returncode)' $F segv"),
    "python_os_system": ("crash", "python3", "python3 -c 'import os, sys; sys.exit(os.waitstatus_to_exitcode(os.system(sys.argv[1] + \" segv\")))' $F"),
    "code_of_its_own": ("crash", "bash", "bash -c '\"$0\" segv; exit 3' $F"),
    "error_trap": ("crash", "bash", "bash -c 'trap \"echo training failed >&2; exit 9\" ERR; \"$0\" segv; true' $F"),
    "nohup_segv": ("crash", "nohup", "nohup $F segv"),
    "taskset_abort": ("crash", "taskset", "taskset -c 0 $F abort"),
    "python_raises_for_child": ("program_error", "python3", "python3 -c 'import subprocess, sys\nif subprocess.run(sys.argv[1:]).returncode: "
                                "raise RuntimeError(\"the solver failed\")' $F exit3"),
    "python_exitcode": ("program_error", "python3", "python3 -c 'import multiprocessing, sys\np = multiprocessing.Process(target=sys.exit, args=(3,))\n"
                        "p.start(); p.join(); assert p.exitcode == 0, p.exitcode'"),
    # Exit codes.
    "exit_150": ("program_error", "", "echo 'solver: no convergence' >&2; exit 150"),
    "exit_200": ("program_error", "", "exit 200"),
    "exit_145": ("program_error", "", "exit 145"),
    "quick_exit": ("program_error", "g++", "echo '#include <cstdlib>\nint main(){std::quick_exit(5);}' >$D/a.cpp; " + TCPP + " $D/a.cpp; $D/a"),
    "exit_in_thread": ("program_error", "g++", "echo '#include <thread>\n#include <unistd.h>\nint main(){std::thread([]{_exit(7);}).join();}' >$D/a.cpp; "
                       + TCPP + " $D/a.cpp -pthread; $D/a"),
    # Signals from inside.
    "alarm": ("killed", "perl", "perl -e 'alarm 1; sleep 100'"),
    "profiling_timer": ("killed", "python3", "python3 -c 'import signal\nsignal.setitimer(signal.ITIMER_PROF, 0.1)\nwhile True: pass'"),
    "cpu_limit_hard": ("killed", "bash", "bash -c 'ulimit -Ht 1; ulimit -St 1; while :; do :; done'"),
    "file_size_shell": ("storage", "bash", "bash -c 'ulimit -f 8; exec head -c 100000 /dev/zero >'$D/x"),
    "seccomp_filter": ("crash", "g++", """cat >$D/a.cpp <<'X'
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>
int main() {
    sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_TRAP}};
    sock_fprog filter = {1, all};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    getpid();
}
X
""" + TCPP + " $D/a.cpp; $D/a"),
    "real_time_signal": ("killed", "bash", "exec bash -c 'kill -34 $$'"),
    "quit": ("killed", "", "kill -QUIT $$"),
    "trap_instruction": ("crash", "g++", "echo 'int main(){ __asm__(\"int3\"); }' >$D/a.cpp; " + TCPP + " $D/a.cpp; $D/a"),
    "small_stack": ("crash", "bash g++", "echo '#include <cstring>\nint main(){ char a[1 << 20]; memset(a, 1, sizeof a); return a[5]; }' >$D/a.cpp; "
                    + TCPP + " $D/a.cpp; bash -c 'ulimit -s 256; exec '$D/a"),
    "library_assertion": ("crash", "g++", "echo '#include <vector>\nint main(int n, char**){ std::vector<int> v(1); return v[n + 5]; }' >$D/a.cpp; "
                          + TCPP + " -D_GLIBCXX_ASSERTIONS $D/a.cpp; $D/a"),
    "length_error": ("program_error", "g++", "echo '#include <vector>\nint main(int n, char**){ std::vector<int> v(-n); }' >$D/a.cpp; " + TCPP + " $D/a.cpp; $D/a"),
    "throw_in_static": ("program_error", "g++", "echo '#include <stdexcept>\nint f() { throw std::out_of_range(\"no shard 7\"); }\nint x = f(); int main(){}' >$D/a.cpp; "
                        + TCPP + " $D/a.cpp; $D/a"),
    "throw_of_its_own_type": ("program_error", "g++", "echo 'namespace { struct Bad {}; }\nint main(){ throw Bad(); }' >$D/a.cpp; " + TCPP + " $D/a.cpp; $D/a"),
    "message_of_lines": ("program_error", "g++", """cat >$D/a.cpp <<'X'
#include <stdexcept>
int main() { throw std::runtime_error("bad shard:\\nno header\\nno end"); }
X
""" + TCPP + " $D/a.cpp; $D/a"),
    # Memory.
    "address_space_python": ("out_of_memory", "bash python3", "bash -c 'ulimit -v 200000; exec python3 -c \"x = bytearray(1 << 30)\"'"),
    "address_space_bash": ("out_of_memory", "bash", "bash -c 'ulimit -v 100000; x=$(head -c 200000000 /dev/zero | tr \"\\0\" x)'"),
    "address_space_perl": ("out_of_memory", "bash perl", "bash -c 'ulimit -v 100000; exec perl -e \"\\$x = q(x) x (1 << 30)\"'"),
    "address_space_node": ("out_of_memory", "node", "node --max-old-space-size=20 -e 'a = []; for (;;) a.push(new Array(1000).fill(1.5))'"),
    "address_space_java": ("out_of_memory", "bash java", "bash -c 'ulimit -v 300000; exec java -version'"),
    "address_space_fortran": ("out_of_memory", "gfortran bash", "printf 'real(8), allocatable :: a(:)\\nallocate(a(100000000000000_8))\\na = 1\\nend\\n' >$D/a.f90; "
                              "gfortran -o $D/a $D/a.f90; $D/a"),
    "sanitizer_heap": ("crash", "g++", "echo 'int main(int n, char**){int* a = new int[2]; delete[] a; return a[n];}' >$D/a.cpp; "
                       + TCPP + " -fsanitize=address $D/a.cpp; $D/a"),
    "sanitizer_undefined": ("program_error", "g++", "echo 'int main(int n, char**){int a = 2147483647; return a + n;}' >$D/a.cpp; "
                            + TCPP + " -fsanitize=undefined -fno-sanitize-recover=all $D/a.cpp; $D/a"),
    "sanitizer_leak": ("program_error", "g++", "echo 'int main(){ for (int i = 0; i < 9; ++i) new int[9]; }' >$D/a.cpp; "
                       + TCPP + " -fsanitize=address $D/a.cpp; $D/a"),
    "java_threads": ("program_error", "java javac", "echo 'class A { public static void main(String[] a) { throw new OutOfMemoryError(\"unable to create native thread\"); } }' "
                     ">$D/A.java; java $D/A.java"),
    # Starts.
    "python_directory": ("cannot_start", "python3", "python3 /tmp"),
    "python_null_bytes": ("program_error", "python3", "printf 'x = 1\\0\\n' >$D/t.py; python3 $D/t.py"),
    "python_bad_pyc": ("cannot_start", "python3", "echo no >$D/t.pyc; python3 $D/t.pyc"),
    "shell_no_script": ("cannot_start", "", "sh $D/none.sh"),
    "bash_directory": ("cannot_start", "bash", "bash /tmp"),
    "timeout_nothing": ("cannot_start", "timeout", "timeout 5 no_such_solver"),
    "taskset_no_cpu": ("program_error", "taskset", "taskset -c 900 true"),
    "exec_directory": ("cannot_start", "", "exec /tmp"),
    "sourced_missing": ("cannot_start", "bash", "bash -c 'module load cuda; exec no_solver'"),
    "activate_missing": ("program_error", "", ". /opt/none/bin/activate; exit 1"),
    "set_e_copy": ("program_error", "", "set -e; cp /data/none $D/; exec sleep 1"),
    "cannot_cd": ("program_error", "", "cd /scratch/none || exit 1"),
    "argument_list": ("cannot_start", "bash", "bash -c 'x=$(head -c 3000000 /dev/zero | tr \"\\0\" x); exec env $x'"),
    "usage_error": ("program_error", "python3", "python3 -c 'import argparse\np = argparse.ArgumentParser(); p.add_argument(\"--lr\"); p.parse_args()' --lrr 3"),
    "jar_missing": ("cannot_start", "java", "java -jar /none.jar"),
    "python_indent": ("program_error", "python3", "printf 'def f():\\nreturn 1\\n' >$D/t.py; python3 $D/t.py"),
    "python_circular": ("program_error", "python3", "printf 'import b_\\nx = 1\\n' >$D/a_.py; printf 'from a_ import x\\n' >$D/b_.py; "
                        "cd $D && python3 -c 'import a_'"),
    # Languages.
    "perl_die": ("program_error", "perl", "perl -e 'die \"no data in /data\\n\"'"),
    "perl_no_module": ("program_error", "perl", "perl -e 'use No::Such::Module;'"),
    "tcl": ("program_error", "tclsh", "echo 'error \"bad shard\"' >$D/t.tcl; tclsh $D/t.tcl"),
    "tcl_missing": ("cannot_start", "tclsh", "tclsh /none.tcl"),
    "node_rejection": ("program_error", "node", "node -e 'Promise.reject(new Error(\"bad shard\"))'"),
    "node_missing": ("cannot_start", "node", "node /none.js"),
    "node_full": ("storage", "node", "node -e 'require(\"fs\").writeFileSync(\"/dev/full\", \"x\")'"),
    "java_exception": ("program_error", "java javac", "echo 'class A { public static void main(String[] a) { throw new IllegalStateException(\"bad shard\"); } }' >$D/A.java; java $D/A.java"),
    "java_stack": ("program_error", "java javac", "echo 'class A { static int f(int n) { return f(n + 1) + 1; } public static void main(String[] a) { f(0); } }' >$D/A.java; java $D/A.java"),
    "java_memory": ("out_of_memory", "java javac", "echo 'class A { public static void main(String[] a) { long[][] x = new long[1000][]; for (int i = 0; i < 1000; ++i) x[i] = new long[1000000]; } }' >$D/A.java; java -Xmx64m $D/A.java"),
    "fortran_stop": ("program_error", "gfortran", "printf 'stop 3\\nend\\n' >$D/a.f90; gfortran -o $D/a $D/a.f90; $D/a"),
    "fortran_bounds": ("program_error", "gfortran", "printf 'integer :: a(10), i\\ndo i = 1, 11\\na(i) = i\\nend do\\nprint *, a\\nend\\n' >$D/a.f90; "
                       "gfortran -fcheck=bounds -w -o $D/a $D/a.f90; $D/a"),
    "fortran_no_file": ("program_error", "gfortran", "printf 'open(unit=9, file=\"/data/none\", status=\"old\")\\nend\\n' >$D/a.f90; gfortran -o $D/a $D/a.f90; $D/a"),
    "node_abort": ("crash", "node", "exec node -e 'process.abort()'"),
    "node_exit": ("program_error", "node", "node -e 'process.exit(9)'"),
    "perl_full": ("storage", "perl", "perl -e '$| = 1; open(F, \">/dev/full\"); print F \"x\" x 99999 or die \"cannot write: $!\\n\"'"),
    "java_full": ("storage", "java javac", "echo 'class A { public static void main(String[] a) throws Exception { try (var f = new java.io.FileOutputStream(\"/dev/full\")) "
                  "{ f.write(1); } } }' >$D/A.java; java $D/A.java"),
    "java_host": ("network", "java javac", "echo 'class A { public static void main(String[] a) throws Exception { new java.net.Socket(\"data.invalid\", 80); } }' "
                  ">$D/A.java; java $D/A.java"),
    # Tools that fetch and unpack.
    "curl_name": ("network", "curl", "set -e; curl -sS http://data.invalid/x"),
    "curl_refused": ("network", "curl", "set -e; curl -sS http://127.0.0.1:1/x"),
    "wget_name": ("network", "wget", "set -e; wget -t1 -O- http://data.invalid/x"),
    "git_name": ("network", "git", "git clone http://data.invalid/x $D/x"),
    "dd_full": ("storage", "dd", "dd if=/dev/zero of=/dev/full count=1"),
    "tar_broken": ("storage", "tar gzip", "echo no >$D/x.tgz; tar xzf $D/x.tgz"),
    "tar_cut": ("storage", "tar gzip", "seq 99999 >$D/y; tar czf $D/x.tgz -C $D y; truncate -s 20000 $D/x.tgz; tar xzf $D/x.tgz -C $D"),
    "unzip_broken": ("storage", "unzip", "echo no >$D/x.zip; unzip $D/x.zip"),
    "xz_broken": ("storage", "xz", "echo no >$D/x.xz; xz -d $D/x.xz"),
    "checksum": ("storage", "sha256sum", "echo a >$D/x; sha256sum $D/x >$D/s; echo b >$D/x; sha256sum -c $D/s"),
    # Damaged files, by Python's own library.
    "zlib": ("storage", "python3", "python3 -c 'import zlib; zlib.decompress(b\"not compressed\")'"),
    "gzip": ("storage", "python3", "echo no >$D/x.gz; python3 -c 'import gzip, sys; gzip.open(sys.argv[1]).read()' $D/x.gz"),
    "gzip_crc": ("storage", "python3 gzip", "seq 99999 | gzip >$D/x.gz; printf 'xxxx' | dd of=$D/x.gz bs=1 seek=5000 conv=notrunc 2>/dev/null; "
                 "python3 -c 'import gzip, sys; gzip.open(sys.argv[1]).read()' $D/x.gz"),
    "lzma": ("storage", "python3", "echo no >$D/x.xz; python3 -c 'import lzma, sys; lzma.open(sys.argv[1]).read()' $D/x.xz"),
    "tar": ("storage", "python3", "head -c 2000 /dev/urandom >$D/x.tar; python3 -c 'import tarfile, sys; tarfile.open(sys.argv[1])' $D/x.tar"),
    "sqlite": ("storage", "python3", "seq 9999 >$D/x.db; python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute(\"select * from t\")' $D/x.db"),
    "pickle_wrong": ("storage", "python3", "echo no >$D/x.pkl; python3 -c 'import pickle, sys; pickle.load(open(sys.argv[1], \"rb\"))' $D/x.pkl"),
    "numpy_cut": ("storage", "numpy", "/usr/bin/python3 -c 'import numpy, sys, os\nnumpy.save(sys.argv[1], numpy.zeros(999))\nos.truncate(sys.argv[1], 500)\nnumpy.load(sys.argv[1])' $D/x.npy"),
    # What libraries of threads say.
    "openmp_threads": ("program_error", "g++ bash", "echo '#include <unistd.h>\nint main(){\n#pragma omp parallel num_threads(200)\nusleep(1);}' >$D/a.cpp; "
                       + TCPP + " -fopenmp $D/a.cpp; bash -c 'ulimit -v 900000; exec '$D/a"),
}
