"""What runtimes and libraries print when they fail, as recorded from them, and how the program then ends: by name.

Rank FAULT_RANK prints and ends; the others wait. A cause `follower` is of the words that a rank has for a peer that is gone:
all ranks but FAULT_RANK say them and end, while FAULT_RANK, whose own error is the first, is not done with ending."""
import os
import signal
import sys
import threading
import time

ABORT, SEGV = -signal.SIGABRT, -signal.SIGSEGV
# name: (cause, exit code or signal, text)
WORDS = {
    "rust_panic": ("program_error", 101, """thread 'main' (20919) panicked at a.rs:2:259:
called `Result::unwrap()` on an `Err` value: "shard 7 is gone"
stack backtrace:
   0: __rustc::rust_begin_unwind
   1: core::result::unwrap_failed
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace."""),
    "rust_memory": ("out_of_memory", ABORT, "memory allocation of 1125899906842624 bytes failed"),
    "rust_stack": ("crash", ABORT, """
thread 'main' has overflowed its stack
fatal runtime error: stack overflow, aborting"""),
    "java_heap": ("out_of_memory", 1, """Exception in thread "main" java.lang.OutOfMemoryError: Java heap space
	at A.main(A.java:1)"""),
    "java_null": ("program_error", 1, """Exception in thread "main" java.lang.NullPointerException: "<local1>" is null
	at A.main(A.java:1)"""),
    "java_no_class": ("cannot_start", 1, """Error: Could not find or load main class NoClass
Caused by: java.lang.ClassNotFoundException: NoClass"""),
    "node_heap": ("out_of_memory", ABORT, """
<--- JS stacktrace --->

FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
----- Native stack trace -----

 1: 0xb78db3 node::OOMErrorHandler(char const*, v8::OOMDetails const&) [node]"""),
    "node_type": ("program_error", 1, """[eval]:1
null.x
     ^

TypeError: Cannot read properties of null (reading 'x')
    at [eval]:1:6

Node.js v20.20.2"""),
    "go_memory": ("out_of_memory", 2, """fatal error: runtime: out of memory

runtime stack:
runtime.throw({0x48f2d8?, 0x400000?})"""),
    "perl_no_script": ("cannot_start", 2, """Can't open perl script "no.pl": No such file or directory"""),
    "python_home": ("cannot_start", 1, """Python path configuration:
  PYTHONHOME = '/none'
Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding
Python runtime state: core initialized
ModuleNotFoundError: No module named 'encodings'

Current thread 0x00007f04cc56f2c0 (most recent call first):
  <no Python frame>"""),
    "apptainer_image": ("cannot_start", 255, "FATAL:   could not open image /x.sif: failed to retrieve path for /x.sif: "
                        "lstat /x.sif: no such file or directory"),
    "gfortran_eof": ("program_error", 2, """At line 7 of file a.f90 (unit = 7, file = '/dev/null')
Fortran runtime error: End of file

Error termination. Backtrace:
#0  0x7f08218218c2 in ???"""),
    "gfortran_memory": ("out_of_memory", 1, """In file 'a.f90', around line 12: Error allocating 4000000000000000 bytes: Cannot allocate memory

Error termination. Backtrace:"""),
    "gfortran_segv": ("crash", SEGV, """
Program received signal SIGSEGV: Segmentation fault - invalid memory reference.

Backtrace for this error:
#0  0x7f5bd30218c2 in ???"""),
    "ifort_segv": ("crash", 174, """forrtl: severe (174): SIGSEGV, segmentation fault occurred
Image              PC                Routine            Line        Source
a.out              000000000040B4C4  Unknown               Unknown  Unknown"""),
    "ifort_memory": ("out_of_memory", 41, "forrtl: severe (41): insufficient virtual memory"),
    "mpich_abort": ("mpi_abort", 3, "application called MPI_Abort(MPI_COMM_WORLD, 3) - process 1"),
    "openmpi_abort": ("mpi_abort", 3, """--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
with errorcode 3.
--------------------------------------------------------------------------"""),
    "torch_cpu_memory": ("out_of_memory", 1, "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: "
                         "not enough memory: you tried to allocate 4398046511104 bytes."),
    "tensorflow_memory": ("out_of_memory", 1, "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when "
                          "allocating tensor with shape[1024,1024,1024] and type float on /job:localhost/device:GPU:0"),
    "numpy_memory": ("out_of_memory", 1, "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array"),
    "cuda_busy": ("gpu", 1, "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
    "no_driver": ("gpu", 1, "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"),
    "nvml_mismatch": ("gpu", 1, "Failed to initialize NVML: Driver/library version mismatch"),
    "nccl_stuck": ("collective_timeout", ABORT, "[rank1]:[F ProcessGroupNCCL.cpp:1250] [PG 0 Rank 1] [PG 0 Rank 1] "
                   "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."),
    "loader_segv": ("crash", 1, """Traceback (most recent call last):
  File "train.py", line 20, in <module>
    for batch in loader:
RuntimeError: DataLoader worker (pid 4711) is killed by signal: Segmentation fault. """),
    "spawn_killed": ("killed", 1, """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    mp.spawn(work)
torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL"""),
    "child_segv": ("crash", 1, """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    subprocess.run(["./solver"], check=True)
subprocess.CalledProcessError: Command '['./solver']' died with <Signals.SIGSEGV: 11>."""),
    "hdf5_lock": ("storage", 1, "BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = 11, "
                  "error message = 'Resource temporarily unavailable')"),
    "pickle_cut": ("storage", 1, "_pickle.UnpicklingError: pickle data was truncated"),
    "pickle_empty": ("storage", 1, "EOFError: Ran out of input"),
    "parquet": ("storage", 1, "pyarrow.lib.ArrowInvalid: Could not open Parquet input source '<Buffer>': Parquet magic bytes not "
                "found in footer. Either the file is corrupted or this is not a parquet file."),
    "sqlite_full": ("storage", 1, "sqlite3.OperationalError: database or disk is full"),
    "fuse_gone": ("storage", 1, "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/data/shard-1'"),
    "german_full": ("storage", 1, "cp: Fehler beim Schreiben von '/scratch/x': Auf dem Gerät ist kein Speicherplatz mehr verfügbar"),
    "chinese_full": ("storage", 1, "cp: 写入 '/scratch/x' 时出错: 设备上没有空间"),
    "http_timeout": ("network", 1, "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='data.example', port=443): "
                     "Read timed out. (read timeout=10)"),
    "hub": ("network", 1, "OSError: We couldn't connect to 'https://hub.example' to load this file, couldn't find it in the cached files"),
    "nccl_remote": ("follower", 1, """torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, internal error
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
Last error:
socketProgressOpt: Call to recv from 10.0.0.2<53124> failed : Connection reset by peer"""),
    "nccl_system": ("follower", 1, """torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275, unhandled system error
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
socketPollConnect: connect returned Connection refused, exceeded error retry count (35)"""),
    "nccl_ib_peer": ("follower", 1, """[1] transport/net_ib.cc:1293 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<41> with status=12 opcode=0 len=0 vendor err 129
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."""),
    "gloo_closed": ("follower", 1, "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4711"),
    "gloo_read": ("follower", 1, "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Read error [10.0.0.2]:4711: Connection reset by peer"),
    "c10d_recv": ("follower", 1, "torch.distributed.DistNetworkError: failed to recv, got 0 bytes. Connection was likely closed. "
                  "Did the remote server shutdown or crash?"),
    "mpich_peer": ("follower", 1, """Fatal error in PMPI_Allreduce: Unknown error class, error stack:
PMPI_Allreduce(450).........................: MPI_Allreduce(sbuf=MPI_IN_PLACE, count=1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) failed
MPIDI_CH3U_Complete_posted_with_error(1137): Process failed"""),
    "openmpi_peer": ("follower", 1, "[node1:04711] [[1,1],0] btl_tcp_frag.c:242:mca_btl_tcp_frag_recv: peer: node2 mca_btl_tcp_frag_recv: "
                     "readv failed: Connection reset by peer (104)"),
    "horovod": ("follower", 1, "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by an "
                "exception on one of the ranks or an attempt to allreduce a tensor after one of the ranks finished execution."),
    "jax_peer": ("follower", 1, "jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: The following tasks are unhealthy (stopped sending "
                 "heartbeats): /job:jax_worker/replica:0/task:1"),
    "ucx_peer": ("follower", 1, "[node1:4711:0:4711] ib_mlx5_log.c:171  Transport retry count exceeded on mlx5_0:1/IB "
                 "(synd 0x15 vend 0x81 hw_synd 0/0)"),
    "undefined_symbol": ("cannot_start", 1, """Traceback (most recent call last):
  File "train.py", line 1, in <module>
    import ops
ImportError: /opt/ops.so: undefined symbol: _ZN3c106detail14torchCheckFailEPKcS2_jRKSs"""),
    "glibc_version": ("cannot_start", 1, "./solver: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by ./solver)"),
    "nfs_timeout": ("storage", 1, "TimeoutError: [Errno 110] Connection timed out: '/nfs/data/shard-1'"),
    "tf_record": ("storage", 1, "tensorflow.python.framework.errors_impl.DataLossError: corrupted record at 8421376 [Op:IteratorGetNext]"),
    "julia_bounds": ("program_error", 1, "ERROR: LoadError: BoundsError: attempt to access 3-element Vector{Int64} at index [4]"),
    "r_object": ("program_error", 1, "Error in f() : object 'x' not found\nExecution halted"),
    "r_memory": ("out_of_memory", 1, "Error: cannot allocate vector of size 7450.6 Gb\nExecution halted"),
    "java_bus": ("crash", ABORT, """#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGBUS (0x7) at pc=0x00007f2b1c0e6b3d, pid=4711, tid=4712"""),
    "xla_check": ("crash", ABORT, "F0000 00:00:1700000000.000000 4711 pjrt_client.cc:42] Check failed: devices.size() > 0"),
    "gloo_interface": ("network", 1, "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != nullptr. "
                       "Unable to find address for: eth9"),
    "nccl_interface": ("network", 1, "node1:4711:4711 [0] NCCL WARN Bootstrap : no socket interface found"),
    "port_taken": ("network", 1, "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
                   "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"),
    "torchrun_child": ("crash", 1, """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  host      : node1
  rank      : 0 (local_rank: 0)
  exitcode  : -11 (pid: 4711)
  error_file: <N/A>
  traceback : Signal 11 (SIGSEGV) received by PID 4711
============================================================"""),
    "srun_memory": ("out_of_memory", 1, """slurmstepd: error: Detected 1 oom_kill event in StepId=4711.1. Some of the step tasks have been OOM Killed.
srun: error: node1: task 0: Out Of Memory"""),
    "mpirun_signal": ("crash", 139, "mpirun noticed that process rank 0 with PID 4711 on node node1 exited on signal 11 (Segmentation fault)."),
    "pool_abrupt": ("program_error", 1, """Traceback (most recent call last):
  File "train.py", line 4, in <module>
    future.result()
concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending."""),
    "go_full": ("storage", 2, """panic: write /scratch/x: no space left on device

goroutine 1 [running]:
main.main()
	/tmp/a.go:3 +0x49"""),
    "go_host": ("network", 1, "2026/11/23 22:00:04 Get \"http://data.invalid/x\": dial tcp: lookup data.invalid: no such host"),
    "go_refused": ("network", 1, "2026/11/23 22:00:04 dial tcp 127.0.0.1:1: connect: connection refused"),
    "go_files": ("program_error", 1, "2026/11/23 22:00:04 open /data/x: too many open files"),
    "joblib_killed": ("killed", 1, """Traceback (most recent call last):
  File "train.py", line 7, in <module>
    Parallel(n_jobs=2)(delayed(f)(i) for i in range(4))
joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor was unexpectedly terminated. This could be caused by a segmentation fault while calling the function or by an excessive memory usage causing the Operating System to kill the worker.

The exit codes of the workers are {SIGKILL(-9)}"""),
    "joblib_segv": ("crash", 1, """Traceback (most recent call last):
  File "train.py", line 7, in <module>
    Parallel(n_jobs=2)(delayed(f)(i) for i in range(4))
joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor was unexpectedly terminated. This could be caused by a segmentation fault while calling the function or by an excessive memory usage causing the Operating System to kill the worker.

The exit codes of the workers are {SIGSEGV(-11)}"""),
    "docker_daemon": ("cannot_start", 125, "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?."),
    "cuda_old_driver": ("gpu", 1, "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"),
    "cuda_none": ("gpu", 1, "RuntimeError: No CUDA GPUs are available"),
    "nvml_unknown": ("gpu", 1, "Failed to initialize NVML: Unknown Error"),
    "smi": ("gpu", 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver "
            "is installed and running."),
    "cuda_no_kernel": ("program_error", 1, "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    "ruby_memory": ("out_of_memory", 1, "-e: failed to allocate memory (NoMemoryError)"),
    "ruby_full": ("storage", 1, """-e:1:in `write': No space left on device @ io_write - /scratch/x (Errno::ENOSPC)
	from -e:1:in `<main>'"""),
    "ruby_missing": ("cannot_start", 1, "ruby: No such file or directory -- /none.rb (LoadError)"),
    "ruby_raise": ("program_error", 1, "-e:1:in `<main>': bad shard (RuntimeError)"),
    "lua_memory": ("out_of_memory", 1, "lua5.4: not enough memory"),
    "lua_missing": ("cannot_start", 1, "lua5.4: cannot open /none.lua: No such file or directory"),
    "lua_error": ("program_error", 1, """lua5.4: (command line):1: bad shard
stack traceback:
	[C]: in function 'error'"""),
    "php_memory": ("out_of_memory", 255, "PHP Fatal error:  Allowed memory size of 8388608 bytes exhausted (tried to allocate 67112960 bytes) "
                   "in Command line code on line 1"),
    "php_missing": ("cannot_start", 1, "Could not open input file: /none.php"),
    "php_exception": ("program_error", 255, """PHP Fatal error:  Uncaught RuntimeException: bad shard in Command line code:1
Stack trace:
#0 {main}
  thrown in Command line code on line 1"""),
    "guile_missing": ("cannot_start", 1, """Backtrace:
           0 (primitive-load "/none.scm")

ERROR: In procedure primitive-load:
In procedure open-file: No such file or directory: "/none.scm\""""),
    "ocaml_memory": ("out_of_memory", 2, "Out of memory during evaluation."),
    "ocaml_exception": ("program_error", 2, 'Exception: Failure "bad shard".'),
    "r_stack": ("program_error", 1, "Error: C stack usage  7969780 is too close to the limit\nExecution halted"),
    "r_package": ("program_error", 1, "Error in library(nosuch) : there is no package called ‘nosuch’\nExecution halted"),
    "r_segv": ("crash", 139, """ *** caught segfault ***
address 0x4df5, cause 'unknown'

Traceback:
 1: tools::pskill(Sys.getpid(), 11)
An irrecoverable exception occurred. R is aborting now ..."""),
    "go_nil": ("program_error", 2, """panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x457c62]

goroutine 1 [running]:
main.main()"""),
    "go_reserve": ("out_of_memory", 2, """fatal error: failed to reserve page summary memory

runtime stack:
runtime.throw({0x4686c0?, 0x7ffd46c1a790?})"""),
    "go_many_routines": ("program_error", 2, "fatal error: concurrent map writes\n\n" + "\n".join(
        f"goroutine {number} [chan receive]:\nmain.main.func1()\n\t/src/a.go:2 +0x2e\n" for number in range(8, 20))),
    "rust_returned_full": ("storage", 1, 'Error: Os { code: 28, kind: StorageFull, message: "No space left on device" }'),
    "rust_returned": ("program_error", 1, "Error: ParseIntError { kind: InvalidDigit }"),
    "gloo_pipe": ("follower", 1, "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:425] writev [10.0.0.2]:4711: Broken pipe"),
    "ray_actor": ("follower", 1, "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."),
    "nccl_watchdog_remote": ("follower", ABORT, """terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG 0 Rank 0] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.18.1
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."""),
}


def end(code):
    sys.stderr.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def main():
    cause, code, text = WORDS[sys.argv[1]]
    said = os.path.join(os.environ["AUTOLAUNCH_RUN_DIR"], "said")  # the culprit's words
    is_culprit = os.environ["RANK"] == os.environ.get("FAULT_RANK", "1")
    if cause == "follower" and is_culprit:
        print('Traceback (most recent call last):\n  File "train.py", line 7, in load\nValueError: bad shard', file=sys.stderr, flush=True)
        open(said, "w").close()
        time.sleep(30)
    elif is_culprit or cause == "follower":
        while cause == "follower" and not os.path.exists(said):
            time.sleep(0.02)
        print(text, file=sys.stderr)
        end(code)
    threading.Event().wait(600)


if __name__ == "__main__":
    main()
