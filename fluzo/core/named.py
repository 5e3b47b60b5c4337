"""Named tuples as those of `typing`, made in a third of the time.

A run defines two hundred of them before it does anything, and `typing` has each one's constructor written as text and
compiled. Here one is compiled for each number of fields, and the names are put into a copy. Invariant: what is made has
the fields, defaults, order and methods of a named tuple (https://docs.python.org/3/library/typing.html#typing.NamedTuple),
without type parameters. For a type checker it is that class.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 14):  # From 3.14 on a class body no longer holds its annotations.
    from typing import NamedTuple
else:
    from functools import cache
    from operator import itemgetter
    from types import FunctionType

    try:
        from _collections import _tuplegetter as getter
    except ImportError:

        def getter(number, doc):
            return property(itemgetter(number), doc=doc)

    class _Fields(tuple):
        __slots__ = ()

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changed):
            made = self._make(map(changed.pop, self._fields, self))
            if changed:
                raise ValueError(f"Got unexpected field names: {list(changed)!r}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({fields})"

        def __getnewargs__(self):
            return tuple(self)

    @cache
    def _constructor(count):
        names = ", ".join(f"_{number}" for number in range(count))
        source = f"lambda _cls, {names}: _new(_cls, ({names},))" if count else "lambda _cls: _new(_cls, ())"
        return eval(source, {"_new": tuple.__new__}).__code__

    class _Meta(type):
        def __new__(cls, name, bases, body):
            if bases == (_Fields,):
                return super().__new__(cls, name, bases, body)
            names = tuple(body.get("__annotations__", {}))
            defaults = {field: body.pop(field) for field in names if field in body}
            if list(names[len(names) - len(defaults) :]) != list(defaults):
                raise TypeError("Fields without a default follow one with it")
            told = {"co_name": "__new__", "co_qualname": f"{body['__qualname__']}.__new__"}
            code = _constructor(len(names)).replace(co_varnames=("_cls", *names), **told)
            new = FunctionType(code, {"_new": tuple.__new__}, "__new__", tuple(defaults.values()))
            made = {"__slots__": (), "_fields": names, "_field_defaults": defaults, "__match_args__": names}
            getters = {field: getter(number, None) for number, field in enumerate(names)}
            return type.__new__(type, name, (_Fields,), {**body, **made, **getters, "__new__": new})

    class NamedTuple(_Fields, metaclass=_Meta):
        pass


__all__ = ["NamedTuple"]
