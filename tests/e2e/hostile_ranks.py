"""A rank that attacks its agent, for hostile_ranks.sh: rank 1 does what it is told for a moment, rank 0 works and ends well.

    hostile_ranks.py ATTACK [VICTIM...]
"""
import array
import os
import resource
import signal
import socket
import sys
import time

until = time.monotonic() + 0.4
own = int(os.environ["RANK"])


def work():
    while time.monotonic() < until:
        time.sleep(0.05)


def hello(rank=own):
    return b'{"generation":0,"local_rank":%d,"pid":%d,"protocol":3,"rank":%d,"type":"hello"}\n' % (rank, os.getpid(), rank)


def flood(path, sayings, connections, descriptors=()):
    """Many connections, which stay; all of them talk, none of them listens."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    peers, sent = [], 0
    while time.monotonic() < until:
        for _ in range(min(100, connections - len(peers))):
            peer = socket.socket(socket.AF_UNIX)
            peer.setblocking(False)
            if peer.connect_ex(path) == 0:
                peers.append(peer)
        for number, peer in enumerate(peers[-50:]):
            try:
                saying = sayings[(number + sent) % len(sayings)]
                if descriptors:
                    fds = array.array("i", [descriptors[sent % len(descriptors)]] * 3)
                    peer.sendmsg([saying], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
                else:
                    peer.send(saying)
                sent += 1
            except OSError:
                pass
    time.sleep(0.2)  # so that somebody sees what the agent has


def attack_session():
    lies = [
        hello(),
        hello(0),
        hello(2**31 - 1),
        b'{"type":"step","step":9223372036854775807}\n' * 50,
        b'{"type":"message","text":"' + b"x" * 60000 + b'"}\n',
        b"[" * 60000 + b"\n",
        b'{"type":"memory","group":"g","shard":1,"slot":99999999,"bytes":9223372036854775807}\n',
        b"\0" * 8192,
        b"x" * 200000,
        b'{"type":"checkpoint","step":1,"path":"/etc","stall_seconds":0}\n',
    ]
    flood(os.environ["AUTOLAUNCH_SOCKET"], lies, 500)


def attack_descriptors():
    os.mkfifo("fifo-of-rank")
    huge = os.memfd_create("huge")
    os.ftruncate(huge, 1 << 40)
    kinds = [os.open("/dev/zero", os.O_RDONLY), os.open("/", os.O_RDONLY), os.open("fifo-of-rank", os.O_RDWR), huge,
             socket.socketpair()[0].detach()]
    lines = [hello() + b'{"layout":1,"type":"recorder"}\n', hello() + b'{"type":"python_stacks","signal":9}\n',
             hello() + b'{"type":"has_left","generation":0}\n', b'{"layout":1,"type":"recorder"}\n']
    flood(os.environ["AUTOLAUNCH_SOCKET"], lines, 100, kinds)


def attack_doors():
    folder = os.path.dirname(os.environ["AUTOLAUNCH_SOCKET"])
    doors = [os.path.join(folder, name) for name in os.listdir(folder) if name != os.path.basename(os.environ["AUTOLAUNCH_SOCKET"])]
    doors = [door for door in doors if not door.endswith(".lock")]
    if not doors:
        raise SystemExit("there is no door but the session's")
    global until
    for door in doors:
        until = time.monotonic() + 0.4
        flood(door, [b"", b"\x01\0\0\0", b"\xff\xff\xff\xff", os.urandom(4096)], 2000)


def attack_stdout():
    block = b"\x1b[2J" + b"spam " * 13000 + b"\n"
    size = 0
    while time.monotonic() < until and size < 512 << 20:
        size += os.write(1 + size % 2, block)


def attack_forks():
    resource.setrlimit(resource.RLIMIT_NPROC, (150, 150))
    children = 0
    while children < 1000:
        try:
            if os.fork() == 0:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
        except BlockingIOError:
            break
        children += 1
    if not 10 < children < 1000:
        raise SystemExit(f"{children} children: the limit did not count")


def family():
    """The agent, the guardian and the keeper, from below."""
    line, pid = [], os.getppid()
    while len(line) < 3:
        line.append(pid)
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rsplit(")", 1)[1].split()[1])
    return line


def attack_sibling():
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                said = file.read().split(b"\0")
            if b"RANK=0" in said and b"AUTOLAUNCH_SOCKET=" + os.environ["AUTOLAUNCH_SOCKET"].encode() in said:
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
    time.sleep(30)  # for broken code


def attack_agent():
    os.kill(family()[0], signal.SIGKILL)
    time.sleep(30)


def attack_guardian():
    os.kill(family()[1], signal.SIGKILL)
    work()


def attack_keeper():
    os.kill(family()[2], signal.SIGKILL)
    time.sleep(30)


def attack_memory():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    try:  # what the kernel keeps it from
        with open(f"/proc/{os.getppid()}/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    work()


def attack_files(*victims):
    """While the agent writes: its files are moved away, and links to what may not be touched are there instead."""
    folder = os.environ["AUTOLAUNCH_RUN_DIR"]
    names = ["events.jsonl", "plan.json", "exit.json", "head.json", "restarts.json", "trainer_config.json", "ledger.json",
             "stacks", "flight", "generation-0/rank-0/stdout", "generation-0/rank-0/error.json", "generation-1"]
    turn = 0
    while time.monotonic() < until:
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.lexists(path) and not os.path.islink(path):
                    os.rename(path, path + ".was")
                elif os.path.islink(path):
                    os.unlink(path)
                os.symlink(victims[turn % len(victims)], path)
            except OSError:
                pass
        turn += 1
        time.sleep(0.01)


if __name__ == "__main__":
    if own == 1:
        globals()["attack_" + sys.argv[1]](*sys.argv[2:])
    else:
        until += 0.6
        work()
