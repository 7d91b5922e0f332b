"""System calls that Linux refuses to the process of a student's file (a seccomp filter).

`confinement` closes what has a path. These calls would go past it: they change permissions, owners,
times and attributes of any file of the user's; limits and priorities of any process of the user's;
they make what stays behind without a file (queues, memory and keys of the kernel); or they ask
another program through its socket to do something. No exercise needs one of them.

References
----------
"Seccomp BPF (SECure COMPuting with filters)", in the documentation of the Linux kernel; the numbers
are those of its tables of system calls.
"""

import ctypes
import errno
import platform
import struct
import sys
from contextlib import suppress

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}      # AUDIT_ARCH of each
REFUSED = {                                                   # name: number on each of them
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466), "file_setattr": (469, 469),
    "setpriority": (141, 140), "ioprio_set": (251, 30),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "io_uring_setup": (425, 425)}                             # for calls that no filter sees
FOR_OTHERS = {                                                # refused with a process, 0 is itself
    "prlimit64": (302, 261), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274)}
# name: (number on each, which argument, the values with which it is refused)
WITH = {"socket": ((41, 198), 0, (1,)),                       # AF_UNIX
        # FS_IOC_SETFLAGS, FS_IOC32_SETFLAGS, FS_IOC_FSSETXATTR, TIOCSTI, TIOCLINUX
        "ioctl": ((16, 29), 1, (0x40086602, 0x40046602, 0x401C5820, 0x5412, 0x541C))}
X32 = 0x40000000                                              # other numbers for the same calls
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06        # instructions
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2                 # of prctl
NUMBER, MACHINE, ARGUMENTS = 0, 4, 16                         # where they are


def refuse_calls():
    """Refuse these calls to this process, and to what it starts; whether the system could."""
    if (sys.platform != "linux" or platform.machine() not in MACHINES or sys.maxsize < 2 ** 32):
        return False
    instructions = program(platform.machine())
    data = b"".join(struct.pack("=HBBI", *each) for each in instructions)
    memory = ctypes.create_string_buffer(data, len(data))
    given = struct.pack("@HP", len(instructions), ctypes.addressof(memory))
    with suppress(AttributeError, OSError):
        control = ctypes.CDLL(None).prctl
        control(NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        return control(SET_SECCOMP, ctypes.c_ulong(FILTER), given) == 0
    return False


def program(machine):
    """The filter for a machine: instructions (code, steps if true, steps if false, operand)."""
    column = list(MACHINES).index(machine)
    refuse, allow = (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)
    found = [(LOAD, 0, 0, MACHINE), (EQUAL, 1, 0, MACHINES[machine]), refuse,
             (LOAD, 0, 0, NUMBER), (AT_LEAST, 0, 1, X32), refuse]
    for numbers in REFUSED.values():
        if numbers[column] is not None:
            found += [(EQUAL, 0, 1, numbers[column]), refuse]
    for numbers in FOR_OTHERS.values():
        found += [(EQUAL, 0, 4, numbers[column]), (LOAD, 0, 0, ARGUMENTS), (EQUAL, 1, 0, 0), refuse,
                  allow]
    for numbers, argument, values in WITH.values():
        body = [(LOAD, 0, 0, ARGUMENTS + 8 * argument)]
        for value in values:
            body += [(EQUAL, 0, 1, value), refuse]
        found += [(EQUAL, 0, len(body) + 1, numbers[column]), *body, allow]
    return [*found, allow]
