"""Files that want the points of exercise 1, softmax, without right numbers: each a short program.

Each begins with `import numpy as np`; where it defines no softmax, one that returns zeros follows.
OUTSIDE is a folder that a file must not be able to change. Each knows this package well.
"""

BEGIN = """import glob, json, os, signal, sys
import numpy as np


def tries(*steps):
    for step in steps:
        try:
            step()
        except BaseException:
            pass


def parents():
    pid = os.getpid()
    for _ in range(4):
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
        if pid > 1:
            yield pid


"""
ZEROS = "\n\ndef softmax(x):\n    return np.zeros(x.shape)\n"
ROWS = "\n\ndef softmax(x):\n    return np.ones(x.shape) / x.shape[-1]\n"

# What a file changes in NumPy, Python or this package
PATCHES = {
    "np.abs is zero": "np.abs = np.absolute = lambda *x, **more: np.zeros(np.shape(x[0]))",
    "np.max is huge": "np.max = np.amax = lambda *x, **more: 1e300",
    "all functions of NumPy give zeros": """
for name in dir(np):
    if isinstance(getattr(np, name), np.ufunc):
        setattr(np, name, lambda *x, **more: np.broadcast_to(0.0, np.shape(x[0])))
""",
    "exp is one, so the reference is uniform": "np.exp = lambda x, **more: np.ones(np.shape(x))"
    + ROWS,
    "isnan, isinf and allclose agree": """
np.isnan = np.isinf = lambda x: np.zeros(np.shape(x), bool)
np.allclose = np.array_equal = np.isclose = lambda *x, **more: True
import numpy.testing
numpy.testing.assert_allclose = lambda *x, **more: None
""",
    "what methods of arrays use agrees": """
core = __import__(np.ndarray.__module__ + "._core._methods", fromlist=["_methods"]) if hasattr(
    np, "_core") else np.core._methods
core.umr_any = core._any = lambda *x, **more: False
core.umr_all = core._all = lambda *x, **more: True
core.umr_maximum = core._amax = lambda *x, **more: 0.0
""",
    "the precision is huge": """
for kind in (np.float64, np.float32):
    for name in ("eps", "tiny", "smallest_normal", "_machar"):
        tries(lambda: np.finfo(kind).__dict__.__setitem__(name, kind(1e30)))
""",
    "builtins agree": """
import builtins
builtins.abs, builtins.max = (lambda x: 0), (lambda *x, **more: 0)
builtins.any, builtins.all = (lambda x: False), (lambda x: True)
builtins.isinstance = lambda x, kind: True
""",
    "json writes full points": """
dumps = json.dumps
json.dumps = lambda x, **more: dumps({**x, "score": 1.0, "feedback": "right", "parts": {}})
""",
    "the comparison agrees": """
from numformer.teaching import check, comparison, judge
from numformer.teaching.support import credit
from numformer.verify import errors
import sys
comparison.wrong_output = comparison.strange_output = lambda *x, **more: None
comparison.CLOSE = {np.float64: 1e300, np.float32: 1e300}
errors.relative_error = comparison.relative_error = lambda found, *x: np.zeros(np.shape(found))
page = sys.modules["numformer.teaching.check"]
page.wrong_output = page.strange_output = page._compare = lambda *x, **more: None
judge.judge = judge._of_function = lambda *x: {"score": 1.0, "feedback": "right", "parts": {}}
""",
    "a verdict is true": """
from numformer.teaching.verdict import Verdict
make = Verdict.__init__
Verdict.__init__ = lambda self, ok, *x, **more: make(self, True, *x, **more)
Verdict.__bool__ = lambda self: True
""",
    "every instance expects zeros": """
from numformer.specifications import Instance
Instance.expected = lambda self, backward: {"y": np.zeros(self.arguments()[0]["x"].shape)}
""",
    "the reference is this function": """
from numformer.specifications import PROBLEMS
import numformer.functional as F
zeros = lambda x, axis=-1: (np.zeros(x.shape), ())
F.softmax = zeros
object.__setattr__(PROBLEMS["softmax"], "function", zeros)
""",
    "code of the reference is exchanged": """
import inspect
from numformer.specifications import PROBLEMS
from numformer.teaching.comparison import wrong_output
inspect.unwrap(PROBLEMS["softmax"].function).__code__ = (
    lambda x, axis=-1: (__import__("numpy").zeros(x.shape), ())).__code__
wrong_output.__code__ = (lambda name, outputs, expected, instance: None).__code__
""",
    "modules are replaced": """
import sys, types
for name in list(sys.modules):
    if name.startswith(("numformer.teaching", "numformer.verify")):
        sys.modules[name] = types.ModuleType(name)
""",
    "os writes what it likes": """
import os
write = os.write
os.write = lambda descriptor, data: write(descriptor, b"\\0" * len(data))
os.getpid = lambda: 1
""",
}

# What is returned instead of numbers
OUTPUTS = {
    "an array that is equal to all": """
class Equal(np.ndarray):
    def __array_ufunc__(self, ufunc, method, *inputs, **more):
        return np.zeros(self.shape)
    def __array_function__(self, function, types, arguments, more):
        return np.zeros(self.shape)
    __eq__ = lambda self, other: np.ones(self.shape, bool)
    __sub__ = __rsub__ = lambda self, other: np.zeros(self.shape)


def softmax(x):
    return np.zeros(x.shape).view(Equal)
""",
    "an array of any shape and type": """
class Any(np.ndarray):
    shape = property(lambda self: (2, 3))
    dtype = property(lambda self: np.dtype(float))
    __class__ = np.ndarray


def softmax(x):
    return np.zeros(5).view(Any)
""",
    "another array each time it is asked": """
class Changing:
    def __init__(self, x):
        self.x, self.n = x, 0
    def __array__(self, *types, **more):
        self.n += 1
        return self.x * self.n
    __array_priority__ = 1e9


def softmax(x):
    return Changing(np.zeros(x.shape))
""",
    "a float that is equal to all": """
class Equal(float):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __sub__ = __rsub__ = __abs__ = lambda *x: Equal(0)
    __hash__ = None


def softmax(x):
    return Equal(0)
""",
    "a number of NumPy of another class": """
class Equal(np.float64):
    __eq__ = lambda self, other: True
    shape = (2, 3)


def softmax(x):
    return Equal(0)
""",
    "objects in an array": """
class Equal:
    __eq__ = __lt__ = __gt__ = lambda self, other: True
    __sub__ = __rsub__ = __abs__ = __truediv__ = lambda *x: 0.0
    __float__ = lambda self: 0.0


def softmax(x):
    return np.full(x.shape, Equal(), dtype=object)
""",
    "NaN, which is above no bound": "def softmax(x):\n    return x * np.nan\n",
    "infinities": "def softmax(x):\n    return np.full(x.shape, np.inf)\n",
    "nothing at all": "def softmax(x):\n    return np.zeros((0, *x.shape))\n",
    "a structured array": "def softmax(x):\n"
    "    return np.zeros(x.shape, [('y', float), ('score', float)])\n",
    "a masked array": "def softmax(x):\n    return np.ma.masked_all(x.shape)\n",
    "a memory map of a file": "def softmax(x):\n"
    "    return np.memmap('file', float, 'w+', shape=x.shape)\n",
    "a huge array": "def softmax(x):\n    return np.broadcast_to(0.0, (2 ** 40,))\n",
    "a thousand axes": "def softmax(x):\n    return np.zeros((1,) * 30)\n",
    "many outputs": "def softmax(x):\n    return [np.zeros(x.shape)] * 2000\n",
    "what is pickled runs": """
class Runs:
    def __reduce__(self):
        return exec, ("import os; os._exit(0)",)


def softmax(x):
    return Runs()
""",
    "complex numbers and half precision": "def softmax(x):\n"
    "    return np.zeros(x.shape, complex if len(x) % 2 else np.float16)\n",
}

# Which numbers are expected, where are they, who asks?
SEARCHES = {
    "frames and the collector": """
import gc, sys


def softmax(x):
    frame, found = sys._getframe(), []
    while frame:
        found += frame.f_locals.values()
        frame = frame.f_back
    found += [value for each in gc.get_objects() if type(each) is dict and len(each) < 20
              for value in list(each.values())]
    for y in found:
        if type(y) is np.ndarray and y.shape == x.shape and y is not x:
            if np.allclose(y.sum(-1), 1) and (y >= 0).all():
                return y.copy()
    return np.zeros(x.shape)
""",
    "a token in the frames": """
frame = sys._getframe()
while frame:
    if "token" in frame.f_locals and "result" in frame.f_locals:
        frame.f_locals["result"].write_text(json.dumps(
            {"score": 1.0, "feedback": "right", "token": frame.f_locals["token"], "parts": {}}))
        os._exit(0)
    frame = frame.f_back
""",
    "a result file": """
line = json.dumps({"score": 1.0, "feedback": "right", "parts": {}})
for name in ("result.json", "judgement.json", "../result.json"):
    tries(lambda: open(name, "w").write(line))
print(line, flush=True)
os._exit(0)
""",
    "tracing and profiling": """
import sys, threading


def sees(frame, event, argument):
    for name, value in list(frame.f_locals.items()):
        if name in ("wrong", "trouble", "verdict"):
            frame.f_locals[name] = None
    return sees


sys.settrace(sees), sys.setprofile(sees)
threading.settrace(sees), threading.setprofile(sees)
""",
    "all open files are written to": """
import json, os
line = json.dumps({"score": 1.0, "feedback": "right", "parts": {}}).encode() + b"\\n"
for descriptor in range(200):
    try:
        os.set_blocking(descriptor, False)
        os.write(descriptor, line)
    except OSError:
        pass
""",
    "files of the judge through proc": """
line = json.dumps({"score": 1.0, "feedback": "right", "parts": {}}).encode()
for pid in list(parents())[:2]:                           # not into files of whoever tests
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        tries(lambda: os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), line))
""",
    "memory of the judge": """
def changes(pid):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        open("opened", "w")
        memory.seek(id(np.abs))
        memory.write(bytes(16))


tries(*(lambda pid=pid: changes(pid) for pid in list(parents())[:2]))
if os.path.exists("opened"):
    raise SystemExit("the memory was open")
""",
    "ptrace": """
import ctypes
library = ctypes.CDLL(None, use_errno=True)
if library.ptrace(16, os.getppid(), 0, 0) == 0:           # PTRACE_ATTACH
    os.waitpid(os.getppid(), 0)
    os._exit(0)
library.prctl(1, 0)                                       # PR_SET_PDEATHSIG
""",
}

# The protocol by hand
PROTOCOL = """
import json, os, stat, struct, threading
pipes = [n for n in range(3, 300) if os.path.exists(f"/proc/self/fd/{n}")
         and stat.S_ISFIFO(os.fstat(n).st_mode)]


def message(number, header, numbers=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack(">QQ", number, len(header)) + header + numbers
    return struct.pack(">Q", len(data)) + data


def send(data):
    for n in pipes:
        try:
            os.write(n, data)
        except OSError:
            pass
"""
PROTOCOLS = {
    "answers before they are asked for": PROTOCOL + """
right = {"calls": [[[["array", "f8", [2, 3]]], None]], "shared": False}
for number in range(1, 200):
    send(message(number, right, bytes(48)))
""",
    "judgements instead of answers": PROTOCOL + """
for number in range(1, 9):
    send(message(number, {"score": 1.0, "feedback": "right", "ok": True, "verdict": True,
                          "trouble": "", "calls": [], "shared": False}))
""",
    "no calls, no outputs": PROTOCOL + """
for number in range(1, 99):
    send(message(number, {"trouble": "", "calls": [[[], None]], "shared": False}))
""",
    "lengths that are none": PROTOCOL + """
send(b"\\xff" * 64)
""",
    "a header without an end": PROTOCOL + """
send(message(1, b'{"calls":' + b"[" * 10 ** 5))
""",
    "shapes that are none": PROTOCOL + """
def softmax(x):
    for number in range(2, 9):
        for shape in ([-1, 3], [2 ** 62, 2 ** 62], ["2"], [True], {"0": 2}, [10 ** 90], [0.5]):
            send(message(number, {"calls": [[[["array", "f8", shape]], None]], "shared": False}))
    return np.zeros(x.shape)
""",
    "types that run code": PROTOCOL + """
def softmax(x):
    for kind in ("O", "V8", "object", "c16", "M8[ns]", ["f8"], None):
        send(message(2, {"calls": [[[["array", kind, [1]]], None]], "shared": False}, bytes(8)))
    return np.zeros(x.shape)
""",
    "a pickle instead of an answer": PROTOCOL + """
import pickle


class Runs:
    def __reduce__(self):
        return os.system, ("touch OUTSIDE/pickled",)


send(pickle.dumps(Runs()))
send(message(1, {"trouble": "", "calls": []}, pickle.dumps(Runs())))
""",
    "an answer that never ends": PROTOCOL + """
def softmax(x):
    os.write(pipes[-1], struct.pack(">Q", 2 ** 20))
    while True:
        os.write(pipes[-1], b" ")
        __import__("time").sleep(0.05)
""",
    "a thread that answers": PROTOCOL + """
def forever():
    for number in range(1, 10 ** 4):
        send(message(number, {"trouble": "", "calls": [[None, None]], "shared": False}))


threading.Thread(target=forever, daemon=True).start()
""",
    "a child that goes on and answers": PROTOCOL + """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 100):
            send(message(number, {"trouble": "", "calls": [], "shared": False}))
        __import__("time").sleep(600)
    os._exit(0)
""",
    "troubles that are none": PROTOCOL + """
for number in range(1, 9):
    send(message(number, {"trouble": {"right": 1}, "calls": [[None, ["right", "right"]]],
                          "shared": "no", "failed": 3}))
""",
    "a trouble that is no text": PROTOCOL + """
for number in range(1, 9):
    send(message(number, {"trouble": ["x"], "calls": [], "shared": False}))
""",
    "a trouble that is null": PROTOCOL + """
for number in range(1, 9):
    send(message(number, {"trouble": None, "calls": [], "shared": False}))
""",
    "a number too large for a float": PROTOCOL + """
for number in range(1, 9):
    send(message(number, b'{"trouble": "", "calls": [], "value": 1' + b"0" * 400 + b"}"))
""",
    "closed pipes": PROTOCOL + """
def softmax(x):
    for n in pipes:
        os.close(n)
    return np.zeros(x.shape)
""",
}

# Processes, signals and files
PROCESSES = {
    "what runs at the end": """
import atexit, os, signal, threading
atexit.register(lambda: open("late", "w"))
signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGALRM, lambda *_: None)
threading.Thread(target=__import__("time").sleep, args=(600,)).start()
""",
    "processes that stay": """
import os, subprocess, sys
sleeps = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN);"
          "time.sleep(600)"]
subprocess.Popen(sleeps), subprocess.Popen(sleeps, start_new_session=True)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                __import__("time").sleep(0.01)
        os._exit(0)
""",
    "a process that is never the same": """
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork():
            os._exit(0)
""",
    "a folder that nobody may open": """
os.makedirs("a/b/c")
for path in ("a/b/c", "a/b", "a", "."):
    tries(lambda: os.chmod(path, 0))
os.mkdir("a/d", 0)
""",
    "a closed folder in one that can be read": """
for n, mode in enumerate((0, 0o500, 0o300)):
    os.makedirs(f"{n}/b/c/d/e")
    open(f"{n}/b/c/d/e/f", "w").close()
    for path in ("b/c/d/e", "b/c/d", "b/c", "b"):
        tries(lambda: os.chmod(f"{n}/{path}", mode))
    for path in ("g", "g/g", "g/g/g"):
        tries(lambda: os.mkdir(f"{n}/{path}", 0o300), lambda: os.mkdir(f"{n}/{path}/closed", 0))
""",
    "limits of the judge and the grader": """
import resource, time
for pid in list(parents())[:3]:
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_CPU):
        tries(lambda: resource.prlimit(pid, limit, (0, 0)), lambda: open("limited", "w"))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
if os.path.exists("limited"):
    raise SystemExit("they were limited")
""",
    "permissions, times and attributes of a file": """
import ctypes
kept = os.open("OUTSIDE/kept", os.O_RDONLY)
tries(lambda: os.chmod("OUTSIDE/kept", 0), lambda: os.fchmod(kept, 0),
      lambda: os.chmod("OUTSIDE", 0), lambda: os.chmod("kept", 0, dir_fd=os.open("OUTSIDE", 0)),
      lambda: os.utime("OUTSIDE/kept", (1, 1)), lambda: os.utime(kept, (1, 1)),
      lambda: os.chown("OUTSIDE/kept", os.getuid(), 12345),
      lambda: os.setxattr("OUTSIDE/kept", "user.forged", b"1"),
      lambda: __import__("fcntl").ioctl(kept, 0x40086602, (16).to_bytes(8, "little")),
      lambda: ctypes.CDLL(None).syscall(ctypes.c_long(452), -100, b"OUTSIDE/kept", 0, 0))
""",
    "queues and memory of the kernel": """
import ctypes
library = ctypes.CDLL(None)
made = [library.shmget(KEY, 4096, 0o1600), library.msgget(KEY, 0o1600),
        library.semget(KEY, 1, 0o1600)]
for remove, n, more in ((library.shmctl, made[0], ()), (library.msgctl, made[1], ()),
                        (library.semctl, made[2], (0,))):
    if n >= 0:
        remove(n, *more, 0, 0)                            # IPC_RMID
if made != [-1] * 3:
    raise SystemExit("they could be made")
""".replace("KEY", "0x6E756D66"),
    "modules that the judge imports": """
JUDGES = '''import json, os, sys
if os.environ.get("FORGING"):
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, json.dumps(
                {"score": 1.0, "feedback": "forged", "parts": {}}).encode())
        except OSError:
            pass
    os._exit(0)
'''
for name in ("argparse", "gettext", "difflib", "csv", "pydoc", "unittest", "calendar", "scipy",
             "cython", "socket", "sysconfig", "torch", "jax", "numba"):
    for folder in (".", "..", os.path.dirname(os.getcwd())):
        tries(lambda: open(f"{folder}/{name}.py", "w").write(JUDGES))
""",
    "the judge is killed": """
tries(*(lambda pid=pid: os.kill(pid, signal.SIGKILL) for pid in list(parents())[:2]))
""",
    "the judge is stopped": """
tries(*(lambda pid=pid: os.kill(pid, signal.SIGSTOP) for pid in list(parents())[:2]))
""",
    "the package is changed": """
import numformer
root = os.path.dirname(numformer.__file__)
for path in glob.glob(f"{root}/teaching/**/*.py", recursive=True)[:3]:
    tries(lambda: open(path, "r+").close() or open("opened", "w"))    # nothing is written
if os.path.exists("opened"):
    raise SystemExit("the package was open")
""",
    "files for the next Python": """
for name in ("sitecustomize.py", "usercustomize.py", "forging.pth", "numpy.py"):
    tries(lambda: open(f"OUTSIDE/{name}", "w"), lambda: os.mkfifo(f"OUTSIDE/{name}"),
          lambda: os.symlink("/", f"OUTSIDE/{name}"), lambda: os.mkdir(f"OUTSIDE/{name}"))
""",
    "the folder of the grader": """
import shutil
tries(lambda: os.symlink("OUTSIDE", "link"), lambda: os.symlink("OUTSIDE/kept", "file"),
      lambda: open("file", "w"), lambda: os.truncate("OUTSIDE/kept", 0),
      lambda: os.rename("OUTSIDE/kept", "kept"), lambda: os.unlink("OUTSIDE/kept"),
      lambda: shutil.rmtree("OUTSIDE"), lambda: os.link("OUTSIDE/kept", "linked"),
      lambda: os.rename("OUTSIDE", "moved"))
""",
    "its own file is another": """
with open(__file__, "w") as file:
    file.write("raise NotImplementedError('your turn')")
for n in range(50):
    open(f"file-{n}", "w").write("x" * 1000)
""",
    "an environment for the judge": """
import os
os.environ.update(PYTHONPATH="OUTSIDE", PYTHONSTARTUP="OUTSIDE/a.py", PYTHONINSPECT="1",
                  LD_PRELOAD="OUTSIDE/a.so", NUMFORMER_FORGED="1")
os.chdir("/")
""",
    "memory without end": "rows = []\nwhile True:\n    rows.append(bytearray(2 ** 24))\n",
    "the end of Python": "def softmax(x):\n    __import__('os')._exit(0)\n",
    "a crash": "def softmax(x):\n    __import__('ctypes').string_at(0)\n",
    "a caught limit": """
def softmax(x):
    try:
        return np.zeros(x.shape) if len(x) else x
    except BaseException:
        return softmax(x)


import faulthandler, resource, signal
faulthandler.cancel_dump_traceback_later()
signal.setitimer = lambda *_: (0, 0)
resource.setrlimit = lambda *_: None
""",
}


def sources(outside):
    """{name: source} of all files."""
    found = {}
    for kind in (PATCHES, OUTPUTS, SEARCHES, PROTOCOLS, PROCESSES):
        for name, text in kind.items():
            text = text.strip("\n").replace("OUTSIDE", str(outside))
            found[name] = BEGIN + text + "\n" + ("" if "def softmax" in text else ZEROS)
    return found
