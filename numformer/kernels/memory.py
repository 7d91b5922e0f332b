"""Where a kernel's numbers lie, and how they move: views that cost nothing, addresses, copies."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from numformer.kernels.compiled import inlined


@intrinsic
def borrow(context, array):
    """The same array without its reference counter, for which threads that slice one array would fight; the caller keeps it alive."""
    def generate(context, builder, signature, arguments):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), generate


@intrinsic
def row(context, x, i):
    """Row i of a matrix whose rows are contiguous, and known to the compiler as such: only then does a loop along it vectorize."""
    line = types.Array(x.dtype, 1, "C")

    def generate(context, builder, signature, arguments):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        found = context.make_array(line)(context, builder)
        length, stride = cgutils.unpack_tuple(builder, view.shape)[1], cgutils.unpack_tuple(builder, view.strides)[0]
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(x.dtype)))
        start = cgutils.pointer_add(builder, view.data, builder.mul(arguments[1], stride))
        populate_array(found, start, shape=[length], strides=[size], itemsize=size, meminfo=None)
        return found._getvalue()

    return line(x, types.intp), generate


@intrinsic
def carve(context, room, n, rows, columns):
    """A matrix without gaps that begins where row n of `room` begins."""
    matrix = types.Array(room.dtype, 2, "C")

    def generate(context, builder, signature, arguments):
        room, n, rows, columns = arguments
        view, found = context.make_array(signature.args[0])(context, builder, room), context.make_array(matrix)(context, builder)
        start = cgutils.pointer_add(builder, view.data, builder.mul(n, cgutils.unpack_tuple(builder, view.strides)[0]))
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(matrix.dtype)))
        populate_array(found, start, shape=[rows, columns], strides=[builder.mul(columns, size), size], itemsize=size, meminfo=None)
        return found._getvalue()

    return matrix(room, types.intp, types.intp, types.intp), generate


@intrinsic
def matrix_at(context, place, rows, columns, stride, like):
    """A matrix that begins at an address, its rows `stride` numbers apart, of the type of those of `like`; the caller keeps it."""
    matrix = types.Array(like.dtype, 2, "A")

    def generate(context, builder, signature, arguments):
        place, rows, columns, stride, _ = arguments
        found, real = context.make_array(matrix)(context, builder), context.get_data_type(matrix.dtype)
        size = context.get_constant(types.intp, context.get_abi_sizeof(real))
        populate_array(found, builder.inttoptr(place, real.as_pointer()), shape=[rows, columns],
                       strides=[builder.mul(stride, size), size], itemsize=size, meminfo=None)
        return found._getvalue()

    return matrix(types.intp, types.intp, types.intp, types.intp, like), generate


@intrinsic
def turn_block(context, x, i, d, xt):
    """xt[d:d+8, i:i+8] = x[i:i+8, d:d+8]', in registers.

    Each row of the first four is shuffled, like cards, with the one four below it. After three times the rows are columns.
    """
    def generate(context, builder, signature, arguments):
        x, i, d, xt = arguments
        real = context.get_data_type(signature.args[0].dtype)
        eight, size = ir.VectorType(real, 8), context.get_abi_sizeof(real)

        def places(matrix, of, row, column):
            view = context.make_array(of)(context, builder, matrix)
            stride = cgutils.unpack_tuple(builder, view.strides)[0]
            start = builder.gep(view.data, [column])
            steps = (builder.mul(stride, builder.add(row, context.get_constant(types.intp, n))) for n in range(8))
            return [builder.bitcast(cgutils.pointer_add(builder, start, step), eight.as_pointer()) for step in steps]

        rows = [builder.load(place, align=size) for place in places(x, signature.args[0], i, d)]
        for _ in range(3):
            rows = [builder.shuffle_vector(rows[n], rows[n + 4], ir.Constant(ir.VectorType(ir.IntType(32), 8), picked))
                    for n in range(4) for picked in ([0, 8, 1, 9, 2, 10, 3, 11], [4, 12, 5, 13, 6, 14, 7, 15])]
        for place, column in zip(places(xt, signature.args[3], d, i), rows):
            builder.store(column, place, align=size)

    return types.void(x, types.intp, types.intp, xt), generate


@inlined
def transpose(x, xt):
    """Copy (I, D) into (D, I). Rows of both are contiguous."""
    I, D = x.shape
    whole_i, whole_d = I // 8 * 8, D // 8 * 8
    for i in range(0, whole_i, 8):
        for d in range(0, whole_d, 8):
            turn_block(x, i, d, xt)
    for i in range(I):
        for d in range(whole_d if i < whole_i else 0, D):
            xt[d, i] = x[i, d]


@inlined
def clear(x):
    """Write zeros into x."""
    zero = x.dtype.type(0)
    for i in range(x.shape[0]):
        x_i = row(x, i)
        for d in range(x.shape[1]):
            x_i[d] = zero


@inlined
def copy(x, y):
    """Copy x into y."""
    for i in range(x.shape[0]):
        x_i, y_i = row(x, i), row(y, i)
        for d in range(x.shape[1]):
            y_i[d] = x_i[d]


@intrinsic
def address(context, x):
    """Where a number lies: BLAS wants to know."""
    def generate(context, builder, signature, arguments):
        return builder.bitcast(cgutils.alloca_once_value(builder, arguments[0]), cgutils.voidptr_t)

    return types.voidptr(x), generate


@intrinsic
def element(context, x, i, j):
    """Where an element of a matrix lies."""
    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        row_stride, stride = cgutils.unpack_tuple(builder, view.strides)
        offset = builder.add(builder.mul(arguments[1], row_stride), builder.mul(arguments[2], stride))
        return builder.bitcast(cgutils.pointer_add(builder, view.data, offset), cgutils.voidptr_t)

    return types.voidptr(x, types.intp, types.intp), generate
