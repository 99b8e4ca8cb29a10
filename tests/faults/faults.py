"""Ways for a Python program to fail, by name. Rank FAULT_RANK (else 1) fails unless the name says otherwise; the others wait."""
import ctypes
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time

name = sys.argv[1]
rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
culprit = int(os.environ.get("FAULT_RANK", "1"))


def say(text):  # a line that a library has printed, as recorded from it
    raise RuntimeError(text)


def nested():
    try:
        {}["lr"]
    except KeyError:
        raise ValueError("no learning rate")


def saved_in_vain():
    try:
        with open("/dev/full", "w") as file:
            file.write("x")
    except OSError as error:
        raise RuntimeError("cannot save the checkpoint") from error


def memory():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
    kept = []
    while True:
        kept.append(bytearray(1 << 24))


def descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    kept = []
    while True:
        kept.append(open("/dev/null"))


def error_file():
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": {"message": "ValueError: bad shard", "extraInfo": {"py_callstack": "a"}}}, file)
    os._exit(1)


def segfault():
    import faulthandler
    faulthandler.enable()
    ctypes.string_at(0)


def survived():
    print("warning: Connection reset by peer, trying again", file=sys.stderr)
    raise ValueError("label 1001 of 1000")


def meet(listen):
    """One connection between rank 0 and the culprit, which may be on another node: then FAULT_HOST says so."""
    host = os.environ.get("FAULT_HOST", "127.0.0.1")
    path = os.path.join(os.environ["AUTOLAUNCH_RUN_DIR"], "meeting")
    if listen:
        server = socket.socket()
        server.bind((host, 0))
        server.listen()
        with open(path + ".new", "w") as file:
            file.write(f"{host} {server.getsockname()[1]}")
        os.rename(path + ".new", path)
        return server.accept()[0]
    while not os.path.exists(path):
        time.sleep(0.01)
    host, port = open(path).read().split()
    return socket.create_connection((host, int(port)))


def wait_for_peer(peer):
    if not peer.recv(1):
        raise ConnectionError("Connection closed by peer")


def peer_killed():
    peer = meet(rank == culprit)
    if rank == culprit:
        os.kill(os.getpid(), 9)
    wait_for_peer(peer)


def slow_end():  # its connection is gone a while before it is
    peer = meet(rank == culprit)
    if rank == 0:
        wait_for_peer(peer)
    try:
        raise ValueError("bad shard")
    except ValueError:
        import traceback
        traceback.print_exc()
        peer.close()
        time.sleep(30)


def left_early():
    peer = meet(rank == culprit)
    if rank == culprit:
        sys.exit(256 if name == "exit256" else 0)  # the kernel keeps eight bits
    time.sleep(0.2)
    wait_for_peer(peer)


def waits_in_vain():  # the others have a deadline of their own, and nobody's connection breaks
    if rank == culprit:
        sys.exit(0)
    time.sleep(1)
    raise TimeoutError("barrier: not all ranks came within 1 s")


def in_thread():
    def work():
        raise ValueError("bad shard")
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    sys.exit(1)


def logged():  # an error that was logged and survived, long before the one that ends it
    import logging
    try:
        raise ConnectionResetError(104, "Connection reset by peer")
    except ConnectionResetError:
        logging.exception("upload failed, trying again")
    for step in range(20):
        print(f"step {step} loss 2.5", file=sys.stderr)
    sys.exit("no data in /data")


def pool_child_killed():
    import concurrent.futures
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        pool.submit(os.kill, 0, 0).result()
        pool.submit(os._exit, 3).result()


def child_crashes():
    subprocess.run([sys.executable, "-c", "import os; os.abort()"], check=True)


def hook():  # a hook that prints errors in a box, as some consoles do
    def show(kind, value, _):
        print(f"╭─ Traceback (most recent call last) ─╮\n│ train.py:7 in load                  │\n"
              f"╰─────────────────────────────────────╯\n{kind.__name__}: {value}", file=sys.stderr)
    sys.excepthook = show
    raise ValueError("bad shard")


def group():
    raise ExceptionGroup("two workers failed", [ValueError("bad shard"), KeyError("lr")])


def mapped_too_much():
    import mmap
    mmap.mmap(-1, 1 << 50)


def thread_limit():
    if os.geteuid() == 0:
        os.setuid(65534)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    threading.Thread(target=print).start()


def at_exit():  # what an exit handler prints comes after the error
    import atexit
    atexit.register(lambda: print("wandb: run finished\nwandb: error-free upload", file=sys.stderr))
    raise ValueError("bad shard")


lines = {
    "cuda_oom": "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity)",
    "cuda_ecc": "CUDA error: uncorrectable ECC error encountered",
    "cuda_nvlink": "CUDA error: uncorrectable NVLink error detected during the execution",
    "cuda_assert": "CUDA error: device-side assert triggered",
    "cuda_illegal": "CUDA error: an illegal memory access was encountered",
    "nccl_watchdog": "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE)",
    "nccl_ib": "NCCL WARN NET/IB : Got completion from peer 10.0.0.1<1> with status=12 opcode=0 vendor err 129",
    "nccl_oom": "NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO), Last error: Cuda failure 'out of memory'",
    "gloo_timeout": "[../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation",
    "stale": "[Errno 116] Stale file handle: '/scratch/x'",
    "quota": "[Errno 122] Disk quota exceeded: '/home/x'",
    "read_only": "[Errno 30] Read-only file system: '/scratch/x'",
    "torch_zip": "PytorchStreamReader failed reading zip archive: failed finding central directory",
    "jax_oom": "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 bytes",
    "no_route": "[Errno 113] No route to host",
}

faults = {
    "raise": lambda: say("shard 00071 is truncated"),
    "nested": nested,
    "saved_in_vain": saved_in_vain,
    "exit7": lambda: sys.exit(7),
    "exit_text": lambda: sys.exit("no data in /data"),
    "import": lambda: __import__("no_such_module"),
    "syntax": lambda: eval("1 +"),
    "recursion": lambda: (lambda f: f(f))(lambda f: f(f)),
    "memory": memory,
    "abort": os.abort,
    "segfault": segfault,
    "error_file": error_file,
    "library": lambda: ctypes.CDLL("libno_such_library.so.1"),
    "read_error": lambda: os.read(os.open("/proc/self/mem", os.O_RDONLY), 1),
    "resolve": lambda: socket.getaddrinfo("no-such-host.invalid", 80),
    "refused": lambda: socket.create_connection(("127.0.0.1", 1)),
    "descriptors": descriptors,
    "child_fails": lambda: subprocess.run(["sh", "-c", "exit 3"], check=True),
    "survived": survived,
    "peer_killed": peer_killed,
    "slow_end": slow_end,
    "exit256": left_early,
    "waits_in_vain": waits_in_vain,
    "in_thread": in_thread,
    "logged": logged,
    "pool_child_killed": pool_child_killed,
    "child_crashes": child_crashes,
    "hook": hook,
    "group": group,
    "mapped_too_much": mapped_too_much,
    "thread_limit": thread_limit,
    "at_exit": at_exit,
    "os_exit": lambda: os._exit(9),
    "interrupts_itself": lambda: os.kill(os.getpid(), 2),
    "cut_pickle": lambda: __import__("pickle").loads(__import__("pickle").dumps([1] * 100)[:50]),
    "no_unicode": lambda: b"\xff".decode(),
    "left_early": left_early,
    "all": lambda: say(f"shard {rank} is truncated"),
}

both = {"peer_killed", "slow_end", "left_early", "exit256"}
everybody = {"all", "waits_in_vain"}
if name in lines and rank == culprit:
    say(lines[name])
elif name in everybody or (name in faults and (rank == culprit or (name in both and rank == 0))):
    faults[name]()
threading.Event().wait(600)
