"""Views of memory that cost nothing, addresses, and copies."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from numformer.kernels.runtime.compile import inlined


@intrinsic
def unowned(context, array):
    """The same array without ownership: without its reference counter, which the caller holds.

    Threads that slice one array would otherwise contend for that counter.
    """
    def generate(context, builder, signature, arguments):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), generate


@intrinsic
def row(context, x, i):
    """Row i of a matrix with contiguous rows, with a type that says so.

    Only then does a loop along the row vectorize.
    """
    vector = types.Array(x.dtype, 1, "C")

    def generate(context, builder, signature, arguments):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        result = context.make_array(vector)(context, builder)
        length = cgutils.unpack_tuple(builder, view.shape)[1]
        stride = cgutils.unpack_tuple(builder, view.strides)[0]
        size = _itemsize(context, x.dtype)
        start = cgutils.pointer_add(builder, view.data, builder.mul(arguments[1], stride))
        populate_array(result, start, shape=[length], strides=[size], itemsize=size, meminfo=None)
        return result._getvalue()

    return vector(x, types.intp), generate


@intrinsic
def matrix_view(context, workspace, n, rows, columns):
    """A contiguous matrix (rows, columns) that begins where row n of `workspace` begins."""
    matrix = types.Array(workspace.dtype, 2, "C")

    def generate(context, builder, signature, arguments):
        workspace, n, rows, columns = arguments
        view = context.make_array(signature.args[0])(context, builder, workspace)
        result = context.make_array(matrix)(context, builder)
        stride = cgutils.unpack_tuple(builder, view.strides)[0]
        start = cgutils.pointer_add(builder, view.data, builder.mul(n, stride))
        size = _itemsize(context, matrix.dtype)
        populate_array(result, start, shape=[rows, columns],
                       strides=[builder.mul(columns, size), size], itemsize=size, meminfo=None)
        return result._getvalue()

    return matrix(workspace, types.intp, types.intp, types.intp), generate


@intrinsic
def matrix_at(context, address, rows, columns, stride, like):
    """A matrix (rows, columns) at an address, of the dtype of `like`.

    Its rows are `stride` numbers apart. The caller keeps the memory alive.
    """
    matrix = types.Array(like.dtype, 2, "A")

    def generate(context, builder, signature, arguments):
        address, rows, columns, stride, _ = arguments
        result = context.make_array(matrix)(context, builder)
        size = _itemsize(context, matrix.dtype)
        start = builder.inttoptr(address, context.get_data_type(matrix.dtype).as_pointer())
        populate_array(result, start, shape=[rows, columns],
                       strides=[builder.mul(stride, size), size], itemsize=size, meminfo=None)
        return result._getvalue()

    return matrix(types.intp, types.intp, types.intp, types.intp, like), generate


@intrinsic(prefer_literal=True)
def local_matrix(context, rows, columns, like):
    """A contiguous matrix of a fixed size on the stack, from a cache line on, for this call."""
    matrix = types.Array(like.dtype, 2, "C")

    def generate(context, builder, signature, arguments):
        real, (I, J) = context.get_data_type(matrix.dtype), (rows.literal_value,
                                                             columns.literal_value)
        memory = cgutils.alloca_once(builder, real, size=I * J)
        memory.align = 64
        size = context.get_abi_sizeof(real)
        result = context.make_array(matrix)(context, builder)
        shape, strides, itemsize = (
            [context.get_constant(types.intp, n) for n in sizes]
            for sizes in ((I, J), (J * size, size), (size,)))
        populate_array(result, memory, shape=shape, strides=strides, itemsize=itemsize[0],
                       meminfo=None)
        return result._getvalue()

    return matrix(rows, columns, like), generate


def _itemsize(context, dtype):
    return context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(dtype)))


@intrinsic
def transpose_block(context, x, i, d, xt):
    """xt[d:d+8, i:i+8] = x[i:i+8, d:d+8]', in vector registers.

    Each of the first four rows is interleaved with the row four below it. After three such rounds
    the rows are the columns.
    """
    LOW, HIGH = [0, 8, 1, 9, 2, 10, 3, 11], [4, 12, 5, 13, 6, 14, 7, 15]

    def generate(context, builder, signature, arguments):
        x, i, d, xt = arguments
        real = context.get_data_type(signature.args[0].dtype)
        eight, size = ir.VectorType(real, 8), context.get_abi_sizeof(real)
        indices = ir.VectorType(ir.IntType(32), 8)

        def row_pointers(matrix, kind, row, column):
            view = context.make_array(kind)(context, builder, matrix)
            stride = cgutils.unpack_tuple(builder, view.strides)[0]
            start = builder.gep(view.data, [column])
            steps = (builder.mul(stride, builder.add(row, context.get_constant(types.intp, n)))
                     for n in range(8))
            return [builder.bitcast(cgutils.pointer_add(builder, start, step), eight.as_pointer())
                    for step in steps]

        rows = [builder.load(pointer, align=size)
                for pointer in row_pointers(x, signature.args[0], i, d)]
        for _ in range(3):
            rows = [builder.shuffle_vector(rows[n], rows[n + 4], ir.Constant(indices, picked))
                    for n in range(4) for picked in (LOW, HIGH)]
        for pointer, column in zip(row_pointers(xt, signature.args[3], d, i), rows):
            builder.store(column, pointer, align=size)

    return types.void(x, types.intp, types.intp, xt), generate


@inlined
def transpose(x, xt):
    """Copy x (I, D) transposed into xt (D, I). Rows of both are contiguous."""
    I, D = x.shape
    whole_i, whole_d = I // 8 * 8, D // 8 * 8
    for i in range(0, whole_i, 8):
        for d in range(0, whole_d, 8):
            transpose_block(x, i, d, xt)
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


@inlined
def packed_copy(x, workspace, n):
    """A contiguous copy of x at row n of `workspace`, which begins at a cache line.

    With such a matrix on the right, a product in BLAS is at least a tenth faster.
    """
    y = matrix_view(workspace, n, *x.shape)
    copy(x, y)
    return y


@intrinsic
def address_of(context, x):
    """The address of a copy of a number, which BLAS reads."""
    def generate(context, builder, signature, arguments):
        return builder.bitcast(cgutils.alloca_once_value(builder, arguments[0]), cgutils.voidptr_t)

    return types.voidptr(x), generate


@intrinsic
def address_at(context, pointer):
    """A pointer as a number."""
    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(arguments[0], context.get_value_type(types.intp))

    return types.intp(pointer), generate


@intrinsic
def start_of(context, x):
    """The address of an array's first element, as a number."""
    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(view.data, context.get_value_type(types.intp))

    return types.intp(x), generate


@intrinsic
def address_of_element(context, x, i, j):
    """The address of element (i, j) of a matrix."""
    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        row_stride, stride = cgutils.unpack_tuple(builder, view.strides)
        _, i, j = arguments
        offset = builder.add(builder.mul(i, row_stride), builder.mul(j, stride))
        return builder.bitcast(cgutils.pointer_add(builder, view.data, offset), cgutils.voidptr_t)

    return types.voidptr(x, types.intp, types.intp), generate
