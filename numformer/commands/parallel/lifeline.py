"""A connection that notices when a rank dies: MPI itself would wait for it without end.

Every rank holds a TCP connection with rank 0. The operating system closes those of a process that
ends, however it ends, and the other side learns of it at once.
"""

import os
import secrets
import selectors
import socket
import threading
from contextlib import suppress

FINISHED, REPORTED = b".", b"!"                       # the last byte: all is well, or told why
PATIENCE = 20.0                                       # seconds for a connection
# An address that answers no more, as of a machine without power, is given up after about 10 s
KEEPALIVE = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}


class Lifeline:
    """The connections of one rank, watched by a thread.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    one_machine : bool
        Whether all ranks run on one.
    resume : str
        The command that continues the run, for the message.
    """

    def __init__(self, comm, one_machine, resume):
        self.rank, self.resume = comm.rank, resume
        self.peers = _accepted(comm, one_machine) if comm.rank == 0 else _connected(
            comm, one_machine)                        # rank: socket
        threading.Thread(target=self._watch, daemon=True).start()

    def report(self, line):
        """Print a line, and end all other ranks without another one."""
        _print(line)
        self._tell(REPORTED)

    def close(self):
        """This rank has finished: its end is no accident."""
        self._tell(FINISHED)

    def _tell(self, byte):
        for peer in self.peers.values():
            with suppress(OSError):
                peer.sendall(byte)

    def _watch(self):
        with selectors.DefaultSelector() as selector:
            for rank, peer in self.peers.items():
                selector.register(peer, selectors.EVENT_READ, rank)
            while selector.get_map():
                for key, _ in selector.select():
                    last = b""
                    with suppress(OSError):
                        last = key.fileobj.recv(1)
                    if last == FINISHED:
                        selector.unregister(key.fileobj)
                    else:
                        self._end(key.data, last == REPORTED)

    def _end(self, rank, is_reported):
        """Rank `rank` has died: end this one. Rank 0 says so, and rank 1 if it was rank 0."""
        if not is_reported and (self.rank == 0 or self.rank == 1):
            _print(f"numformer: rank {rank} has ended unexpectedly, and so all ranks end; the last "
                   f"checkpoint is intact. Resume with: {self.resume}")
        self._tell(REPORTED)
        os._exit(1)


def _accepted(comm, one_machine):
    """Rank 0: the connections of all others."""
    host = "127.0.0.1" if one_machine else ""
    with socket.create_server((host, 0), backlog=comm.size) as server:
        token = secrets.token_bytes(16)
        comm.bcast((socket.gethostname(), server.getsockname()[1], token), root=0)
        server.settimeout(PATIENCE)
        peers = {}
        while len(peers) < comm.size - 1:
            peer, _ = server.accept()
            peer.settimeout(PATIENCE)
            greeting = peer.recv(20, socket.MSG_WAITALL)
            if greeting[:16] == token:                # nobody else's
                peers[int.from_bytes(greeting[16:], "big")] = _kept_alive(peer)
    return peers


def _connected(comm, one_machine):
    """Other ranks: the connection with rank 0."""
    host, port, token = comm.bcast(None, root=0)
    peer = socket.create_connection(("127.0.0.1" if one_machine else host, port), PATIENCE)
    peer.sendall(token + comm.rank.to_bytes(4, "big"))
    return {0: _kept_alive(peer)}


def _kept_alive(peer):
    peer.settimeout(None)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return peer


def _print(line):
    with suppress(OSError):
        os.write(2, f"\n{line}\n".encode())
