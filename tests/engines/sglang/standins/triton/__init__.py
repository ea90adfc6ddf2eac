# SPDX-License-Identifier: Apache-2.0
"""Stands in for triton, whose compilers take 900 MB and produce nothing for a CPU.

SGLang and torch define kernels with it at import. Here definitions succeed and have no effect: a
decorator gives back the function it was given, a capitalised name is an empty class, anything else
an object that can be called, indexed and combined. Nothing is ever run.
"""
import importlib.abc
import importlib.machinery
import sys
import types

__version__ = "3.8.0"  # some importers compare it
__path__ = []


class _Inert:
    """What a name that isn't a class stands for; by itself a decorator too, with arguments or
    without."""

    def __call__(self, *given, **_):
        if len(given) == 1 and isinstance(given[0], (type, types.FunctionType)):
            return given[0]
        return self

    def __getattr__(self, name):
        return _attribute(name)

    def __getitem__(self, _):
        return self

    def __or__(self, _):
        return object  # an annotation: "tl.tensor | None"

    __ror__ = __or__

    def __bool__(self):
        return False

    def __iter__(self):
        return iter(())

    def __mro_entries__(self, _):
        return (object,)


def _attribute(name):
    if name.startswith("__"):  # how Python asks for what an object can do
        raise AttributeError(name)
    if name in ("driver", "active"):  # torch takes the error as "no device"
        raise RuntimeError("triton's stand-in has no driver")
    if name[0].isupper() or name == "constexpr":  # names used in isinstance()
        return type(name, (), {"__init__": lambda self, *_, **__: None})
    return _Inert()


class _Module(types.ModuleType):
    """triton.<anything>: every name is in it."""

    def __getattr__(self, name):
        value = _attribute(name)
        setattr(self, name, value)  # one class for all who ask
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("triton."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, _Finder())
sys.modules[__name__].__class__ = _Module


def cdiv(dividend, divisor):
    return -(-dividend // divisor)


def next_power_of_2(number):
    return 1 << (number - 1).bit_length()
