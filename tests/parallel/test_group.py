"""What a rank does without the others at hand: its threads, its errors, and its lifeline."""

import socket
import subprocess
import sys

import pytest

from numformer import backend
from numformer.commands import UsageError
from numformer.commands.parallel import ranks

# Rank 1 of 3 holds a lifeline with a rank 0 that is played here.
PEER = """
import socket, sys, time
from types import SimpleNamespace
from numformer.commands.parallel.lifeline import Lifeline
address = "here", int(sys.argv[1]), b"t" * 16
comm = SimpleNamespace(rank=1, size=3, bcast=lambda value, root: address)
lifeline = Lifeline(comm, True, "numformer train --resume --out r")
print("connected", flush=True)
if sys.argv[2] == "report":
    lifeline.report("numformer: the disk is full")
elif sys.argv[2] == "close":
    lifeline.close()
    time.sleep(0.5)
    sys.exit(7)
time.sleep(30)
"""


class Comm:
    """A communicator of ranks that all say the same, but for those in `others`."""

    def __init__(self, rank=0, size=4, others=None):
        self.rank, self.size, self.others = rank, size, others

    def allgather(self, value):
        return [value if self.others is None or rank == self.rank else self.others[rank]
                for rank in range(self.size)]

    def bcast(self, value, root):
        return value


ALL, HALVES = [range(16)] * 4, [range(8), range(8), range(8, 16), range(8, 16)]
SINGLE = [range(k, k + 1) for k in range(4)]


@pytest.mark.parametrize("cores, wanted, threads, note", [
    (ALL, None, 4, ""), (HALVES, None, 4, ""), (SINGLE, None, 1, ""), ([range(2)] * 4, None, 1, ""),
    (ALL, 4, 4, ""), (ALL, 5, 5, "16 for 4 of them"), (HALVES, 4, 4, ""),
    (HALVES, 5, 5, "8 for 2 of them"), (SINGLE, 1, 1, ""), (SINGLE, 2, 2, "1 for 1 of them")])
@pytest.mark.parametrize("machines", [1, 2])
def test_no_core_is_used_twice(cores, wanted, threads, note, machines, monkeypatch, capsys):
    """On two machines, each with all of these ranks, as on one."""
    places = [(f"node{n}", frozenset(own)) for n in range(machines) for own in cores]
    monkeypatch.setattr(ranks, "_cores", lambda: places[0][1])
    monkeypatch.setattr(ranks.socket, "gethostname", lambda: places[0][0])
    monkeypatch.setattr(backend, "get_threads", lambda: len(cores[0]))
    made = ranks.Ranks(Comm(size=len(places), others=places))
    assert made.threads(wanted) == threads and made.one_machine == (machines == 1)
    said = capsys.readouterr().err
    assert note in said and bool(said) == bool(note)


def test_an_error_of_one_rank_is_one_of_all():
    group = ranks.Ranks(Comm())
    group.comm.others = [None, None, "OSError: no such file", None]
    with pytest.raises(UsageError, match="rank 2: OSError: no such file"):
        with group.together():
            pass
    group.comm.others = [None] * 4
    with pytest.raises(KeyError, match="own"):
        with group.together():
            raise KeyError("own")
    with group.together():
        pass


def test_a_folder_that_cannot_be_made_is_an_error_and_no_folder():
    def refused():
        raise UsageError("in use")

    with pytest.raises(UsageError, match="in use"):
        ranks.Ranks(Comm()).folder(refused)


def peer(what):
    """(the process of rank 1, our end of its lifeline)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = subprocess.Popen([sys.executable, "-c", PEER, str(server.getsockname()[1]), what],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        connection, _ = server.accept()
    assert connection.recv(20, socket.MSG_WAITALL) == b"t" * 16 + (1).to_bytes(4, "big")
    assert process.stdout.readline() == "connected\n"
    return process, connection


@pytest.mark.parametrize("last, said", [(b"", "rank 0 has ended unexpectedly"), (b"!", "")])
def test_a_rank_ends_when_rank_0_does(last, said):
    process, connection = peer("wait")
    connection.sendall(last)
    connection.close()
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1 and said in err and bool(err) == bool(said)
    if said:
        assert "Resume with: numformer train --resume --out r" in err


@pytest.mark.slow
def test_an_end_as_it_should_be_is_no_accident():
    process, connection = peer("close")
    assert connection.recv(1) == b"."
    connection.sendall(b".")
    connection.close()
    assert process.communicate(timeout=300)[1] == "" and process.returncode == 7


def test_a_failing_rank_says_why_and_the_others_need_not():
    process, connection = peer("report")
    assert connection.recv(1) == b"!"
    connection.close()
    assert "numformer: the disk is full" in process.communicate(timeout=300)[1]
