"""Ask for memory ahead of its use: an instruction of the processor, without effect on any result."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray


def prefetch(servers: NDArray[Any], index: Any) -> None:
    """Ask for a server to be brought into the cache: compiled code only, without effect on any result."""


@intrinsic
def _prefetch_record(typingctx: Any, servers: Any, index: Any) -> Any:  # noqa: ARG001  numba's own signature
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = context.cast(builder, args[1], signature.args[1], types.intp)
        pointer = builder.bitcast(builder.gep(array.data, [place]), cgutils.voidptr_t)
        word = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, shape, "llvm.prefetch.p0"
        )
        for_write, keep, data = (context.get_constant(types.int32, value) for value in (1, 3, 1))
        builder.call(function, [pointer, for_write, keep, data])
        return context.get_dummy_value()

    return types.void(servers, index), generate


@overload(prefetch)
def _prefetch_compiled(servers: Any, index: Any) -> Any:  # noqa: ARG001  numba reads the signature
    def compiled(servers: Any, index: Any) -> Any:
        return _prefetch_record(servers, index)  # type: ignore[call-arg]  # numba passes the first

    return compiled
