"""Tiles of matrix products in vector registers: some rows of a factor times a panel of the other.

Numba has no vectors of its own, so this module writes LLVM's. LLVM makes of them the instructions
that the processor has: AVX-512, AVX2 or NEON.
"""

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

VECTOR_BYTES = 64                       # of one vector: a cache line
VECTORS = 3                             # across a panel
PANEL_BYTES = VECTORS * VECTOR_BYTES    # a row of a panel: 48 columns of float32, 24 of float64
PREFETCH_BYTES = 3072                   # how far ahead a panel is requested from memory
PREFETCH_TERMS = 24                     # how far ahead the factor of a panel in the cache is
SAME, BFLOAT16, INT8 = range(3)         # how the numbers of a panel are stored: as x, or smaller
ITEM_BYTES = {BFLOAT16: 2, INT8: 1}


def most_rows():
    """Rows of the largest tile whose sums fit into the registers, next to what they add up.

    AVX-512 has 32 registers of 64 bytes: 8 rows of 3 vectors leave 8. AVX2 has 16 of 32 bytes and
    NEON 32 of 16 bytes: 2 rows leave 4 and 8.
    """
    return 8 if get_host_cpu_features().get("avx512f") else 2


def _multiply_rows(rows):
    """The tile for a number of rows."""
    @intrinsic
    def multiply(context, kind, x, i, start, terms, panel, scale, bias, y, j, column, add):
        """y[j:j+rows, column:] = x[i:i+rows, start:start+terms] panel * scale + bias, or += that.

        `panel` is the address of a matrix (terms, panel width), whose numbers are stored as `kind`
        says. `scale`, which only INT8 has, and `bias` are addresses of vectors. Every sum is one
        chain of additions in the order of the terms, so its bits do not depend on `rows`.
        """
        def generate(context, builder, signature, arguments):
            kind, x, i, start, terms, panel, scale, bias, y, j, column, add = arguments
            tile = _Tile(context, builder, context.get_data_type(signature.args[1].dtype))
            x_rows = tile.rows(signature.args[1], x, i, start, rows)
            y_rows = tile.rows(signature.args[8], y, j, column, rows)
            for stored in (SAME, BFLOAT16, INT8):
                with builder.if_then(builder.icmp_signed("==", kind, kind.type(stored))):
                    def prefetch(n, row_of_panel):
                        ahead = builder.add(row_of_panel, terms.type(PREFETCH_BYTES))
                        tile.prefetch(ahead, PANEL_BYTES // tile.size * tile.bytes_of(stored))

                    sums = tile.sums(stored, VECTORS, x_rows, terms.type(tile.size), terms, panel,
                                     prefetch)
                    tile.store(stored, sums, scale, bias, y_rows, add)

        integer = types.intp
        return types.void(integer, x, *6 * [integer], y, *2 * [integer], types.boolean), generate

    return multiply


def _multiply_tile(rows):
    """The tile of `own_product` for a number of rows."""
    @intrinsic
    def multiply(context, vectors, a, a_row, a_term, panel, terms, alpha, c, c_row, add):
        """c = alpha a panel, or c += that, for 1, 2 or 3 vectors of columns.

        a, panel and c are addresses. From a row of `a` to the next it is `a_row` bytes, from a term
        to the next `a_term`; in c it is `c_row` bytes from a row to the next. The numbers are of
        the type of alpha. Every sum is one chain of additions, as in `multiply_8`.
        """
        def generate(context, builder, signature, arguments):
            vectors, a, a_row, a_term, panel, terms, alpha, c, c_row, add = arguments
            tile, integer = _Tile(context, builder, alpha.type), a.type
            a_rows, c_rows = ([
                builder.inttoptr(builder.add(start, builder.mul(step, integer(r))),
                                 tile.real.as_pointer())
                for r in range(rows)] for start, step in ((a, a_row), (c, c_row)))
            ahead = builder.add(a, builder.mul(a_term, integer(PREFETCH_TERMS)))

            def prefetch(n, row_of_panel):
                tile.prefetch(builder.add(ahead, builder.mul(n, a_term)), VECTOR_BYTES)

            for count in range(1, VECTORS + 1):
                with builder.if_then(builder.icmp_signed("==", vectors, integer(count))):
                    for pointer in c_rows:              # c is needed at the end
                        tile.prefetch(builder.ptrtoint(pointer, integer), count * VECTOR_BYTES)
                    sums = tile.sums(SAME, count, a_rows, a_term, terms, panel, prefetch)
                    tile.add(alpha, sums, c_rows, add)

        integer = types.intp
        return types.void(*6 * [integer], alpha, *2 * [integer], types.boolean), generate

    return multiply


class _Tile:
    """The steps of a tile in LLVM's language, with vectors of `lanes` real numbers."""

    def __init__(self, context, builder, real):
        self.context, self.builder, self.real = context, builder, real
        self.size = context.get_abi_sizeof(real)
        self.lanes = VECTOR_BYTES // self.size
        self.type = ir.VectorType(real, self.lanes)
        self.zero = ir.Constant(self.type, [0.0] * self.lanes)

    def rows(self, array_type, array, i, column, rows):
        """Pointers to the elements (i, column), (i + 1, column), ... of a matrix."""
        builder = self.builder
        view = self.context.make_array(array_type)(self.context, builder, array)
        stride = cgutils.unpack_tuple(builder, view.strides)[0]
        first = builder.gep(view.data, [column])
        return [cgutils.pointer_add(builder, first, builder.mul(stride, builder.add(i, i.type(r))))
                for r in range(rows)]

    def bytes_of(self, stored):
        """How many bytes a number of the panel has."""
        return ITEM_BYTES.get(stored, self.size)

    def sums(self, stored, vectors, x_rows, x_term, terms, panel, prefetch):
        """The sums of products of each row with each vector of columns.

        From a term of a row of x to the next it is `x_term` bytes. For each term,
        ``prefetch(its number, the address of its row of the panel)`` is called.
        """
        builder, integer = self.builder, terms.type
        step = vectors * VECTOR_BYTES // self.size * self.bytes_of(stored)
        sums = [[cgutils.alloca_once(builder, self.type) for _ in range(vectors)] for _ in x_rows]
        for row in sums:
            for total in row:
                builder.store(self.zero, total)
        with cgutils.for_range(builder, terms, intp=integer) as loop:
            address = builder.add(panel, builder.mul(loop.index, integer(step)))
            prefetch(loop.index, address)
            weights = [self.weights(stored, address, n) for n in range(vectors)]
            offset = builder.mul(loop.index, x_term)
            for x_row, row in zip(x_rows, sums):
                factor = self.spread(builder.load(cgutils.pointer_add(builder, x_row, offset)))
                for weight, total in zip(weights, row):
                    builder.store(self.fma(factor, weight, builder.load(total)), total)
        return [[builder.load(total) for total in row] for row in sums]

    def store(self, stored, sums, scale, bias, y_rows, add):
        """y = sums * scale + bias, or y += that."""
        builder = self.builder
        for y_row, row in zip(y_rows, sums):
            for n, total in enumerate(row):
                place = self.pointer(y_row, n)
                before = builder.select(add, builder.load(place, align=self.size), self.zero)
                before = builder.fadd(before, self.vector(bias, n))
                if stored == INT8:
                    total = self.fma(total, self.vector(scale, n), before)
                else:
                    total = builder.fadd(total, before)
                builder.store(total, place, align=self.size)

    def add(self, alpha, sums, c_rows, add):
        """c = alpha sums, or c += that."""
        builder, factor = self.builder, self.spread(alpha)
        for c_row, row in zip(c_rows, sums):
            for n, total in enumerate(row):
                place = self.pointer(c_row, n)
                before = builder.select(add, builder.load(place, align=self.size), self.zero)
                builder.store(self.fma(factor, total, before), place, align=self.size)

    def spread(self, number):
        """A vector of equal numbers."""
        nothing, index = ir.Constant(self.type, ir.Undefined), ir.IntType(32)
        one = self.builder.insert_element(nothing, number, index(0))
        everywhere = ir.Constant(ir.VectorType(index, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, nothing, everywhere)

    def pointer(self, start, n):
        """A pointer to vector n from a pointer to real numbers."""
        place = self.builder.gep(start, [ir.IntType(64)(n * self.lanes)])
        return self.builder.bitcast(place, self.type.as_pointer())

    def vector(self, address, n):
        """Vector n of the real numbers at an address."""
        start = self.builder.inttoptr(address, self.real.as_pointer())
        return self.builder.load(self.pointer(start, n), align=self.size)

    def weights(self, stored, address, n):
        """Vector n of a row of the panel, widened to real numbers."""
        if stored == SAME:
            return self.vector(address, n)
        builder, size = self.builder, ITEM_BYTES[stored]
        narrow = ir.VectorType(ir.IntType(8 * size), self.lanes)
        place = builder.add(address, address.type(n * self.lanes * size))
        codes = builder.load(builder.inttoptr(place, narrow.as_pointer()), align=size)
        integers = ir.VectorType(ir.IntType(32), self.lanes)
        if stored == INT8:
            return builder.sitofp(builder.sext(codes, integers), self.type)
        # bfloat16 is the upper half of a float32
        bits = builder.shl(builder.zext(codes, integers), ir.Constant(integers, [16] * self.lanes))
        wide = builder.bitcast(bits, ir.VectorType(ir.FloatType(), self.lanes))
        return wide if self.size == 4 else builder.fpext(wide, self.type)

    def fma(self, a, b, c):
        """a b + c, in one rounding where the processor has such an instruction."""
        name = f"llvm.fmuladd.v{self.lanes}f{8 * self.size}"
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(self.type, 3 * [self.type]), name)
        return self.builder.call(function, [a, b, c])

    def prefetch(self, address, size):
        """Request `size` bytes at an address from memory, for reading, into the first cache."""
        builder, byte, flag = self.builder, ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag]),
            "llvm.prefetch.p0i8")
        for offset in range(0, size, VECTOR_BYTES):
            place = builder.inttoptr(builder.add(address, address.type(offset)), byte)
            builder.call(function, [place, flag(0), flag(3), flag(1)])


MOST_ROWS = most_rows()
multiply_1, multiply_2 = _multiply_rows(1), _multiply_rows(2)
multiply_4, multiply_8 = (_multiply_rows(min(rows, MOST_ROWS)) for rows in (4, 8))
multiply_tile, multiply_one_row = _multiply_tile(MOST_ROWS), _multiply_tile(1)
