r"""Shards over the ranks of MPI: each rank runs its own shards, and owns a part of the parameters.

A step has two large exchanges. With P parameters of b bytes on N ranks, each rank sends about

.. math:: \underbrace{r\, b P \frac{N - 1}{N}}_{\text{gradients to their owners}}
          + \underbrace{b P \frac{N - 1}{N}}_{\text{parameters to all}}

bytes, and between them a few numbers: losses, and a sum of squares a chunk, for the norm. r is the
number of subtrees of its shards, 1 where N divides the number of shards into powers of 2; then it
is what a ring all-reduce sends. What a rank receives needs :math:`r b P (N - 1) / N` bytes of
memory.

The owner adds the subtrees of all ranks by the tree of `numformer.training.parallel.tree`, so the
sum has the same bits for every N, and moves its part by the optimizer, whose moments nobody else
keeps: ZeRO, stage 1.

References
----------
Li et al. (2020), "PyTorch Distributed": buckets that are sent during the backward.
Rajbhandari et al. (2020), "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
section 5.1.
"""

import threading
from typing import NamedTuple

import numpy as np

from numformer.backend import run_by_shares
from numformer.training.clipping import squared_norms
from numformer.training.evaluation import mean_of, totals_of
from numformer.training.optimizer import bounds_of
from numformer.training.parallel.buckets import blocks_of, buckets_of, watched
from numformer.training.parallel.shards import Shards
from numformer.training.parallel.tree import fold, roots


class Segment(NamedTuple):
    """A part of a vector of parameters: of one bucket, and of one owner."""

    vector: int
    start: int
    stop: int
    bucket: str
    owner: int


class RankShards(Shards):
    """The shards of one rank.

    Parameters
    ----------
    model, optimizer, config
        As in `Shards`; the optimizer keeps its moments in part from now on.
    comm : mpi4py.MPI.Comm
    """

    def __init__(self, model, optimizer, config, comm):
        self.comm, self.rank, self.n_ranks = comm, comm.rank, comm.size
        if config.shards < comm.size:
            raise ValueError(f"{comm.size} ranks need as many shards, but --shards is "
                             f"{config.shards}; give --shards {comm.size} or more.")
        first = [config.shards * rank // comm.size for rank in range(comm.size + 1)]
        super().__init__(model, optimizer, config, range(first[self.rank], first[self.rank + 1]))
        self.blocks = [blocks_of(replica) for replica in self.replicas]
        self.subtrees = [roots(config.shards, *ends) for ends in zip(first, first[1:])]
        chunks = shared_out(optimizer, comm.size)
        places = {chunk: place for place, chunk in enumerate(sum(chunks, []))}
        self.order = [places[chunk] for chunk in optimizer.chunks]    # in what `_sum` gathers
        self.bounds = [bounds_of(own, len(optimizer.flat)) for own in chunks]
        optimizer.keep(chunks[self.rank])
        self.segments = _segments(optimizer.flat, buckets_of(model), self.bounds)
        self.received = {}            # by rank and subtree: its parts of what this rank owns
        for rank in self._others():
            for root in self.subtrees[rank]:
                self.received[rank, root] = [
                    np.empty(stop - start, flat.data.dtype)
                    for flat, (start, stop) in zip(optimizer.flat, self.bounds[self.rank])]
        self.lock, self.bytes_sent, self.any_thread = threading.Lock(), 0, _any_thread_may_call()
        for flat in optimizer.flat:
            comm.Bcast(flat.data, root=0)
        for _, parameter in model.named_parameters():
            if not parameter.trained:                 # in no vector, and equal everywhere as well
                comm.Bcast(parameter.data, root=0)

    def gradient(self, batch, step):
        with np.errstate(over="ignore", invalid="ignore"):
            # Shards that have not left a block yet; the rest is never left, and sent by `_sum`
            self.running = {name: len(self.replicas) for name in {s.bucket for s in self.segments}}
            self.sent, self.pending = set(), self._receive()
            return super().gradient(batch, step)

    def _forward_backward(self, k, shard, rng, totals, number):
        if number < self.config.accumulation - 1:
            return super()._forward_backward(k, shard, rng, totals, number)
        with watched(self.blocks[k], self._finished):
            return super()._forward_backward(k, shard, rng, totals, number)

    def _finished(self, bucket):
        """One shard has left a block; after the last of them its gradients are sent.

        If this thread may not call MPI, they are sent at the end.
        """
        with self.lock:
            self.running[bucket] = self.running.get(bucket, 0) - 1
            if self.running[bucket] == 0 and (
                    self.any_thread or threading.current_thread() is threading.main_thread()):
                self._send(bucket)

    def _send(self, bucket):
        """Add the gradients of a bucket over the subtrees of this rank, and send them."""
        self.sent.add(bucket)
        for number, segment in enumerate(self.segments):
            if segment.bucket != bucket:
                continue
            arrays = {(own, own + 1): gradient[segment.vector][segment.start:segment.stop]
                      for own, gradient in zip(self.own, self.gradients)}
            for root in self.subtrees[self.rank]:
                total = fold(arrays, *root)
                if segment.owner != self.rank:
                    self.pending.append(self.comm.Isend(
                        total, segment.owner, self._tag(number, root)))
                    self.bytes_sent += total.nbytes
        for request in self.pending:                  # MPI moves what is under way when it is asked
            request.Test()

    def _receive(self):
        """Requests for the parts of other ranks' gradients that this rank owns."""
        found = []
        for number, segment in enumerate(self.segments):
            if segment.owner == self.rank:
                first = self.bounds[self.rank][segment.vector][0]
                for (rank, root), vectors in self.received.items():
                    part = vectors[segment.vector][segment.start - first:segment.stop - first]
                    found.append(self.comm.Irecv(part, rank, self._tag(number, root)))
        return found

    def _tag(self, number, root):
        return number * self.config.shards + root[0]

    def _sum(self, losses):
        for bucket in self.running.keys() - self.sent:
            self._send(bucket)
        for request in self.pending:
            request.Wait()
        squares = run_by_shares(self._add, self.optimizer.chunks)
        found = self.comm.allgather((losses, squares))
        # of each part, the losses of all shards in their order
        losses = [sum(parts, []) for parts in zip(*(losses for losses, _ in found))]
        squares = sum((squares for _, squares in found), [])
        return losses, [squares[place] for place in self.order]       # as in one process

    def _add(self, chunk):
        """Add a chunk that this rank owns over the subtrees of all ranks."""
        k, first = chunk.vector, self.bounds[self.rank][chunk.vector][0]
        own = chunk.of(self.gradients[0][k])
        arrays = {root: chunk.of(vectors[k], first)
                  for (_, root), vectors in self.received.items()}
        for root in self.subtrees[self.rank]:
            arrays[root] = chunk.of(self.gradients[root[0] - self.own[0]][k])
        total = fold(arrays, 0, self.config.shards)
        if total is not own:
            own[...] = total
        return squared_norms([own])[0]

    def whole_gradient(self):
        for k, flat in enumerate(self.optimizer.flat):
            self._gather(k, flat.grad)

    def share(self):
        for k, flat in enumerate(self.optimizer.flat):
            self._gather(k, flat.data)
            start, stop = self.bounds[self.rank][k]
            self.bytes_sent += (self.n_ranks - 1) * (stop - start) * flat.data.itemsize

    def _gather(self, k, vector):
        """Complete vector k on all ranks: each has the part that it owns."""
        from mpi4py import MPI

        starts, counts = self._parts(k)
        self.comm.Allgatherv(MPI.IN_PLACE, [vector, counts, starts, _type_of(vector)])

    def _parts(self, k):
        starts = [bounds[k][0] for bounds in self.bounds]
        return starts, [bounds[k][1] - start for bounds, start in zip(self.bounds, starts)]

    def agree(self, stop):
        return any(self.comm.allgather(bool(stop)))

    def mean_loss(self, batches, should_stop):
        if not batches:
            return super().mean_loss(batches, should_stop)
        own = totals_of(self.model, batches[self.rank::self.n_ranks], should_stop)
        return mean_of(sum(self.comm.allgather(own), []), self.model)

    def optimizer_state(self):
        """The state of the optimizer, whole, on rank 0; elsewhere nothing."""
        def whole(k, vector):
            starts, counts = self._parts(k)
            found = np.empty_like(self.optimizer.flat[k].data) if self.rank == 0 else None
            self.comm.Gatherv(vector, found if found is None else
                              [found, counts, starts, _type_of(found)], root=0)
            return found

        return self.optimizer.state_dict(whole)

    def _others(self):
        return [rank for rank in range(self.n_ranks) if rank != self.rank]


def shared_out(optimizer, n_ranks):
    """The chunks of each rank: neighbours in each vector, with about equal bytes of moments.

    The vector with the largest chunks (Muon's matrices) comes first; the others fill up those who
    have less.

    Returns
    -------
    list of list of Chunk
    """
    moments = [max(1, len(moments)) for moments in optimizer.state]
    parts = [[chunk for chunk in optimizer.chunks if chunk.vector == k]
             for k in range(len(optimizer.flat))]
    weights = [np.array([count * (chunk.stop - chunk.start) for chunk in part], float)
               for count, part in zip(moments, parts)]
    target = sum(each.sum() for each in weights) / n_ranks
    loads, owned = np.zeros(n_ranks), [[] for _ in range(n_ranks)]
    for k in sorted(range(len(parts)), key=lambda k: -weights[k].max(initial=0)):
        wanted = np.maximum(target - loads, 1e-9 * target)
        ends = np.cumsum(wanted) / wanted.sum() * weights[k].sum()
        for chunk, weight, stop in zip(parts[k], weights[k], np.cumsum(weights[k])):
            owner = min(int(np.searchsorted(ends, stop - weight / 2)), n_ranks - 1)
            owned[owner].append(chunk)
            loads[owner] += weight
    return owned


def _segments(flat, buckets, bounds):
    """The Segments of all vectors, in their order: the same on every rank."""
    found = []
    for k, vectors in enumerate(flat):
        runs, start = [], 0                           # [start, stop, bucket]
        for name, parameter in vectors.parameters.items():
            stop = start + parameter.data.size
            if runs and runs[-1][2] == buckets[name]:
                runs[-1][1] = stop
            else:
                runs.append([start, stop, buckets[name]])
            start = stop
        for owner, parts in enumerate(bounds):
            for start, stop, bucket in runs:
                start, stop = max(start, parts[k][0]), min(stop, parts[k][1])
                if start < stop:
                    found.append(Segment(k, start, stop, bucket, owner))
    return found


def _any_thread_may_call():
    from mpi4py import MPI

    return MPI.Query_thread() >= MPI.THREAD_SERIALIZED                # one at a time: see `lock`


def _type_of(vector):
    from mpi4py import MPI

    return MPI.DOUBLE if vector.dtype == np.float64 else MPI.FLOAT
