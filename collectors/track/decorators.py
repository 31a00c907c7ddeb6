"""Decorate sync, async, generator and async-generator functions, without importing inspect."""

from __future__ import annotations

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from contextlib import AbstractContextManager
    from typing import Any

    Scope = Callable[[], AbstractContextManager[Any]]

# Bits of co_flags, as the data model documents them; inspect gives them names but costs 20 ms.
_GENERATOR, _COROUTINE, _ITERABLE_COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200


def decorate(function: Callable[..., Any], scope: Scope) -> Callable[..., Any]:
    """Run every call of `function` inside a `scope()`; it stays a function of its kind."""
    if isinstance(function, staticmethod | classmethod):
        return type(function)(decorate(function.__func__, scope))
    flags = _flags(function)
    if flags & _ASYNC_GENERATOR:
        return _async_generator(function, scope)
    if flags & _COROUTINE:
        return _coroutine(function, scope)
    if flags & _GENERATOR and not flags & _ITERABLE_COROUTINE:
        return _generator(function, scope)
    return _plain(function, scope)


def _flags(function: Any) -> int:
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:  # an object with __call__
        code = getattr(vars(type(function)).get("__call__"), "__code__", None)
    return int(getattr(code, "co_flags", 0))


def _plain(function: Callable[..., Any], scope: Scope) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with scope():
            return function(*args, **kwargs)

    return run


def _coroutine(function: Callable[..., Any], scope: Scope) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        with scope():
            return await function(*args, **kwargs)

    return run


def _generator(function: Callable[..., Any], scope: Scope) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with scope():
            return (yield from function(*args, **kwargs))

    return run


def _async_generator(function: Callable[..., Any], scope: Scope) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with scope():
            inner = function(*args, **kwargs)
            step = inner.__anext__()
            while True:
                try:
                    value = await step
                except StopAsyncIteration:
                    return
                try:
                    sent = yield value
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)

    return run
