"""The parts of FLA's dispatch that a backend meets, written anew: who is asked, in what order, and who runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar


class BaseBackend:
    backend_type: ClassVar[str] = "base"
    env_var: str | None = None
    default_enable: ClassVar[bool] = True
    priority: ClassVar[int] = 5

    def is_enabled(self) -> bool:
        default = "1" if self.default_enable else "0"
        return self.env_var is None or os.environ.get(self.env_var, default) != "0"

    def verify(self, name: str, *arguments: Any, **options: Any) -> tuple[bool, str | None]:
        try:
            found: tuple[bool, str | None] = getattr(self, f"{name}_verifier")(*arguments, **options)
        except Exception as error:
            return False, str(error)
        return found


class Registry:
    """Of one group of functions; ``refusals`` are those that callers would find in a log."""

    def __init__(self) -> None:
        self.backends: dict[str, BaseBackend] = {}
        self.refusals: list[str | None] = []

    def register(self, backend: BaseBackend) -> None:
        self.backends[backend.backend_type] = backend

    def dispatched(self, default: Callable[..., Any]) -> Callable[..., Any]:
        name = default.__name__

        def wrapper(*arguments: Any, **options: Any) -> Any:
            for backend in sorted(self.backends.values(), key=lambda backend: backend.priority):
                if not backend.is_enabled():
                    continue
                taken, reason = backend.verify(name, *arguments, **options)
                if taken:
                    return getattr(backend, name)(*arguments, **options)
                self.refusals.append(reason)
            return default(*arguments, **options)

        return wrapper


def current(registry: Registry) -> dict[str, ModuleType]:
    """The modules of 0.6: ``fla.backends.register`` finds the registry by the name of its group."""
    dispatch = ModuleType("fla.backends")
    registries = {"gated_delta_rule": registry}

    def register(group: str) -> Callable[[type[BaseBackend]], type[BaseBackend]]:
        def decorator(backend: type[BaseBackend]) -> type[BaseBackend]:
            registries[group].register(backend())
            return backend

        return decorator

    vars(dispatch).update(BaseBackend=BaseBackend, register=register)
    return _package({"fla": ModuleType("fla"), "fla.backends": dispatch})


def older(registries: dict[str, Registry]) -> dict[str, ModuleType]:
    """The modules of 0.5.2: registries of a class, filled when they are asked for."""

    class BackendRegistry:
        _registries: ClassVar[dict[str, Registry]] = {}

        @classmethod
        def ensure_initialized(cls, group: str) -> None:
            cls._registries.update({name: found for name, found in registries.items() if name == group})

    dispatch = ModuleType("fla.ops.backends")
    vars(dispatch).update(BaseBackend=BaseBackend, BackendRegistry=BackendRegistry)
    return _package({"fla": ModuleType("fla"), "fla.ops": ModuleType("fla.ops"), "fla.ops.backends": dispatch})


def _package(modules: dict[str, ModuleType]) -> dict[str, ModuleType]:
    for name, module in modules.items():
        module.__path__ = []
        module.__spec__ = None
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    return modules
