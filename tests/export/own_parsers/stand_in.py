"""Stand-ins for what an engine imports and its configuration does not need: PyTorch, kernels, loggers.

`install(real)` lets every import that fails give a module whose names are classes that do nothing, except of the
packages in `real`, which must be there. Their own code then runs as it is.
"""

import abc
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types


class Nothing(abc.ABCMeta):
    """The class of stand-in classes: they are called, indexed, compared and used as decorators to no effect."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return made(name)

    def __call__(cls, *arguments, **named):
        if not cls.__dict__.get("is_stand_in"):
            return super().__call__(*arguments, **named)
        if len(arguments) == 1 and not named and callable(arguments[0]):
            return decorated(arguments[0])
        return made(cls.__name__)

    def same(cls, *_):
        return cls

    __getitem__ = __or__ = __ror__ = __add__ = __sub__ = __mul__ = __truediv__ = __enter__ = same

    def __exit__(cls, *_):
        return False

    def __iter__(cls):
        return iter(())

    def __contains__(cls, _):
        return False

    def __len__(cls):
        return 0

    def __index__(cls):
        return 9

    def __int__(cls):
        return 9

    def __float__(cls):
        return 9.0

    def __lt__(cls, _):
        return False

    def __le__(cls, _):
        return False

    def __gt__(cls, _):
        return True

    def __ge__(cls, _):
        return True


def made(name):
    """A stand-in called `name`."""
    names = {"is_stand_in": True, "__module__": "stand_in", "__init__": lambda self, *arguments, **named: None}
    return Nothing(name, (), names)


def decorated(function):
    """What a stand-in decorator makes of `function`: itself, with the names that an operator of PyTorch has."""
    if isinstance(function, types.FunctionType):
        for name in ("register_fake", "register_autograd", "register_kernel"):
            setattr(function, name, lambda *arguments, **_: arguments[0] if arguments else (lambda inner: inner))
    return function


class Module(types.ModuleType):
    def __getattr__(self, name):
        if name == "__version__":
            return "2.11.0"
        if name.startswith("__"):
            raise AttributeError(name)
        below = sys.modules.get(f"{self.__name__}.{name}")
        value = made(name) if below is None else below
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, real):
        self.real = {*real, *sys.stdlib_module_names}

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.real:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def install(real):
    """Lets imports that fail give stand-ins, except of the packages `real`; unknown packages have a high version."""
    sys.meta_path.append(Finder(real))
    known = importlib.metadata.version

    def version(name):
        try:
            return known(name)
        except importlib.metadata.PackageNotFoundError:
            return "99.0.0"

    importlib.metadata.version = version
