"""The plugin manager: built-ins and strangers, registered and called the same way."""

from __future__ import annotations

import functools
import inspect
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any, Final, ParamSpec, TypeVar

import pluggy

from prompt_coevo import hookspecs, removed
from prompt_coevo.errors import CoevoError, PluginError
from prompt_coevo.markers import INTERFACE, PROJECT, check_interface
from prompt_coevo.redact import redact
from prompt_coevo.registry import DISABLE_PLUGINS_VARIABLE, installed

logger = logging.getLogger(PROJECT)

P = ParamSpec("P")
R = TypeVar("R")
Report = Callable[[str, str, Exception], None]

_MARK: Final = f"{PROJECT}_impl"

# A gate that cannot answer must not let anything through, so its error is the caller's.
_RAISES: Final = frozenset({"coevo_check_candidate"})


class Plugins:
    """Loads plugins and calls their hooks, in pluggy's way: the last one registered is asked first.

    A hook is named by its specification, `plugins.first(hookspecs.coevo_propose, requests=...)`, so
    that a type checker knows its arguments and its result. A plugin that raises is reported through
    the log, without keys (`redact`, with the `secrets`), and `on_error(plugin name, hook, error)`, and
    passed over, so that it cannot stop a training run. Errors that prompt_coevo raises on purpose
    (CoevoError) pass through.
    """

    def __init__(self, on_error: Report | None = None, *, secrets: Sequence[str] = ()) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._on_error = on_error
        self._secrets = tuple(secrets)
        self._given: dict[str, object] = {}
        self._answering = ""
        self._answered: list[str] = []

    def register(self, plugin: object, name: str) -> None:
        """Add a plugin.

        Raises PluginError if the name is taken, the same object was added before, a hook does not fit
        its specification, or the plugin needs a newer interface.
        """
        if name in self._given:
            raise PluginError(
                f"the plugin {name!r} cannot be registered: the name is taken by a "
                f"{type(self._given[name]).__name__}; give it another one"
            )
        if any(plugin is other for other in self._given.values()):
            raise PluginError(
                f"the plugin {name!r} cannot be registered: the same object has another name already"
            )
        check_interface(f"the plugin {name!r}", getattr(plugin, "coevo_interface", INTERFACE))
        if gone := sorted(removed.HOOKS.keys() & set(dir(plugin))):
            raise PluginError(
                f"the plugin {name!r} cannot be registered: {gone[0]} was removed: {removed.HOOKS[gone[0]]}"
            )
        try:
            self._manager.register(_Guarded(plugin, name, self), name)
            self._manager.check_pending()
        except (TypeError, ValueError, pluggy.PluginValidationError) as error:
            if self._manager.has_plugin(name):
                self._manager.unregister(name=name)
            raise PluginError(f"the plugin {name!r} cannot be registered: {error}") from error
        self._given[name] = plugin

    def load_entry_points(self) -> None:
        """Add the installed third-party plugins, but those that PROMPT_COEVO_DISABLE_PLUGINS names."""
        for entry in installed(PROJECT):
            self.load(entry)

    def load(self, entry: EntryPoint) -> None:
        """Add an installed plugin. Raises PluginError."""
        self.register(_loaded(entry), entry.name)

    @property
    def names(self) -> list[str]:
        return list(self._given)

    def first(self, hook: Callable[P, R | None], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """The first result that is not None, of a hook that one provider answers."""
        result: R | None = self._call(hook, kwargs)
        return result

    def each(self, hook: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all plugins that implement the hook."""
        self._call(hook, kwargs)

    def by_plugin(
        self, hook: Callable[P, R | None], *args: P.args, **kwargs: P.kwargs
    ) -> dict[str, R]:
        """The results by plugin name, in the order of asking, of those that answer and do not raise.

        Raises PluginError if a hook wrapper answers with another number of results than it got.
        """
        self._answering, self._answered = hook.__name__, []
        results: Sequence[R] | None = self._call(hook, kwargs)
        if results is None:  # a wrapper raised; what the plugins say must not be lost with it
            return self._without_wrappers(hook.__name__, kwargs)
        if len(results) != len(self._answered):
            raise PluginError(
                f"a wrapper of {hook.__name__} answers {len(results)} results for those of "
                f"{len(self._answered)} plugins; it must answer one each, in their order"
            )
        return dict(zip(self._answered, results, strict=True))

    def _without_wrappers(self, hook: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        found = {}
        for one in reversed(caller.get_hookimpls()):
            if not (one.wrapper or one.hookwrapper):
                result = one.function(**{name: arguments[name] for name in one.argnames})
                if result is not None:
                    found[one.plugin_name] = result
        return found

    def only(
        self, name: str, hook: Callable[P, R | None], *args: P.args, **kwargs: P.kwargs
    ) -> R | None:
        """The result of one plugin's hook, None if it does not implement it. Errors pass through."""
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook.__name__)
        for one in caller.get_hookimpls():
            if one.plugin_name == name and not (one.wrapper or one.hookwrapper):
                guarded: Any = one.function
                result: R = guarded.__wrapped__(**{name: kwargs[name] for name in one.argnames})
                return result
        return None

    def implements(self, name: str, hook: Callable[..., object]) -> bool:
        """Whether the plugin of this name has the hook."""
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook.__name__)
        return any(one.plugin_name == name for one in caller.get_hookimpls())

    def report(self, plugin: str, hook: str, error: Exception) -> None:
        """Say in the log and to `on_error` that a plugin raised."""
        # Not as exc_info: the log would format the error itself, with the keys in it.
        told = "".join(traceback.format_exception(error)).rstrip()
        logger.error("the plugin %r raised in %s:\n%s", plugin, hook, redact(told, *self._secrets))
        if self._on_error is not None:
            self._on_error(plugin, hook, error)

    def answered(self, plugin: str, hook: str) -> None:
        """A plugin has answered; pluggy's results alone do not say which."""
        if hook == self._answering:
            self._answered.append(plugin)

    def _call(self, hook: Callable[..., object], arguments: Mapping[str, object]) -> Any:
        try:
            return getattr(self._manager.hook, hook.__name__)(**arguments)
        except CoevoError:
            raise
        except Exception as error:
            if hook.__name__ in _RAISES:
                raise
            self.report("a hook wrapper", hook.__name__, error)  # plugins are guarded one by one
            return None


class _Guarded:
    """A plugin whose hooks report what they raise and answer None.

    pluggy sees this in the plugin's place, so that order, first results and wrappers are its own.
    """

    def __init__(self, plugin: object, name: str, manager: Plugins) -> None:
        for attribute in dir(plugin):
            if isinstance(inspect.getattr_static(plugin, attribute, None), property):
                continue  # looking at it would run it
            method = getattr(plugin, attribute, None)
            options = getattr(method, _MARK, None)
            if callable(method) and isinstance(options, dict):
                hook = options.get("specname") or attribute
                setattr(self, attribute, _guarded(method, hook, options, (name, manager)))


def _guarded(
    method: Callable[..., Any],
    hook: str,
    options: Mapping[str, Any],
    owner: tuple[str, Plugins],
) -> Callable[..., Any]:
    name, manager = owner
    if options.get("wrapper") or options.get("hookwrapper"):
        if not inspect.isgeneratorfunction(method):
            raise TypeError(f"the wrapper of {hook} has no yield")

        @functools.wraps(method)
        def around(*args: Any, **kwargs: Any) -> Any:
            return (yield from method(*args, **kwargs))

        return around

    @functools.wraps(method)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            result = method(*args, **kwargs)
        except CoevoError:
            raise
        except Exception as error:
            if hook in _RAISES:
                raise
            manager.report(name, hook, error)
            return None
        if result is not None:
            manager.answered(name, hook)
        return result

    return guarded


def _loaded(entry: EntryPoint) -> object:
    try:
        plugin: object = entry.load()
    except Exception as error:
        raise PluginError(
            f"the installed plugin {entry.name!r} cannot be loaded: {error}; "
            f"uninstall it, or switch it off with {DISABLE_PLUGINS_VARIABLE}={entry.name}"
        ) from error
    return plugin
